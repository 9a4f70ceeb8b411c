"""The input of `assemble`: the storage of a runtime, and the parts of a project."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from penstock.accounts.keys import Keys, SignIns
from penstock.accounts.web_links import WebLinks
from penstock.agents.catalog import Catalog
from penstock.agents.file import NOTHING_KNOWN
from penstock.agents.file_checks import KnownNames
from penstock.agents.prompt_prefix import PromptPrefix
from penstock.app.authoring import ignore
from penstock.core.clock import Clock
from penstock.core.envelope import Json
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.flows.agents.agent_sessions import (
    GuardsOf,
    no_guards,
)
from penstock.flows.code.steps import CodeEnvironment
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import FlowLibrary, NoFlows
from penstock.flows.starting import FlowSettings
from penstock.flows.work import GateCheck, always_open
from penstock.manifest.handbook import Handbooks
from penstock.manifest.permissions import PermissionCatalog
from penstock.models.names import ModelNames
from penstock.models.resolve import Models
from penstock.resources.channels import Channel
from penstock.resources.cipher import Cipher
from penstock.resources.egress import Egress
from penstock.resources.media import Media
from penstock.resources.state import State
from penstock.resources.vault import SqlVault, Vault
from penstock.resources.workspace import Files
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasing.erasure import Erasure
from penstock.store.erasing.sweeper import Sweeper
from penstock.store.logs.log import Log
from penstock.store.metrics import Metrics
from penstock.store.projections.lookup import Lookup
from penstock.store.projections.projections import Projections
from penstock.store.repair.health import look
from penstock.tools.access.rules import Rules
from penstock.tools.access.skills import NO_SKILLS, Skills
from penstock.tools.registry import Registry
from penstock.tools.resources import ProjectFolder


class DatabaseParts:
    """Keys, links, sign-ins and the vault; search, metrics and erasure of conversations."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        clock: Clock,
        cipher: Cipher,
        *,
        permissions: PermissionCatalog | None = None,
    ) -> None:
        self.look = partial(look, database, blobs)
        """Checks whether the store works."""
        self.keys = Keys(database, clock, catalog=permissions)
        self.lookup = Lookup(database, blobs)
        self.metrics = Metrics(database, blobs)
        self.erasure = Erasure(database, blobs, clock)
        self.sweeper = Sweeper(self.erasure, blobs, clock, seconds=database.limits.loose_seconds)
        self.vault = SqlVault(database, cipher, clock)
        self.web_links = WebLinks(database, clock)
        self.sign_ins = SignIns(database, self.keys, clock)


NO_FLOWS = NoFlows()
NO_ROLES = ModelNames()
AS_USUAL = FlowSettings()
NO_HANDBOOKS = Handbooks()


class Storage(Struct, frozen=True, kw_only=True):
    """The storage of a runtime, and the identity of this process in it."""

    log: Log
    projections: Projections
    blobs: Blobs
    key: bytes
    """The secret of this installation."""
    owner: str
    """The name of this process as the owner of leases."""
    database_parts: DatabaseParts | None = None
    """None where nothing is kept."""
    files: Files | None = None
    state: State | None = None
    vault: Vault | None = None
    media: Media | None = None


class ProjectParts(Struct, frozen=True, kw_only=True):
    """The parts of a project: tools, rules, agents, models, flows."""

    registry: Registry
    rules: Rules
    agents: Catalog
    models: Models
    skills: Skills = NO_SKILLS
    prompt_prefix: PromptPrefix | None = None
    """The beginning of every system prompt."""
    web_url: str = ""
    """The URL of its web page."""
    channels: tuple[Channel, ...] = ()
    """The channels of notifications."""
    egress: Egress | None = None
    """The network access of its tools; None means none."""
    flows: FlowLibrary = NO_FLOWS
    flow_settings: FlowSettings = AS_USUAL
    model_names: ModelNames = NO_ROLES
    """Resolves roles and other spellings of model names."""
    flow_files: ProjectFlows | None = None
    """The same flows, if they are files of the project's folder."""
    code_environment: CodeEnvironment | None = None
    """The environment of code steps; without one they fail."""
    confinement: Mapping[str, str] = field(default_factory=dict)
    """The layers that confine scripts, each with the reason if this machine lacks it."""
    handbooks: Handbooks = NO_HANDBOOKS
    """The handbooks that agents of flows read."""
    nameable: KnownNames = NOTHING_KNOWN
    """The names that agent files can refer to."""
    project: ProjectFolder | None = None
    """The project's folder, for tools that work in it; None without a folder."""
    guards: GuardsOf = no_guards
    """Returns the guards of plugins for an agent session."""
    gate: GateCheck = always_open
    """Returns why the gates of plugins refuse a run, or None."""
    packages: Sequence[Path] = ()
    """Folders of plugins with agents."""
    rediscovered: Callable[[Json], None] = ignore
    """Receives the agents, flows and findings after every reload of the files."""
    local: Profile = LOCAL_PROFILE
    """The profile of work that names none."""
