"""What the calls behind one door reach: files, values, secrets, other servers."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Envelope, Json
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.core.state import Scope, ScopeKind
from penstock.engine.ledger import Ledger
from penstock.resources.channels import Channel
from penstock.resources.egress import Egress
from penstock.resources.links import Links
from penstock.resources.project.access import NOTHING_LOADED, Access, HiddenFiles, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files, Media, Workspace
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.store.blobs import Blobs
from penstock.tools.artifacts import Artifacts
from penstock.tools.policy import Caller
from penstock.tools.redaction import GivenSecrets
from penstock.tools.shell import OFF, ShellSettings


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


NO_PROJECT = "there is no project folder here: open one with penstock.open(directory)"
"""The message if a tool needs a project and there is none."""


class ProjectFolder(Struct, frozen=True, kw_only=True):
    """The folder of the project itself, where agents read, write and run commands."""

    root: Path
    private: tuple[str, ...] = ()
    """Places in it that are the runtime's own: its database, its key."""
    loaded: LoadedFiles = NOTHING_LOADED
    """The files that decide what runs, whatever their names are."""
    hidden: HiddenFiles = field(default_factory=HiddenFiles)
    """The files that no agent reads, under whatever name."""
    shell: ShellSettings = OFF
    """Whether commands run in it."""
    searches: ProcessSlots = field(default_factory=ProcessSlots)
    """Searches for lines are processes too: so many at once, tasks in turn."""

    def files(self, access: Access) -> ProjectFiles:
        """Return the files in it, as an agent sees them."""
        own = replace(access, private=self.private, loaded=self.loaded)
        return ProjectFiles(self.root, own, self.hidden)


class Resources(Struct, frozen=True, kw_only=True):
    """What calls may use beyond their input; what is None is not set up here."""

    artifacts: Artifacts
    blobs: Blobs | None = None
    files: Files | None = None
    state: State | None = None
    vault: Vault | None = None
    egress: Egress | None = None
    media: Media | None = None
    links: Links | None = None
    channels: tuple[Channel, ...] = ()
    """Where notifications may go."""
    web_url: str = ""
    """Where people find the server, for links that leave it."""
    project: ProjectFolder | None = None
    """The folder of the project itself."""
    secrets: GivenSecrets = field(default_factory=GivenSecrets)
    """What was given out of the vault, by task."""
    callbacks: Callbacks = field(default_factory=Callbacks)
    """What is built on the door, for tools that have something done by it."""

    def workspace(self, log_id: LogId, task_id: TaskId, limits: Limits) -> Workspace | None:
        """Return the two file trees that the calls of a task see."""
        if self.files is None or self.blobs is None:
            return None
        owners = {
            ScopeKind.TASK: Scope(ScopeKind.TASK, task_id),
            ScopeKind.SESSION: Scope(ScopeKind.SESSION, log_id),
        }
        return Workspace(self.files, self.blobs, owners, limits)
