"""Resources of calls: files, values, secrets, servers, and ports upwards.

Ports (`Callbacks`) are how tools reach what is built above them: agents, runs of flows, files of
agents and flows. `app/wiring.py` implements them, because this package may not import higher ones.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, Json
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.task import TaskRecord
from penstock.engine.ledger import Ledger
from penstock.resources.channels import Channel
from penstock.resources.dependencies import Dependencies
from penstock.resources.egress import Egress
from penstock.resources.project.access import NOTHING_LOADED, Access, HiddenFiles, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.resources.signed_links import Links
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files, Media, Workspace
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.store.blobs import Blobs
from penstock.tools.artifacts import Artifacts
from penstock.tools.policy import Caller
from penstock.tools.redaction import GivenSecrets
from penstock.tools.shell import OFF, ShellSettings


class SubagentRequest(Struct, frozen=True, kw_only=True):
    """A call's request to run an agent."""

    agent: str
    task: str
    inputs: Mapping[str, str]
    path: CallPath
    """The call's path. The agent's own calls have paths below it."""
    caller: Caller


class AgentRequest(Struct, frozen=True, kw_only=True):
    """A call's request to run an agent that is a tool of its agent."""

    agent: Any
    """The agent. This package does not know the class."""
    task: str
    path: CallPath
    """The call's path, which is the agent's frame."""
    caller: Caller
    is_typed: bool = True
    """Return the typed output, and not the text of the answer."""
    called_at: CallPath | None = None
    """The place of the call, if the frame has another place."""
    additions: tuple[str, str] = ("", "")
    """Texts of its system prompt, before and after those of its skills."""
    selected: tuple[str, ...] = ()
    """Skills that are selected for it."""


class FlowRequest(Struct, frozen=True, kw_only=True):
    """A call's request to start a run of a flow."""

    command: str
    task: str | None = None
    inputs: Json = field(default_factory=dict)
    key: str
    """Stays the same when the call runs again, so that the call finds its run."""
    depth: int
    """The number of runs around it, itself included."""
    profile: Profile
    waiter: tuple[LogId, TaskId]
    """The task that is notified of its end, with the task's log."""
    is_autonomous: bool = False
    """Whether it must not ask a person, whatever the project's default is."""


class ScheduleRequest(Struct, frozen=True, kw_only=True):
    """A call's request to create a schedule."""

    schedule_id: str
    """Stays the same when the call runs again, so that the call finds its schedule."""
    agent: str
    profile: Profile
    session_id: str | None
    """The conversation of the call, for messages."""
    given: Json
    """The input of the call."""


class ScheduleCalls(Protocol):
    """Creates schedules for calls of tools, and shows them. `chat` implements it.

    Contract: `create_by_call` creates one schedule for each id, and raises InvalidRequest for a
    wrong line, zone or workflow, and ToolFailed if the agent has too many. `info_for_call` returns
    one schedule of the agent and the profile (with `manage`, of any profile), or without an id a
    list of them, and raises NotFound.
    """

    async def create_by_call(self, request: ScheduleRequest) -> Json:
        """Create a schedule, or return the one that the same call created before."""

    async def info_for_call(self, schedule_id: str | None, agent: str, profile: Profile) -> Json:
        """Return a schedule, or those of an agent that the profile may see."""


RunAgent = Callable[[SubagentRequest, Ledger], Awaitable[Json]]
"""Runs an agent, and returns the input of its `finish`. Raises CallError; lets Signals pass."""
AskAgent = Callable[[AgentRequest, Ledger], Awaitable[Any]]
"""Runs an agent that is a tool, and returns its output. Raises CallError; lets Signals pass."""
StartRun = Callable[[FlowRequest], Awaitable[TaskId]]
"""Starts a run, once for each key. Raises NotFound for a command that no flow has."""
WaitForRun = Callable[[TaskId, TaskId], Awaitable[Envelope | None]]
"""Waits for the end of a run, for a task; returns its outcome, or None if it waits for people."""
AbortRun = Callable[[TaskId, Profile], Awaitable[None]]
"""Cancels a run. Does nothing if it has ended."""


class Runs(Struct, frozen=True, kw_only=True):
    """The runs of flows, each a task of its own."""

    start: StartRun
    wait: WaitForRun
    abort: AbortRun


class Children(Protocol):
    """The tasks that calls request, wait for and cancel.

    Contract: all may be repeated. `create` leaves children that exist as they are.
    """

    def check(self, child: ChildRequested, caller: Caller) -> None:
        """Raise ToolFailed (unknown skills) or NotPermitted (tools) if a child could not work."""

    async def create(self, children: Sequence[tuple[TaskId, ChildRequested]]) -> None:
        """Create children. Raises SessionBusy if the tree of their root has no room."""

    async def find(self, task_ids: Sequence[TaskId], profile: Profile) -> list[TaskRecord | None]:
        """Return tasks of a profile; None for an unknown one."""

    async def attend(self, task_id: TaskId, waiter: TaskId, waiter_log: LogId) -> None:
        """Have the end of a task reported to another one; at once if it has ended or is gone."""

    async def cancel(self, task_id: TaskId, profile: Profile) -> list[TaskId]:
        """Cancel a task and what it spawned, deepest first; return those that had not ended."""

    async def work_here(self, child: ChildRequested, request: AgentRequest, ledger: Ledger) -> str:
        """Run what a child would do in a frame of the call; return its answer.

        `request` has no agent and no task yet. Raises CallError; lets Signals pass.
        """


class Authoring(Struct, frozen=True, kw_only=True):
    """The agents and flows of a project, for tools that write them. All but the list may block."""

    agents: Callable[[], list[Json]]
    """The list that `agent_catalog` returns."""
    write_agent: Callable[[str, str], Json]
    """Checks a text, writes it to a path, and returns the output of `agent_write`."""
    write_flow: Callable[[str, str], Json]
    rediscover: Callable[[], Json]
    """Reads the project again, and returns a report."""


class Callbacks(Struct, frozen=True, kw_only=True):
    """Ports to what is built above this package. None means that this runtime has none."""

    run_agent: RunAgent | None = None
    ask_agent: AskAgent | None = None
    runs: Runs | None = None
    authoring: Authoring | None = None
    schedules: Callable[[], ScheduleCalls] | None = None
    children: Children | None = None


NO_PROJECT = "there is no project folder here: open one with penstock.open(directory)"
"""The message if a tool needs a project and there is none."""


class ProjectFolder(Struct, frozen=True, kw_only=True):
    """The folder of the project itself, where agents read, write and run commands."""

    root: Path
    private: tuple[str, ...] = ()
    """Paths in it that belong to the runtime: its database, its key."""
    loaded: LoadedFiles = NOTHING_LOADED
    """The files that decide what runs, under any name."""
    hidden: HiddenFiles = field(default_factory=HiddenFiles)
    """The files that no agent may read, under any name."""
    shell: ShellSettings = OFF
    """Whether commands run in it."""
    searches: ProcessSlots = field(default_factory=ProcessSlots)
    """Bounds the search processes that run at once. Tasks take turns."""

    def files(self, access: Access) -> ProjectFiles:
        """Return its files with the access of an agent."""
        own = replace(access, private=self.private, loaded=self.loaded)
        return ProjectFiles(self.root, own, self.hidden)


class Resources(Struct, frozen=True, kw_only=True):
    """Resources of calls. None means that this runtime has none."""

    artifacts: Artifacts
    blobs: Blobs | None = None
    files: Files | None = None
    state: State | None = None
    vault: Vault | None = None
    egress: Egress | None = None
    media: Media | None = None
    links: Links | None = None
    channels: tuple[Channel, ...] = ()
    """Channels for notifications."""
    web_url: str = ""
    """The server's public address, for links in notifications."""
    project: ProjectFolder | None = None
    """The folder of the project itself."""
    dependencies: Dependencies | None = None
    """Live objects of the program, for Python tools."""
    secrets: GivenSecrets = field(default_factory=GivenSecrets)
    """The secrets that tasks have received."""
    callbacks: Callbacks = field(default_factory=Callbacks)
    """Ports to what is built above this package."""

    def workspace(self, log_id: LogId, task_id: TaskId, limits: Limits) -> Workspace | None:
        """Return the file trees of a task and its conversation."""
        if self.files is None or self.blobs is None:
            return None
        owners = {
            ScopeKind.TASK: Scope(ScopeKind.TASK, task_id),
            ScopeKind.SESSION: Scope(ScopeKind.SESSION, log_id),
        }
        return Workspace(self.files, self.blobs, owners, limits)
