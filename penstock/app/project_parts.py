"""What a runtime is assembled from: where it stores things, and what a project brings."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from penstock.agents.catalog import Catalog
from penstock.agents.file import NOTHING_KNOWN
from penstock.agents.file_checks import KnownNames
from penstock.agents.prompt_prefix import PromptPrefix
from penstock.app.authoring import ignore
from penstock.chat.database_parts import DatabaseParts
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
from penstock.manifest.handbooks.handbook import Handbooks
from penstock.models.names import ModelNames
from penstock.models.resolve import Models
from penstock.resources.channels import Channel
from penstock.resources.egress import Egress
from penstock.resources.media import Media
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files
from penstock.store.blobs.blobs import Blobs
from penstock.store.logs.log import Log
from penstock.store.projections.projections import Projections
from penstock.tools.access.rules import Rules
from penstock.tools.access.skills import NO_SKILLS, Skills
from penstock.tools.registry import Registry
from penstock.tools.resources import ProjectFolder

NO_FLOWS = NoFlows()
NO_ROLES = ModelNames()
AS_USUAL = FlowSettings()
NO_HANDBOOKS = Handbooks()


class Storage(Struct, frozen=True, kw_only=True):
    """Where things are kept, and as whom this process keeps them."""

    log: Log
    projections: Projections
    blobs: Blobs
    key: bytes
    """Of this installation."""
    owner: str
    """The name of this process, as holder of leases."""
    database_parts: DatabaseParts | None = None
    """None where nothing is kept."""
    files: Files | None = None
    state: State | None = None
    vault: Vault | None = None
    media: Media | None = None


class ProjectParts(Struct, frozen=True, kw_only=True):
    """What a project brings: tools and rules, agents, models."""

    registry: Registry
    rules: Rules
    agents: Catalog
    models: Models
    skills: Skills = NO_SKILLS
    prompt_prefix: PromptPrefix | None = None
    """What stands first in every system prompt."""
    web_url: str = ""
    """Where its web page is."""
    channels: tuple[Channel, ...] = ()
    """Where notifications may go."""
    egress: Egress | None = None
    """Where its tools may reach; None: nowhere."""
    flows: FlowLibrary = NO_FLOWS
    flow_settings: FlowSettings = AS_USUAL
    model_names: ModelNames = NO_ROLES
    """What roles and other spellings of models mean."""
    flow_files: ProjectFlows | None = None
    """The same, where they are files of the project's folder."""
    code_environment: CodeEnvironment | None = None
    """What code steps of flows run in; None: they fail."""
    confinement: Mapping[str, str] = field(default_factory=dict)
    """Every layer that is to confine scripts, with why this machine lacks it, or nothing."""
    handbooks: Handbooks = NO_HANDBOOKS
    """What agents of flows are given to read, besides files of the project."""
    nameable: KnownNames = NOTHING_KNOWN
    """What agents that are written may name."""
    project: ProjectFolder | None = None
    """The folder itself, for tools that work in it; None where there is none."""
    guards: GuardsOf = no_guards
    """Those of plugins, for each agent session."""
    gate: GateCheck = always_open
    """What plugins let runs pass."""
    packages: Sequence[Path] = ()
    """Folders of plugins with agents."""
    rediscovered: Callable[[Json], None] = ignore
    """Is passed the agents, flows and findings whenever all files were read again."""
    local: Profile = LOCAL_PROFILE
    """The profile of work that names none."""
