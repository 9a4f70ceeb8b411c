"""Runs the agents of flows: builds the session of each visit from its agent and the log.

Guarantees: a session continues with the agent, model and prompt that it started with. The prompt,
the tools and the settings of the model are in `AgentStarted`; a file that changes while the session
runs changes the next session only. Hooks and the model itself are looked up again in each
activation, because they are objects of this process. `kept_of` and `kept_agent` store and restore
the settings: those that a later version no longer knows are ignored when read; new ones get their
defaults.

Relies on the frame of a visit being unique in its task: one frame, one session. Tests:
tests/flows/agents/test_agent_runner.py.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from penstock.agents.agent import DEFAULTS, Agent, ChatSettings
from penstock.agents.agent_profile import AgentProfile
from penstock.agents.catalog import FindModel, model_name
from penstock.agents.tool_offer import (
    REPLY_TOKENS,
    AgentModel,
    ToolOffer,
    caller_for,
    definition,
)
from penstock.agents.turn import open_turns
from penstock.core.call import CallPath
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.flow_events import AgentStarted, Output, ValueType
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.ids import ASSISTANT
from penstock.core.limits import World
from penstock.core.profile import Profile
from penstock.core.task import Missing, MissingKind
from penstock.engine.bus import Bus
from penstock.engine.ledger import Ledger
from penstock.flows.agents.briefing import Briefing, Materials, system_prompt, user_message
from penstock.flows.agents.finish import FinishContract, compiled
from penstock.flows.agents.session import (
    AgentSession,
    SessionCallRunner,
    SessionOffer,
    definition_of,
    end_of,
)
from penstock.flows.runs.visits import VisitOutcome, failed, warn_once
from penstock.models.model import Model
from penstock.models.names import ThinkingModel
from penstock.models.settings import ModelSettings
from penstock.resources.project.access import Access
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import AgentHooks
from penstock.tools.hooks.reply_hooks import ReplyHooks
from penstock.tools.invoker import Invoker
from penstock.tools.policy import ARCHITECT, Caller, SessionGuard
from penstock.tools.python.agent_tool import agents_by_name
from penstock.tools.tool import Registry

_REPLY_SHARE = 4
"""A reply may fill at most a quarter of the model's context window."""
GetAgent = Callable[[str], Agent]
"""Returns an agent by name. Raises NotFound."""
RoleWarning = Callable[[Agent, str | None], str]
"""Returns a warning about the chosen model for this agent; empty if there is none."""
BriefingOf = Callable[[Agent], Briefing | VisitOutcome]
"""Returns the briefing of a visit, or why it fails. Called once, when the session starts."""
_SETTINGS = ChatSettings.__struct_fields__


def no_role_warning(agent: Agent, model: str | None) -> str:
    """Return no warning."""
    return ""


class AgentVisit(Struct, frozen=True, kw_only=True):
    """Request to put an agent to work in one visit of a step, or in one call."""

    frame: CallPath
    agent: Agent
    contract: FinishContract
    briefing: BriefingOf
    profile: Profile
    model: str | None = None
    """Overrides the agent's own model."""
    is_autonomous: bool = False
    is_architect: bool = False
    """The agent, or an agent above it, is the flow architect."""
    caller: Caller | None = None
    """The agent that it works for, whose limits hold for it, too; None in a run of a flow."""


class AgentEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of the agents of a project."""

    get_agent: GetAgent
    model: FindModel
    materials: Materials = field(default_factory=Materials)
    """Handbooks, context files and input files."""
    role_warning: RoleWarning = no_role_warning


class AgentRunner:
    """Runs agents in frames of a log; each visit gets an `AgentSession`."""

    def __init__(
        self, environment: AgentEnvironment, invoker: Invoker, *, world: World, bus: Bus
    ) -> None:
        self._get_agent = environment.get_agent
        self.materials = environment.materials
        self._model = environment.model
        self._role_warning = environment.role_warning
        self._invoker = invoker
        self._world = world
        self._bus = bus

    def agent_of(self, frame: CallPath, name: str, ledger: Ledger) -> Agent | VisitOutcome:
        """Return the agent as its session started with it, or the failure if there is none."""
        started = ledger.task.started_agents.get(frame)
        current, error = None, f'the agent "{name}" is gone'
        try:
            current = self._get_agent(name)
        except NotFound as missing:
            error = str(missing)
        agent = current if started is None else kept_agent(started, current)
        if agent is None:
            return failed("agent_unknown", error, missing=Missing(MissingKind.AGENT, name))
        return agent

    async def pursue(self, visit: AgentVisit, ledger: Ledger) -> VisitOutcome:
        """Continue the session of a visit to its end.

        Raises Suspend if it waits for a person, Cancel if the cancellation of the task was
        requested.
        """
        # A session that has already ended needs neither its model nor its tools, which may be gone.
        if (ended := self._ended(visit, ledger)) is not None:
            return ended
        started = ledger.task.started_agents.get(visit.frame)
        try:
            model = self._model(visit.agent, started.model if started else visit.model)
        except ConfigError as error:
            raise_exhaustion(error)
            name = model_name(visit.agent, started.model if started else visit.model)
            missing = Missing(MissingKind.MODEL, name or "")
            return failed("model_unresolved", str(error), missing=missing)
        session = self._session(visit, ledger, model)
        return session if isinstance(session, VisitOutcome) else await session.pursue()

    def _ended(self, visit: AgentVisit, ledger: Ledger) -> VisitOutcome | None:
        """Return the outcome of a session that ended in an earlier activation, or None."""
        dialogue = ledger.task.agents.get(visit.frame)
        if dialogue is None:
            return None
        return end_of(dialogue, compiled(visit.contract))

    def _session(
        self, visit: AgentVisit, ledger: Ledger, model: Model
    ) -> AgentSession | VisitOutcome:
        agent, task = visit.agent, ledger.task
        guard, selected = _guard(visit), self._hooks_of(agent)
        invoker = self._invoker_of(agent)
        is_new = visit.frame not in task.agents
        if is_new:
            briefing = visit.briefing(agent)
            if isinstance(briefing, VisitOutcome):
                return briefing
            self._start(visit, ledger, model=model, guard=guard, briefing=briefing)
            if warning := self._role_warning(agent, visit.model):
                warn_once(ledger, visit.frame, warning)
        dialogue = task.agents[visit.frame]
        contract = compiled(visit.contract)
        plain = self._offer(visit, guard, contract, system=dialogue.system, hooks=selected)
        hooks: TaskHooks | None = None
        if selected is not None:
            dependencies = self._invoker.edition.resources.dependencies
            hooks = TaskHooks(selected, ledger, visit.profile, dependencies)
        offer = SessionOffer(plain)
        limits, window = self._world.limits, model.card.context_tokens
        longest = model.card.reply_tokens or limits.agent_reply_tokens
        settings = with_room(agent, window, max_reply=longest)
        call_runner = SessionCallRunner(
            invoker, ledger, settings, session=guard, contract=contract, hooks=hooks
        )
        reply_hooks = None if hooks is None else ReplyHooks(hooks, ledger, visit.frame)
        sized = agent.__replace__(settings=settings)
        agent_model = AgentModel(model, offer, sized, ledger, hooks=reply_hooks)
        turns = open_turns(
            agent_model, call_runner, dialogue, world=self._world, bus=self._bus, is_new=is_new
        )
        max_turns = agent.profile.max_turns or limits.agent_turns
        return AgentSession(turns, call_runner, offer, max_turns=max_turns)

    def _invoker_of(self, agent: Agent) -> Invoker:
        """Return the invoker of the project; with the agents that the agent lists as its tools."""
        shared = self._invoker.registry
        inner = [*agents_by_name(agent.profile.tools, shared, self._get_agent)]
        return self._invoker.over(Registry([*shared, *inner])) if inner else self._invoker

    def _hooks_of(self, agent: Agent) -> AgentHooks | None:
        hooks = self._invoker.hooks
        if not (agent.hooks or hooks.project):
            return None
        return hooks.select(agent.name, agent.hooks)

    def _start(
        self,
        visit: AgentVisit,
        ledger: Ledger,
        *,
        model: Model,
        guard: SessionGuard,
        briefing: Briefing,
    ) -> None:
        briefing = replace(briefing, is_autonomous=visit.is_autonomous)
        started = AgentStarted(
            agent=visit.agent.name,
            message=user_message(briefing),
            system=system_prompt(visit.agent, briefing),
            model=model.card.model_id,
            offered=tuple(guard.tools),
            agent_hash=visit.agent.profile.content_hash,
            charter=kept_of(visit.agent, _thinking_level(model)),
        )
        ledger.add(started, visit.frame)

    def _offer(
        self,
        visit: AgentVisit,
        guard: SessionGuard,
        contract: FinishContract,
        *,
        system: str,
        hooks: AgentHooks | None,
    ) -> ToolOffer:
        registry = self._invoker_of(visit.agent).registry
        tools = [tool for tool in map(registry.by_id.get, guard.tools) if tool is not None]
        usable = [tool for tool in tools if not tool.spec.is_broken]
        definitions = [definition(tool) for tool in usable]
        own = caller_for(visit.agent, visit.profile, guard.granted)
        own = replace(own, session=guard, is_autonomous=visit.is_autonomous, hooks=hooks)
        return ToolOffer(
            system=system,
            definitions=(*definitions, definition_of(contract)),
            caller=own if visit.caller is None else own.within(visit.caller),
        )


def with_room(agent: Agent, window: int | None, *, max_reply: int) -> ChatSettings:
    """Return the agent's settings with a reply size that has room for whole files.

    Settings that the author chose stay. Otherwise a reply may have `max_reply` tokens, but at most
    a quarter of the context window.
    """
    settings = agent.settings
    if agent.profile.reply_tokens is not None or settings.llm_max_tokens is not None:
        return settings
    max_tokens = (
        max_reply if window is None else min(max_reply, max(window // _REPLY_SHARE, REPLY_TOKENS))
    )
    return replace(settings, llm_max_tokens=max_tokens)


def kept_of(agent: Agent, level: str | None) -> Json:
    """Return what the log stores of an agent; `level` is the thinking level of its model."""
    agent_profile, access = agent.profile, agent.profile.access
    return {
        "file": agent_profile.file,
        "settings": _changed(agent.settings),
        "model_settings": to_builtins(agent.model_settings),
        "thinking": level,
        "tools": list(agent_profile.tools),
        "outputs": [_output(each) for each in agent_profile.outputs],
        "interactive": agent_profile.is_interactive,
        "read": _listed(access.read),
        "write": _listed(access.write),
        "deny": list(access.deny),
        "max_turns": agent_profile.max_turns,
        "reply_tokens": agent_profile.reply_tokens,
    }


def kept_agent(started: AgentStarted, current: Agent | None) -> Agent | None:
    """Return the agent as its session started. Logs of early versions have no snapshot: `now`."""
    if not started.charter:
        return current
    settings = _settings(started.charter["settings"])
    wanted = convert(started.charter.get("model_settings", {}), ModelSettings)
    # not Agent(started.agent): an old log may have a name that Agent refuses now
    agent = current or Agent(ASSISTANT).__replace__(name=started.agent)
    return agent.__replace__(settings=settings, model_settings=wanted, profile=_profile_of(started))


def _guard(visit: AgentVisit) -> SessionGuard:
    agent_profile = visit.agent.profile
    return SessionGuard(
        agent=visit.agent.name,
        declared=agent_profile.tools,
        is_architect=visit.is_architect or visit.agent.name == ARCHITECT,
        is_autonomous=visit.is_autonomous,
        is_interactive=agent_profile.is_interactive,
    )


def _thinking_level(model: Model) -> str | None:
    return model.level if isinstance(model, ThinkingModel) else None


def _settings(kept: Mapping[str, Any]) -> ChatSettings:
    """Return the stored settings; unknown ones are ignored."""
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value := kept[name], list) else value
        for name in _SETTINGS
        if name in kept
    }
    return ChatSettings(**known)


def _changed(settings: ChatSettings) -> Json:
    """Return the settings that differ from the defaults, as JSON."""
    changed = {}
    for name in _SETTINGS:
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            changed[name] = list(value) if isinstance(value, tuple) else value
    return changed


def _output(output: Output) -> Json:
    return {
        "name": output.name,
        "description": output.description,
        "type": output.value_type and output.value_type.value,
        "pattern": output.pattern,
        "required": output.is_required,
    }


def _profile_of(started: AgentStarted) -> AgentProfile:
    kept = started.charter
    return AgentProfile(
        file=kept["file"],
        content_hash=started.agent_hash,
        thinking=kept["thinking"],
        tools=tuple(kept["tools"]),
        outputs=tuple(map(_read_output, kept["outputs"])),
        is_interactive=kept["interactive"],
        access=Access(
            agent=started.agent,
            read=_patterns(kept["read"]),
            write=_patterns(kept["write"]),
            deny=tuple(kept["deny"]),
        ),
        max_turns=kept["max_turns"],
        reply_tokens=kept.get("reply_tokens"),
    )


def _read_output(kept: Mapping[str, Any]) -> Output:
    return Output(
        name=kept["name"],
        description=kept["description"],
        value_type=kept["type"] and ValueType(kept["type"]),
        pattern=kept["pattern"],
        is_required=kept["required"],
    )


def _listed(patterns: tuple[str, ...] | None) -> list[str] | None:
    return None if patterns is None else list(patterns)


def _patterns(kept: list[str] | None) -> tuple[str, ...] | None:
    return None if kept is None else tuple(kept)
