"""The one place where concrete things meet. It decides nothing."""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.agents.catalog import Catalog
from penstock.agents.file import NOTHING_KNOWN
from penstock.agents.file_checks import KnownNames
from penstock.agents.preface import Preface
from penstock.app.authoring import ProjectAuthoring
from penstock.app.runtime import Runtime, RuntimeParts
from penstock.chat.calls import CallWork, DirectCalls
from penstock.chat.commands import CommandWork, MakeLink
from penstock.chat.database_parts import DatabaseParts
from penstock.chat.inbox import Inbox
from penstock.chat.needs import Needs
from penstock.chat.runs import RunNotifier, ToolRuns
from penstock.chat.session import ChatWork, Participants
from penstock.chat.task_closer import TaskCloser
from penstock.chat.task_starter import TaskStarter
from penstock.core.events import CallRequested, MessageReceived, TaskEnded, TaskStarted
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import LogId, SessionId
from penstock.core.profile import Profile
from penstock.core.slash import is_answered_by_model
from penstock.core.world import World
from penstock.engine.activation import Activations
from penstock.engine.bus import Bus
from penstock.engine.held import HeldLog
from penstock.engine.inline import InlineLauncher
from penstock.engine.relay import Relay
from penstock.engine.slots import Slots
from penstock.engine.task_body import TaskBody
from penstock.engine.task_state import TaskState
from penstock.flows.agents.agent_sessions import (
    AgentEnvironment,
    AgentSessions,
    GuardsOf,
    no_guards,
)
from penstock.flows.agents.materials import Materials
from penstock.flows.agents.subagents import Subagents
from penstock.flows.code.steps import CodeEnvironment, CodeSteps
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import FlowLibrary, NoFlows
from penstock.flows.starting import FlowSettings, wanted_by
from penstock.flows.steps.shell import ShellSteps
from penstock.flows.steps.step_runner import StepRunner
from penstock.flows.work import FlowWork, GateCheck, always_open
from penstock.manifest.handbook import Handbooks
from penstock.models.model import Model
from penstock.models.names import ModelNames
from penstock.models.resolve import Models
from penstock.models.thinking import ThinkingModel
from penstock.resources.channels import Channel
from penstock.resources.egress import Egress
from penstock.resources.links import Links
from penstock.resources.media import Media
from penstock.resources.state import State
from penstock.resources.vault import Vault
from penstock.resources.workspace import Files
from penstock.store.blobs import Blobs
from penstock.store.log import Log
from penstock.store.projections import Projections
from penstock.tools.artifacts import Artifacts
from penstock.tools.direct import DirectTools
from penstock.tools.invoker import Invoker
from penstock.tools.python.function import as_tool
from penstock.tools.registry import Registry
from penstock.tools.resources import ProjectFolder, Resources
from penstock.tools.rules import Rules
from penstock.tools.skills import NO_SKILLS, Skills
from penstock.tools.tool import Tool


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


NO_FLOWS = NoFlows()
NO_ROLES = ModelNames()
AS_USUAL = FlowSettings()
NO_HANDBOOKS = Handbooks()


class AgentInvokers:
    """The invoker of each agent: the project's, or one over the agent's own tools."""

    def __init__(self, shared: Invoker) -> None:
        self._shared = shared
        self._own: WeakKeyDictionary[Agent, Invoker] = WeakKeyDictionary()

    def of(self, agent: Agent) -> Invoker:
        """Return the door that an agent's model calls tools through."""
        if agent.tools is None:
            return self._shared
        own = self._own.get(agent)
        if own is None:
            own = self._own[agent] = self._shared.over(Registry(map(as_tool, agent.tools)))
        return own


class TaskDispatcher:
    """Which body a task has, by what asked for it."""

    def __init__(
        self, chat: ChatWork, calls: CallWork, commands: CommandWork, flows: FlowWork
    ) -> None:
        self._chat = chat
        self._calls = calls
        self._commands = commands
        self._flows = flows

    def start(
        self, log_id: LogId, name: str, message: MessageReceived, profile: Profile
    ) -> TaskStarted | None:
        """Return how the task of a message to an agent starts; None when it cannot."""
        if is_answered_by_model(message.content):
            return self._chat.start(log_id, name, message, profile)
        return self._commands.start(message)

    def work(self, held: HeldLog, task: TaskState) -> Awaitable[None]:
        """Return what goes on with the task."""
        brief = task.brief
        if isinstance(brief, FlowRequested):
            return self._flows.work(held, task, brief)
        if isinstance(brief, CallRequested):
            return self._calls.work(held, task, brief)
        if task.is_command or (
            task.started is None and brief is not None and not is_answered_by_model(brief.content)
        ):
            return self._commands.work(held, task, brief)
        return self._chat.work(held, task)

    def end(self, held: HeldLog, task: TaskState, ended: TaskEnded) -> None:
        """End a task before its time."""
        brief = task.brief
        if isinstance(brief, FlowRequested):
            self._flows.end(held, task, brief, ended)
        else:
            self._flows.close(held, task, ended)


class Inventory(Struct, frozen=True, kw_only=True):
    """What a project brings: tools and rules, agents, models."""

    registry: Registry
    rules: Rules
    agents: Catalog
    models: Models
    skills: Skills = NO_SKILLS
    preface: Preface | None = None
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


def assemble(world: World, storage: Storage, inventory: Inventory) -> Runtime:
    """Return a runtime over a project; it works once its launcher is open."""
    bus = _bus(storage)
    resources = _resources(world, storage, inventory)
    shared = Invoker(inventory.registry, inventory.rules, resources, world=world)
    invokers = AgentInvokers(shared)
    participants = _participants(inventory, invokers)
    chat = ChatWork(participants, world, bus, key=storage.key)
    calls = DirectCalls(shared, participants, world.clock, key=storage.key)
    link, wanted_by_flow = _web_link(storage, inventory), partial(wanted_by, inventory.flows)
    commands = CommandWork(calls, DirectTools(shared), link, wanted_by=wanted_by_flow, world=world)
    agent_sessions = _agent_sessions(world, inventory, shared, bus)
    resources.errands.run_agent = Subagents(agent_sessions, inventory.agents).run
    steps = _steps(world, inventory, agent_sessions, shared=shared, resources=resources)
    slots, notifier = Slots(world.limits), RunNotifier(storage.log)
    flows = _flow_work(world, storage, inventory, steps, slots=slots)
    work = TaskDispatcher(chat, CallWork(calls), commands, flows)
    needs = Needs(participants, inventory.registry, inventory.agents.worker)
    activations, launcher = _at_work(world, storage, _body(work, needs, notifier))
    notifier.wake = launcher.wake
    starter = TaskStarter(activations, launcher, work.start)
    parts = RuntimeParts(
        limits=world.limits,
        clock=world.clock,
        log=storage.log,
        projections=storage.projections,
        blobs=storage.blobs,
        bus=bus,
        relay=Relay(storage.log.live_text, bus, world),
        launcher=launcher,
        agents=inventory.agents,
        models=inventory.models,
        invoker=shared,
        invoker_of=invokers.of,
        key=storage.key,
        participants=participants,
        skills=inventory.skills,
        flow_files=inventory.flow_files,
        flow_work=flows,
        materials=agent_sessions.materials,
        errands=resources.errands,
        authoring=_authoring(inventory, resources),
        database_parts=storage.database_parts,
        confinement=inventory.confinement,
    )
    inbox = Inbox(storage.log, storage.projections, starter, bus=bus, world=world)
    resources.errands.runs = ToolRuns(inbox, inventory.flows.find, slots).errand
    return Runtime(parts, inbox)


def _body(work: TaskDispatcher, needs: Needs, notifier: RunNotifier) -> TaskBody:
    return TaskBody(
        work=work.work, end=work.end, lacks=needs.lacks, has=needs.has, tell=notifier.tell
    )


def _bus(storage: Storage) -> Bus:
    bus = Bus()
    storage.log.listen(bus.publish)
    if storage.database_parts is not None:
        storage.database_parts.erasure.listen(bus.forget)
    return bus


def _at_work(world: World, storage: Storage, body: TaskBody) -> tuple[Activations, InlineLauncher]:
    activations = Activations(storage.log, body, world, owner=storage.owner)
    storage.log.listen(activations.hear)
    if storage.database_parts is not None:
        storage.database_parts.erasure.listen(activations.forget)
    return activations, InlineLauncher(storage.log, activations, world)


def _participants(inventory: Inventory, invokers: AgentInvokers) -> Participants:
    return Participants(
        lambda _, name: inventory.agents.get(name),
        invokers.of,
        lambda agent, wanted: _model(inventory, agent, wanted),
        skills=inventory.skills,
        preface=inventory.preface,
    )


def _agent_sessions(world: World, inventory: Inventory, shared: Invoker, bus: Bus) -> AgentSessions:
    environment = AgentEnvironment(
        get_agent=inventory.agents.worker,
        model=lambda agent, wanted: _model(inventory, agent, wanted),
        materials=Materials(handbooks=inventory.handbooks, folder=inventory.project),
        guards=inventory.guards,
        remark=lambda agent, wanted: _remark(inventory, agent, wanted),
    )
    return AgentSessions(environment, shared, world=world, bus=bus)


def _web_link(storage: Storage, inventory: Inventory) -> MakeLink | None:
    if storage.database_parts is None:
        return None
    make, place = storage.database_parts.web_links.make, inventory.web_url.rstrip("/")

    async def link(session_id: SessionId, profile: Profile) -> str:
        return f"{place}/link/{await make(session_id, profile)}"

    return link


def _resources(world: World, storage: Storage, inventory: Inventory) -> Resources:
    return Resources(
        artifacts=Artifacts(storage.blobs, world.limits, world.new_id),
        blobs=storage.blobs,
        files=storage.files,
        state=storage.state,
        vault=storage.vault,
        media=storage.media,
        links=Links(storage.key, world.clock, world.limits.blob_url_seconds),
        egress=inventory.egress,
        channels=inventory.channels,
        web_url=inventory.web_url,
        project=inventory.project,
    )


def _authoring(inventory: Inventory, resources: Resources) -> ProjectAuthoring | None:
    """Let tools write agents and flows, where there is a folder for them."""
    folder, flows = inventory.project, inventory.flow_files
    if folder is None or flows is None:
        return None
    authoring = ProjectAuthoring(folder, inventory.agents, flows, inventory.nameable)
    authoring.packages = inventory.packages
    resources.errands.authoring = authoring.errand
    return authoring


def _steps(
    world: World,
    inventory: Inventory,
    agent_sessions: AgentSessions,
    *,
    shared: Invoker,
    resources: Resources,
) -> StepRunner:
    def door(tool: Tool) -> Invoker:
        return shared.over(Registry([*shared.registry, tool]))

    code = CodeSteps(inventory.code_environment, door)
    return StepRunner(agent_sessions, code, ShellSteps(resources.project, shared.threads), world)


def _flow_work(
    world: World, storage: Storage, inventory: Inventory, steps: StepRunner, *, slots: Slots
) -> FlowWork:
    return FlowWork(
        library=inventory.flows,
        steps=steps,
        world=world,
        key=storage.key,
        slots=slots,
        close=TaskCloser(storage.key).end,
        settings=inventory.flow_settings,
        gate=inventory.gate,
    )


def _model(inventory: Inventory, agent: Agent, wanted: str | None) -> Model:
    """Return the model of an agent, or the one that is wanted. Raises ConfigError."""
    own, models = agent.model, inventory.models
    if not (own is None or isinstance(own, str)) and wanted in {None, own.card.model_id}:
        return own
    name = agent.model_name(wanted)
    if name is None or models.has(name):
        model, behind = models.get(name), None
    else:
        names = inventory.model_names
        model, behind = models.get(names.model(name)), names.thinking(name)
    level = agent.charter.thinking or behind
    return model if level is None else ThinkingModel(model, level)


def _remark(inventory: Inventory, agent: Agent, wanted: str | None) -> str:
    """Return that a role stands for the project's model because nobody said what it is."""
    role = inventory.model_names.unset(agent.model_name(wanted))
    said = f"the model role @{role} is not set: the project's model is used"
    return f"{said}; write {role} under [models.roles]" if role else ""
