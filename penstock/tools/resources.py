"""What the calls behind one door reach: files, values, secrets, other servers."""

from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.core.state import Scope, ScopeKind
from penstock.resources.channels import Channel
from penstock.resources.egress import Egress
from penstock.resources.links import Links
from penstock.resources.project.access import NOTHING_LOADED, Access, HiddenFiles, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files, Media, Workspace
from penstock.sandbox.processes.slots import ProcessSlots
from penstock.store.blobs.blobs import Blobs
from penstock.tools.callbacks import Callbacks
from penstock.tools.given_secrets import GivenSecrets
from penstock.tools.results.artifacts import Artifacts
from penstock.tools.shell import OFF, ShellSettings

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
