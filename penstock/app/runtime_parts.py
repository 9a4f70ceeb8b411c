"""The parts of a runtime: what `assemble` takes, and what the server and the CLI use.

ProjectParts and Storage are the input. RuntimeParts is the result, in one struct for each package
below that has parts with readers above: take the struct, not the whole, where one is enough.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from penstock.accounts.keys import Keys, SignIns
from penstock.accounts.web_links import WebLinks
from penstock.agents.attachments.keeper import AttachmentKeeper
from penstock.agents.catalog import Catalog
from penstock.agents.prompt import PromptPrefix
from penstock.app.authoring import ProjectAuthoring
from penstock.chat.calls.direct_calls import MakeLink
from penstock.chat.participants import Participants
from penstock.chat.schedules.rows import ScheduleRows
from penstock.chat.schedules.scheduler import Scheduler
from penstock.core.clock import Clock
from penstock.core.ids import BlobId, LogId, SessionId
from penstock.core.limits import World
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.engine.bus import Bus
from penstock.engine.launcher import Launcher
from penstock.engine.relay import Relay
from penstock.flows.agents.briefing import Materials
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import FlowLibrary, NoFlows
from penstock.flows.run_body import FlowWork
from penstock.flows.starting import FlowSettings
from penstock.flows.steps.kind import CodeEnvironment
from penstock.manifest.handbook import HandbookCatalog
from penstock.manifest.permissions import PermissionCatalog
from penstock.models.names import ModelNames
from penstock.models.resolve import ModelRegistry
from penstock.resources.channels import Channel
from penstock.resources.cipher import Cipher
from penstock.resources.dependencies import GivenDeps
from penstock.resources.egress import Egress
from penstock.resources.signed_links import Links
from penstock.resources.sql_stores import SqlVault
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files, Media
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.log import Log
from penstock.store.logs.outbox import Outbox
from penstock.store.logs.webhook import Webhook
from penstock.store.metrics import Metrics
from penstock.store.projections import Projections
from penstock.store.references import Lookup
from penstock.store.repair import probe
from penstock.store.upkeep.rules import KEEP_ALL, RetentionPlan
from penstock.store.upkeep.sweeper import Sweeper
from penstock.tools.hooks.hooks import HookRegistry
from penstock.tools.invoker import Invoker
from penstock.tools.policy import RuleSet
from penstock.tools.resources import Authoring, Callbacks, ProjectFolder
from penstock.tools.skills import NO_SKILLS, Skills
from penstock.tools.tool import Registry


class DatabaseParts:
    """Keys, links, sign-ins, the vault and the outbox; search, metrics and erasure."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        clock: Clock,
        cipher: Cipher,
        *,
        permissions: PermissionCatalog | None = None,
        plan: RetentionPlan = KEEP_ALL,
    ) -> None:
        self.look = partial(probe, database, blobs)
        """Checks whether the store works."""
        self.keys = Keys(database, clock, catalog=permissions)
        self.lookup = Lookup(database, blobs)
        self.metrics = Metrics(database, blobs)
        self.erasure = Erasure(database, blobs, clock)
        self.sweeper = Sweeper(database, blobs, clock, erasure=self.erasure, plan=plan)
        self.schedules = ScheduleRows(database)
        self.vault = SqlVault(database, cipher, clock)
        self.outbox = Outbox(database)
        self.web_links = WebLinks(database, clock)
        self.sign_ins = SignIns(database, self.keys, clock)


NO_FLOWS = NoFlows()
NO_DEPS = GivenDeps()
NO_ROLES = ModelNames()
DEFAULT_SETTINGS = FlowSettings()
NO_HANDBOOKS = HandbookCatalog()


class Storage(Struct, frozen=True, kw_only=True):
    """The storage of a runtime, and the identity of this process in it."""

    log: Log
    projections: Projections
    blobs: Blobs
    key: bytes
    """The secret of this installation, from which ids of calls are derived."""
    links: Links
    """Signs links to blobs."""
    owner: str
    """The name of this process as the owner of leases."""
    database_parts: DatabaseParts | None = None
    """None without a database, as in memory."""
    files: Files | None = None
    state: State | None = None
    vault: Vault | None = None
    media: Media | None = None
    folder: Path | None = None
    """The data folder of the project; None in memory."""
    webhooks: tuple[Webhook, ...] = ()
    """The receivers whose deliveries the log writes."""

    def on_erasure(self, listener: Callable[[LogId], None]) -> None:
        """Call a function with each log that is erased. Without a database nothing is erased."""
        if self.database_parts is not None:
            self.database_parts.erasure.listen(listener)

    async def is_owned(self, blob_id: BlobId, profile: Profile) -> bool:
        """Whether a conversation of a profile refers to bytes. Without a database none does."""
        parts = self.database_parts
        return parts is not None and await parts.lookup.is_owned(blob_id, profile)

    def link_maker(self, web_url: str) -> MakeLink | None:
        """Return the function that creates links to conversations; None without a database."""
        if self.database_parts is None:
            return None
        make, page = self.database_parts.web_links.make, web_url.rstrip("/")

        async def link(session_id: SessionId, profile: Profile) -> str:
            return f"{page}/link/{await make(session_id, profile)}"

        return link


class DeclaredTools(Struct, frozen=True, kw_only=True):
    """The tools of a project, and the limits of their reach."""

    registry: Registry
    rules: RuleSet
    skills: Skills = NO_SKILLS
    egress: Egress | None = None
    """Their network access; None means none."""
    channels: tuple[Channel, ...] = ()
    """The channels of notifications."""
    web_url: str = ""
    """The URL of the project's web page."""


class DeclaredAgents(Struct, frozen=True, kw_only=True):
    """The agents of a project, and their models."""

    catalog: Catalog
    models: ModelRegistry
    model_names: ModelNames = NO_ROLES
    """Resolves roles and other spellings of model names."""
    prompt_prefix: PromptPrefix | None = None
    """The beginning of every system prompt."""
    hooks: HookRegistry = field(default_factory=HookRegistry)
    """The hooks of the project."""
    deps: GivenDeps = NO_DEPS
    """The dependencies that the program gave."""


class DeclaredFlows(Struct, frozen=True, kw_only=True):
    """The flows of a project, and what their steps use."""

    library: FlowLibrary = NO_FLOWS
    files: ProjectFlows | None = None
    """The same flows, if they are files of the project's folder."""
    settings: FlowSettings = DEFAULT_SETTINGS
    handbooks: HandbookCatalog = NO_HANDBOOKS
    """The handbooks that agents of flows read."""
    code_environment: CodeEnvironment | None = None
    """The environment of code steps; without one they fail."""


NOTHING_DECLARED = DeclaredFlows()


class ProjectParts(Struct, frozen=True, kw_only=True):
    """The parts of a project: tools, agents, flows, and its folder."""

    tools: DeclaredTools
    agents: DeclaredAgents
    flows: DeclaredFlows = NOTHING_DECLARED
    folder: ProjectFolder | None = None
    """The project's folder, for tools that work in it; None without a folder."""
    authoring: ProjectAuthoring | None = None
    """Writes agents and flows of the folder; None without a folder."""
    confinement: Mapping[str, str] = field(default_factory=dict)
    """The layers that confine scripts, each with the reason if this machine lacks it."""
    local: Profile = LOCAL_PROFILE
    """The profile of work that names none."""

    @property
    def authoring_callbacks(self) -> Authoring | None:
        """The callbacks of tools that write agents and flows."""
        return None if self.authoring is None else self.authoring.callbacks


class EngineParts(Struct, frozen=True, kw_only=True):
    """The parts that run tasks and publish their events."""

    launcher: Launcher
    bus: Bus
    """The events and deltas of this process."""
    relay: Relay
    """The deltas of this process for readers in other processes."""


class ChatParts(Struct, frozen=True, kw_only=True):
    """The agents of conversations."""

    agents: Catalog
    models: ModelRegistry
    participants: Participants
    """Their tools, models, skills and prompt prefix."""
    attachments: AttachmentKeeper
    """Stores the files of messages."""
    schedules: Scheduler
    """Creates and changes schedules."""


class ToolParts(Struct, frozen=True, kw_only=True):
    """The tools of the project."""

    invoker: Invoker
    """Calls the tools in `invoker.registry`."""
    callbacks: Callbacks
    """The functions that tools call in higher packages."""
    project: ProjectParts
    """The declared parts, from which the runtime was assembled."""

    @property
    def confinement(self) -> Mapping[str, str]:
        """The layers that confine scripts, each with the reason if this machine lacks it."""
        return self.project.confinement


class FlowParts(Struct, frozen=True, kw_only=True):
    """The flows of the project."""

    work: FlowWork
    """Runs flows."""
    materials: Materials
    """The handbooks and files that agents of flows read."""
    files: ProjectFlows | None = None
    """The flows of the project's folder; None without a folder."""
    authoring: ProjectAuthoring | None = None
    """Writes agents and flows of the project's folder; None without a folder."""


class RuntimeParts(Struct, frozen=True, kw_only=True):
    """The parts of a runtime, for the server and the CLI."""

    world: World
    """The clock, the limits and the source of ids."""
    storage: Storage
    engine: EngineParts
    chat: ChatParts
    tools: ToolParts
    flows: FlowParts
