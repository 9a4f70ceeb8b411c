"""Ports through which tools reach what is built above them: agents, runs of flows, new files.

`app/wiring.py` implements them and passes them to the invoker with the other `Resources`.
"""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, Json
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.tools.access.policy import Caller


class SubagentRequest(Struct, frozen=True, kw_only=True):
    """One agent that a call wants at work."""

    agent: str
    task: str
    inputs: Mapping[str, str]
    path: CallPath
    """Of the call: the agent works in its frame."""
    caller: Caller


class FlowRequest(Struct, frozen=True, kw_only=True):
    """One run of a flow that a call wants."""

    command: str
    task: str | None = None
    inputs: Json = field(default_factory=dict)
    key: str
    """The same for the same call, so that it finds its run again."""
    depth: int
    """How many runs it is nested in, including itself."""
    profile: Profile
    waiter: tuple[LogId, TaskId]
    """The task that is notified of its end, with its log."""
    is_autonomous: bool = False
    """Whether it must not ask a person, whatever the project's default is."""


RunAgent = Callable[[SubagentRequest, Ledger], Awaitable[Json]]
"""Puts an agent to work; returns what it gave to `finish`. Raises CallError, and lets Signals pass.
"""
Begin = Callable[[FlowRequest], Awaitable[TaskId]]
"""Begins a run, once for each key. Raises NotFound for a command that no flow has."""
End = Callable[[TaskId, TaskId], Awaitable[Envelope | None]]
"""Waits while a run is at work, for a task; returns its outcome, None while it waits for people."""
Abort = Callable[[TaskId, Profile], Awaitable[None]]
"""Ends a run; nothing if it has ended."""


class Runs(Struct, frozen=True, kw_only=True):
    """The runs of flows, each a task of its own."""

    begin: Begin
    end: End
    abort: Abort


class Authoring(Struct, frozen=True, kw_only=True):
    """The agents and flows of a project, for tools that write them. All but the list may block."""

    agents: Callable[[], list[Json]]
    """What `agent_catalog` tells."""
    write_agent: Callable[[str, str], Json]
    """Checks a text and writes it to a path; returns what `agent_write` answers."""
    write_flow: Callable[[str, str], Json]
    rediscover: Callable[[], Json]
    """Reads the project again, and returns a report."""


class Callbacks(Struct, frozen=True, kw_only=True):
    """What tools may have done; what is None is not set up here."""

    run_agent: RunAgent | None = None
    runs: Runs | None = None
    authoring: Authoring | None = None
