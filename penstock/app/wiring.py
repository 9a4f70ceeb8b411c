"""The one module that constructs and connects the concrete parts. It makes no decisions.

Tools start agents and flow runs, and agents and runs call tools: the parts form a cycle. The
callbacks of `Assembly._callbacks` close it: each looks its part up when it is called. So every part
is complete when its constructor returns, and nothing is assigned to it later. A callback must not
be called before `assemble` has returned: a cached property that needs itself recurses without end.
`tests/test_wiring_shape.py` refuses assignments to attributes of other objects in this package.
"""

from functools import cached_property, partial
from typing import Any

from penstock.agents.attachments.keeper import AttachmentKeeper
from penstock.agents.attachments.reading import AttachmentReader
from penstock.agents.catalog import ModelSelector
from penstock.agents.definition.tools import with_inner
from penstock.agents.handoffs import check_handoffs
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import (
    ChatParts,
    EngineParts,
    FlowParts,
    ProjectParts,
    RuntimeParts,
    Storage,
    ToolParts,
)
from penstock.chat.calls.agent_calls import AgentCalls
from penstock.chat.calls.direct_calls import CommandWork, DirectCalls
from penstock.chat.calls.direct_tools import DirectTools
from penstock.chat.children.ends import EndNotifier
from penstock.chat.children.starting import ChildStarter
from penstock.chat.children.tool_runs import ToolRuns, late_runs
from penstock.chat.children.work import ChildWork
from penstock.chat.directory import Directory
from penstock.chat.inbox import Inbox, TaskStarter
from penstock.chat.log_follower import LogSource
from penstock.chat.participants import Participants
from penstock.chat.recorded.fork import TaskCopier
from penstock.chat.recorded.undo_reader import UndoReader
from penstock.chat.schedules.callbacks import ScheduleCallbacks
from penstock.chat.schedules.scheduler import SchedulePorts, Scheduler
from penstock.chat.schedules.ticker import Ticker
from penstock.chat.schedules.tool_schedules import ToolSchedules
from penstock.chat.session import ChatWork
from penstock.chat.task_bodies import DirectWork, Requirements, TaskDispatcher, ToolFinder
from penstock.chat.task_closer import TaskCloser
from penstock.chat.task_requests import Known, Requests, UndoRequests
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.envelope import Json
from penstock.core.ids import LogId
from penstock.core.limits import World
from penstock.engine.activation import Activations
from penstock.engine.bus import Bus
from penstock.engine.launcher import InlineLauncher
from penstock.engine.ledger import Ledger
from penstock.engine.relay import Relay
from penstock.engine.run_slots import Slots
from penstock.engine.task_body import TaskBody
from penstock.flows.agents.agent_runner import AgentEnvironment, AgentRunner
from penstock.flows.agents.briefing import Materials
from penstock.flows.agents.subagents import Subagents
from penstock.flows.run_body import FlowWork
from penstock.flows.starting import wanted_by
from penstock.flows.steps.kind import StepTools
from penstock.flows.steps.table import StepRunner
from penstock.resources.dependencies import Dependencies, DepsSource
from penstock.tools.artifacts import Artifacts
from penstock.tools.invoker import Invoker
from penstock.tools.resources import (
    AgentRequest,
    Callbacks,
    Resources,
    Runs,
    SubagentRequest,
)
from penstock.tools.tool import Registry, Tool


def assemble(world: World, storage: Storage, project_parts: ProjectParts) -> Runtime:
    """Return the runtime of a project. It runs tasks once its launcher is open."""
    return Assembly(world, storage, project_parts).runtime()


class Assembly:
    """The parts of one runtime; each is constructed when another part first needs it."""

    def __init__(self, world: World, storage: Storage, project_parts: ProjectParts) -> None:
        self._world = world
        self._storage = storage
        self._project = project_parts
        self._bus = Bus()
        self._slots = Slots(world.limits)
        check_handoffs(project_parts.agents.catalog.list(), project_parts.tools.registry)
        self._models = ModelSelector(project_parts.agents.models, project_parts.agents.model_names)

    def runtime(self) -> Runtime:
        """Connect the listeners and return the runtime. The bus is notified before activations."""
        storage, project_parts = self._storage, self._project
        storage.log.listen(self._bus.publish)
        storage.log.listen(self._activations.states.observe, of_holders=False)
        storage.on_erasure(self._bus.forget)
        storage.on_erasure(self._activations.forget)
        storage.on_erasure(self._attachment_reader.forget)
        engine = EngineParts(
            launcher=self._launcher,
            bus=self._bus,
            relay=Relay(storage.log.live_text, self._bus, self._world),
        )
        chat = ChatParts(
            agents=project_parts.agents.catalog,
            models=project_parts.agents.models,
            participants=self._participants,
            attachments=self._attachments,
            schedules=self._schedules,
        )
        tools = ToolParts(
            invoker=self._invoker,
            callbacks=self._callbacks,
            project=project_parts,
        )
        flows = FlowParts(
            work=self._flow_work,
            materials=self._materials,
            files=project_parts.flows.files,
            authoring=project_parts.authoring,
        )
        parts = RuntimeParts(
            world=self._world, storage=storage, engine=engine, chat=chat, tools=tools, flows=flows
        )
        return Runtime(parts, self._requests)

    # ---- tools ----

    @cached_property
    def _invoker(self) -> Invoker:
        resources = self._resources
        return Invoker(
            self._project.tools.registry,
            self._project.tools.rules,
            resources,
            world=self._world,
            hooks=self._project.agents.hooks,
        )

    @cached_property
    def _resources(self) -> Resources:
        world, storage, project_parts = self._world, self._storage, self._project
        return Resources(
            artifacts=Artifacts(storage.blobs, world.limits, world.new_id),
            blobs=storage.blobs,
            files=storage.files,
            state=storage.state,
            vault=storage.vault,
            media=storage.media,
            links=storage.links,
            egress=project_parts.tools.egress,
            channels=project_parts.tools.channels,
            web_url=project_parts.tools.web_url,
            project=project_parts.folder,
            callbacks=self._callbacks,
            dependencies=self._dependencies,
        )

    @cached_property
    def _dependencies(self) -> Dependencies:
        catalog = self._project.agents.catalog

        def of_agent(name: str) -> DepsSource | None:
            agent = catalog.find(name)
            if agent is None:  # it may be a tool of another one
                inner = with_inner(catalog.list())
                agent = next((each for each in inner if each.name == name), None)
            return None if agent is None else agent.source_of_deps

        return Dependencies(self._project.agents.deps, of_agent=of_agent)

    @cached_property
    def _callbacks(self) -> Callbacks:
        """The functions that tools call in higher packages. Each looks its part up when called."""
        return Callbacks(
            run_agent=self._run_agent,
            ask_agent=self._ask_agent,
            runs=self._run_callbacks,
            authoring=self._project.authoring_callbacks,
            schedules=lambda: ToolSchedules(self._schedules, self._world.limits.agent_schedules),
            children=self._child_starter,
        )

    async def _run_agent(self, request: SubagentRequest, ledger: Ledger) -> Json:
        return await self._subagents.run(request, ledger)

    async def _ask_agent(self, request: AgentRequest, ledger: Ledger) -> Any:
        return await self._agent_calls.run(request, ledger)

    # Parts are looked up late: they need the inbox and the launcher, which need the invoker, whose
    # resources hold these callbacks. The same holds for the other functions.
    @cached_property
    def _run_callbacks(self) -> Runs:
        return late_runs(lambda: self._tool_runs)

    @cached_property
    def _child_starter(self) -> ChildStarter:
        at, late = self._storage, (lambda: self._inbox, lambda: self._participants)
        return ChildStarter(
            at.log, at.projections, *late, agent_calls=lambda: self._agent_calls, wake=self._wake
        )

    @cached_property
    def _tool_runs(self) -> ToolRuns:
        find_flow = self._project.flows.library.find
        return ToolRuns(self._inbox, self._waiter, find_flow, slots=self._slots)

    # ---- agents and flows ----

    @cached_property
    def _participants(self) -> Participants:
        project_parts = self._project
        return Participants(
            project_parts.agents.catalog.get,
            self._invoker,
            self._models.choose,
            skills=project_parts.tools.skills,
            prompt_prefix=project_parts.agents.prompt_prefix,
            attachments=self._attachment_reader,
        )

    @cached_property
    def _materials(self) -> Materials:
        return Materials(handbooks=self._project.flows.handbooks, folder=self._project.folder)

    @cached_property
    def _agent_runner(self) -> AgentRunner:
        environment = AgentEnvironment(
            get_agent=self._project.agents.catalog.get_from_files,
            model=self._models.choose,
            materials=self._materials,
            role_warning=self._models.role_warning,
        )
        return AgentRunner(environment, self._invoker, world=self._world, bus=self._bus)

    @cached_property
    def _agent_calls(self) -> AgentCalls:
        return AgentCalls(self._participants, self._world, self._bus)

    @cached_property
    def _subagents(self) -> Subagents:
        return Subagents(self._agent_runner, self._project.agents.catalog)

    @cached_property
    def _steps(self) -> StepRunner:
        shared = self._invoker

        def invoker_with(tool: Tool) -> Invoker:
            return shared.over(Registry([*shared.registry, tool]))

        return StepRunner(
            StepTools(
                agent_runner=self._agent_runner,
                invoker=shared,
                world=self._world,
                invoker_with=invoker_with,
                code_environment=self._project.flows.code_environment,
                project=self._project.folder,
            )
        )

    @cached_property
    def _flow_work(self) -> FlowWork:
        return FlowWork(
            library=self._project.flows.library,
            steps=self._steps,
            world=self._world,
            key=self._storage.key,
            slots=self._slots,
            close=self._closer.end,
            settings=self._project.flows.settings,
            hooks=self._project.agents.hooks,
        )

    # ---- tasks ----

    @cached_property
    def _work(self) -> TaskDispatcher:
        world, project_parts, key = self._world, self._project, self._storage.key
        chat = ChatWork(self._participants, world, self._bus, key=key)
        calls = DirectCalls(self._invoker, self._participants, world.clock, key=key)
        commands = CommandWork(
            calls,
            DirectTools(self._invoker),
            self._storage.link_maker(project_parts.tools.web_url),
            arguments_of=partial(wanted_by, project_parts.flows.library),
            world=world,
        )
        flows, closer, children = self._flow_work, self._closer, self._child_work(ChildWork)
        works = (chat, DirectWork(calls, self._undo_reader), commands)
        return TaskDispatcher(*works, flows=flows, children=children, closer=closer)

    def _child_work(self, of_kind: type[ChildWork]) -> ChildWork:
        at, parts = self._storage, (self._participants, self._world, self._bus)
        return of_kind(*parts, key=at.key, projections=at.projections, log=at.log)

    @cached_property
    def _undo_reader(self) -> UndoReader:
        at, find = self._storage, ToolFinder(self._participants, self._invoker).invoker_of
        return UndoReader(at.log, at.projections, self._resources, find, clock=self._world.clock)

    @cached_property
    def _activations(self) -> Activations:
        needs = Requirements(
            self._participants,
            self._project.tools.registry,
            self._project.agents.catalog.get_from_files,
        )
        notifier = EndNotifier(self._storage.log, self._wake, self._storage.projections)
        body = TaskBody(
            work=self._work.work,
            end=self._work.end,
            find_missing=needs.find_missing,
            is_available=needs.is_available,
            notify=notifier.notify,
        )
        return Activations(self._storage.log, body, self._world, owner=self._storage.owner)

    @cached_property
    def _launcher(self) -> InlineLauncher:
        return InlineLauncher(self._storage.log, self._activations, self._world)

    def _wake(self, log_id: LogId) -> None:
        self._launcher.wake(log_id)

    @cached_property
    def _inbox(self) -> Inbox:
        at, world = self._storage, self._world
        starter = TaskStarter(self._activations, self._launcher, self._work.start)
        return Inbox(at.log, at.projections, starter, self._waiter, world=world, blobs=at.blobs)

    @cached_property
    def _attachment_reader(self) -> AttachmentReader:
        return AttachmentReader(self._storage.blobs)

    @cached_property
    def _attachments(self) -> AttachmentKeeper:
        storage = self._storage
        return AttachmentKeeper(
            storage.blobs,
            self._world,
            egress=self._project.tools.egress,
            media=storage.media,
            is_owned=storage.is_owned,
        )

    @cached_property
    def _waiter(self) -> TaskWaiter:
        at, is_blocked = self._storage, self._launcher.is_blocked
        return TaskWaiter(at.log, at.projections, self._bus, self._world, is_blocked=is_blocked)

    @cached_property
    def _requests(self) -> Requests:
        at, agents = self._storage, self._project.agents
        return Requests(
            self._inbox,
            self._waiter,
            LogSource(log=at.log, bus=self._bus, limits=self._world.limits),
            UndoRequests(self._undo_reader, self._inbox, self._waiter),
            known=Known(
                agents=agents.catalog,
                models=agents.models,
                projections=at.projections,
                attachments=self._attachments,
                blobs=at.blobs,
                directory=Directory(at.log, at.projections, self._launcher, bus=self._bus),
                copier=TaskCopier(at.log, self._world.new_id, self._wake),
                children=self._child_starter,
                erasure=at.database_parts.erasure if at.database_parts else None,
                owner=at.owner,
            ),
            local=self._project.local,
        )

    @cached_property
    def _schedules(self) -> Scheduler:
        kept, log, project_parts = self._storage.database_parts, self._storage.log, self._project
        if kept is None:
            return Scheduler(None, self._world, project_parts.local)
        callbacks = ScheduleCallbacks(
            inbox=self._inbox,
            log=log,
            world=self._world,
            find_agent=project_parts.agents.catalog.get,
            find_flow=project_parts.flows.library.find,
            tools=lambda: self._invoker.registry,
        )
        ticker = Ticker(kept.schedules, log, self._wake, self._world)
        ports = SchedulePorts(rows=kept.schedules, ticker=ticker, callbacks=callbacks)
        return Scheduler(ports, self._world, project_parts.local)

    @cached_property
    def _closer(self) -> TaskCloser:
        return TaskCloser(self._storage.key)
