"""The agents of flows: each visit is a session of its own, with what its agent declared."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.agents.agent import Agent, FindModel
from penstock.agents.offer import ToolOffer, definition
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.agents.turn import AgentModel, open_turns
from penstock.core.call import CallPath, Origin
from penstock.core.errors import ConfigError, NotFound
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.flow_events import AgentStarted
from penstock.core.profile import Profile
from penstock.core.task import Missing, MissingKind
from penstock.core.world import World
from penstock.engine.bus import Bus
from penstock.engine.ledger import Ledger
from penstock.flows.agents.agent_snapshot import kept_agent, kept_of
from penstock.flows.agents.finish import FinishContract, compiled
from penstock.flows.agents.materials import Materials
from penstock.flows.agents.prompt import Briefing, system_prompt, user_message
from penstock.flows.agents.session import (
    AgentSession,
    SessionOffer,
    definition_of,
    end_of,
)
from penstock.flows.agents.session_call_runner import SessionCallRunner
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.flows.runs.warnings import warn_once
from penstock.models.model import Model
from penstock.models.thinking import ThinkingModel
from penstock.tools.access.policy import Caller
from penstock.tools.access.session_guard import ARCHITECT, GuardedSession, PluginGuard, SessionGuard
from penstock.tools.invoker import Invoker

_REPLY_SHARE = 4
GetAgent = Callable[[str], Agent]
"""An agent by name. Raises NotFound."""
Remark = Callable[[Agent, str | None], str]
"""What is odd about that choice of a model; nothing if nothing is."""
BriefingOf = Callable[[Agent], Briefing | VisitOutcome]
"""What an agent is told in a visit, or why it cannot begin; asked for once, as it begins."""

GuardsOf = Callable[[GuardedSession], Sequence[PluginGuard] | str]
"""The guards of plugins for one agent session; a text says why one could not be made."""


def no_remark(agent: Agent, wanted: str | None) -> str:
    """Find nothing odd."""
    return ""


def no_guards(session: GuardedSession) -> Sequence[PluginGuard]:
    """Return none: there is no plugin."""
    return ()


class AgentVisit(Struct, frozen=True, kw_only=True):
    """What one visit of a step wants of an agent."""

    frame: CallPath
    agent: Agent
    contract: FinishContract
    briefing: BriefingOf
    profile: Profile
    model: str | None = None
    """Instead of the agent's own."""
    is_autonomous: bool = False
    is_architect: bool = False
    """The agent, or one that started it, is the architect."""


class AgentEnvironment(Struct, frozen=True, kw_only=True):
    """What the agents of a project are, and what they are given."""

    get_agent: GetAgent
    model: FindModel
    materials: Materials = field(default_factory=Materials)
    """What they are given to read."""
    guards: GuardsOf = no_guards
    """Those of plugins."""
    remark: Remark = no_remark


class AgentSessions:
    """Puts agents to work in frames of a log."""

    def __init__(
        self, environment: AgentEnvironment, invoker: Invoker, *, world: World, bus: Bus
    ) -> None:
        self._get_agent = environment.get_agent
        self.materials = environment.materials
        self._model = environment.model
        self._guards = environment.guards
        self._remark = environment.remark
        self._invoker = invoker
        self._world = world
        self._bus = bus

    def agent_of(self, frame: CallPath, name: str, ledger: Ledger) -> Agent | VisitOutcome:
        """Return the agent of a visit, as its session began; or the end of a visit without one."""
        began = ledger.task.begun_agents.get(frame)
        now, error = None, f'the agent "{name}" is gone'
        try:
            now = self._get_agent(name)
        except NotFound as missing:
            error = str(missing)
        agent = now if began is None else kept_agent(began, now)
        if agent is None:
            return failed("agent_unknown", error, missing=Missing(MissingKind.AGENT, name))
        return agent

    async def pursue(self, visit: AgentVisit, ledger: Ledger) -> VisitOutcome:
        """Go on with the session of a visit until it has ended.

        Raises Suspend when it waits for a person, Cancel when somebody wants the task to end.
        """
        if (ended := self._ended(visit, ledger)) is not None:
            return ended
        began = ledger.task.begun_agents.get(visit.frame)
        try:
            model = self._model(visit.agent, began.model if began else visit.model)
        except ConfigError as error:
            raise_exhaustion(error)
            name = visit.agent.model_name(began.model if began else visit.model)
            missing = Missing(MissingKind.MODEL, name or "")
            return failed("model_unresolved", str(error), missing=missing)
        session = self._session(visit, ledger, model)
        return session if isinstance(session, VisitOutcome) else await session.pursue()

    def _ended(self, visit: AgentVisit, ledger: Ledger) -> VisitOutcome | None:
        """Return how a session ended that was left then: what it worked with may be gone."""
        dialogue = ledger.task.agents.get(visit.frame)
        if dialogue is None:
            return None
        return end_of(dialogue, compiled(visit.contract), self._world.limits)

    def _session(
        self, visit: AgentVisit, ledger: Ledger, model: Model
    ) -> AgentSession | VisitOutcome:
        agent, task = visit.agent, ledger.task
        guard = _guard(visit)
        guards = self._guards(_guarded(visit, guard, ledger))
        if isinstance(guards, str):
            return failed("guard_failed", guards, is_hard=True)
        guard = replace(guard, guards=guards)
        is_new = visit.frame not in task.agents
        if is_new:
            briefing = visit.briefing(agent)
            if isinstance(briefing, VisitOutcome):
                return briefing
            self._begin(visit, ledger, model=model, guard=guard, briefing=briefing)
            if remark := self._remark(agent, visit.model):
                warn_once(ledger, visit.frame, remark)
        dialogue = task.agents[visit.frame]
        contract = compiled(visit.contract)
        offer = SessionOffer(self._offer(visit, guard, contract, system=dialogue.system))
        limits, window = self._world.limits, model.card.context_tokens
        settings = with_room(agent, window, most=limits.agent_reply_tokens)
        call_runner = SessionCallRunner(
            self._invoker, ledger, settings, session=guard, contract=contract
        )
        agent_model = AgentModel(model, offer, settings)
        turns = open_turns(
            agent_model, call_runner, dialogue, world=self._world, bus=self._bus, is_new=is_new
        )
        most = agent.profile.max_turns or limits.agent_turns
        return AgentSession(turns, call_runner, offer, limits=limits, max_turns=most)

    def _begin(
        self,
        visit: AgentVisit,
        ledger: Ledger,
        *,
        model: Model,
        guard: SessionGuard,
        briefing: Briefing,
    ) -> None:
        briefing = replace(briefing, is_autonomous=visit.is_autonomous)
        began = AgentStarted(
            agent=visit.agent.name,
            message=user_message(briefing),
            system=system_prompt(visit.agent, briefing),
            model=model.card.model_id,
            offered=tuple(guard.tools),
            agent_hash=visit.agent.profile.content_hash,
            charter=kept_of(visit.agent, _level(model)),
        )
        ledger.add(began, visit.frame)

    def _offer(
        self, visit: AgentVisit, guard: SessionGuard, contract: FinishContract, *, system: str
    ) -> ToolOffer:
        registry = self._invoker.registry
        tools = [tool for tool in map(registry.find, guard.tools) if tool is not None]
        usable = [tool for tool in tools if not tool.spec.is_broken]
        definitions = [definition(tool) for tool in usable]
        return ToolOffer(
            system=system,
            definitions=(*definitions, definition_of(contract)),
            caller=Caller(
                origin=Origin.MODEL,
                profile=visit.profile,
                agent=visit.agent.name,
                agent_tools=guard.granted,
                permissions=visit.agent.settings.tool_permissions,
                question_ttl_seconds=visit.agent.settings.question_ttl_seconds,
                access=visit.agent.profile.access,
                clip_at=visit.agent.settings.result_max_chars,
                session=guard,
                is_autonomous=visit.is_autonomous,
            ),
        )


def with_room(agent: Agent, window: int | None, *, most: int) -> ChatSettings:
    """Return how an agent of a flow works: unless it was said, it writes as much as files need.

    Of a small window, a reply takes up a quarter at most.
    """
    settings, usual = agent.settings, DEFAULTS.llm_max_tokens
    if agent.profile.reply_tokens is not None or settings.llm_max_tokens != usual:
        return settings
    fits = most if window is None else min(most, max(window // _REPLY_SHARE, usual))
    return replace(settings, llm_max_tokens=fits)


def _guard(visit: AgentVisit) -> SessionGuard:
    agent_profile = visit.agent.profile
    return SessionGuard(
        agent=visit.agent.name,
        declared=agent_profile.tools,
        is_architect=visit.is_architect or visit.agent.name == ARCHITECT,
        is_autonomous=visit.is_autonomous,
        is_interactive=agent_profile.is_interactive,
    )


def _guarded(visit: AgentVisit, guard: SessionGuard, ledger: Ledger) -> GuardedSession:
    return GuardedSession(
        run_id=ledger.task.task_id,
        frame=visit.frame,
        agent=guard.agent,
        tools=tuple(guard.tools),
        is_autonomous=guard.is_autonomous,
    )


def _level(model: Model) -> str | None:
    return model.level if isinstance(model, ThinkingModel) else None
