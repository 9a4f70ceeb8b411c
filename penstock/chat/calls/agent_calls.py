"""Agents that work for a call of another agent: their loop in a frame of the caller's log.

It guarantees that such an agent uses the profile and the questions of the task that it works for,
and the budget of the task, within an own one; that it may do nothing that its caller must not; that
it continues from its dialogue after a crash or a wait, and that agents do not call each other
without end. Its system prompt and its tools are fixed in AgentStarted, as those of a task are in
TaskStarted; skills that it selects follow them. Shown by tests/chat/calls/test_agent_calls.py and
tests/journeys/test_inner_agents.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from penstock.agents.agent import AnyAgent
from penstock.agents.call_runner import CallRunner
from penstock.agents.handoffs import Transfer
from penstock.agents.loop import (
    BUDGET_EXCEEDED,
    End,
    FinalReply,
    has_passed,
    loop,
    with_output,
)
from penstock.agents.output_contract import OutputContract, OutputMode
from penstock.agents.output_loop import (
    OutputCallRunner,
    output_loop,
)
from penstock.agents.prompt import SKILLS_ARE_ORDERS, skill_prompt, system_prompt
from penstock.agents.tool_offer import (
    AgentModel,
    OutputOffers,
    TaskOffers,
    ToolOffer,
    caller_for,
    offered,
)
from penstock.agents.turn import open_turns
from penstock.chat.participants import AgentSetup, Participants
from penstock.core.call import CallPath, is_below
from penstock.core.call_errors import BudgetExceeded, DepthExceeded, ToolFailed
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import (
    ConfigError,
    HookFailed,
    HookRefused,
    ModelError,
    PromptNotResolved,
    ToolsetFailed,
)
from penstock.core.events.flow_events import AgentStarted
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.limits import World
from penstock.engine.budget import PartialBudget
from penstock.engine.bus import Bus
from penstock.engine.dialogue import Dialogue
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import AS_TOOL, TaskState
from penstock.models.model import Model
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import AgentHooks, scope_of
from penstock.tools.hooks.reply_hooks import ReplyHooks
from penstock.tools.invoker import Invoker
from penstock.tools.policy import Caller
from penstock.tools.resources import AgentRequest
from penstock.tools.skills import Selection, TaskSkills

OUTER = "outer"
"""The member of what is stored of an agent: how many agents are around the call that it is for."""
_FAILURES = (
    *(ModelError, ConfigError, PromptNotResolved, ToolsetFailed),
    *(HookFailed, HookRefused),
)


class FrameOffers(TaskOffers):
    """The offers of an agent in a frame: its prompt is fixed, and the skills are its own."""

    __slots__ = ("_dialogue",)

    def __init__(
        self,
        agent: AnyAgent,
        invoker: Invoker,
        caller: Caller,
        *,
        dialogue: Dialogue,
        fixed: Sequence[str] | None,
    ) -> None:
        super().__init__(agent, invoker, caller, fixed=fixed)
        self._dialogue = dialogue

    def at(self, selected: tuple[str, ...], told: tuple[str, ...] = ()) -> ToolOffer:
        """Return the offer with the skills that this agent selected; `selected` has others."""
        return super().at(self._dialogue.selected, told)

    def _system(self, selection: Selection) -> str:
        skills, system = self.caller.skills, self._dialogue.system
        text = skill_prompt(skills.skills, selection) if skills and selection.skills else ""
        system = f"{system}\n\n{text}" if text else system
        return f"{system} {SKILLS_ARE_ORDERS}" if self._may_activate else system


class AgentCalls:
    """Runs agents in the frames of calls."""

    def __init__(self, participants: Participants, world: World, bus: Bus) -> None:
        self._participants = participants
        self._world = world
        self._bus = bus

    async def run(self, request: AgentRequest, ledger: Ledger) -> Any:
        """Continue an agent to its end, and return its output.

        Raises ToolFailed, BudgetExceeded or DepthExceeded; Suspend if it waits for a person.
        """
        agent, task, held = request.agent, ledger.task, ledger.held
        outer = _agents_around(task, request.called_at or request.path)
        if outer >= self._world.limits.run_depth:
            raise DepthExceeded(
                f"{outer} agents are inside each other already (limits.run_depth); "
                "answer yourself, from what you have"
            )
        started = task.started_agents.get(request.path)
        is_new = started is None
        try:
            if agent.toolsets:
                scope = scope_of(held, task, request.caller.profile, agent.name)
                toolsets = self._participants.toolsets
                agent = await toolsets.equip(agent, held, scope, is_new=is_new)
                request = replace(request, agent=agent)
            model = self._participants.model(agent, started.model if started else None)
            if started is None:
                await self._start(request, ledger, model, outer)
            budget = self._budget(request, ledger)
            part = ledger.with_budget(budget)
            outcome = await self._answer(request, part, model, is_new=is_new)
        except _FAILURES as error:
            raise_exhaustion(error)
            raise ToolFailed(f"the agent {agent.name} failed: {error}") from error
        if isinstance(outcome, ErrorDetail):
            raise _failure(agent, outcome, budget)
        if outcome.output is not None and request.is_typed:
            return outcome.output.value
        # A notice that the budget is used up is not an answer.
        if outcome.reply is None and outcome.finish == BUDGET_EXCEEDED:
            raise _out_of_budget(agent, budget)
        return outcome.text

    def _budget(self, request: AgentRequest, ledger: Ledger) -> PartialBudget:
        """Return the budget of the agent, within that of its caller."""
        task = ledger.task
        return PartialBudget(
            request.agent.settings.allowance,
            (task.parts or {})[request.path],
            self._world.clock,
            outer=ledger.budget,
            active_ms=task.spent.active_ms,
        )

    async def _start(self, request: AgentRequest, ledger: Ledger, model: Model, outer: int) -> None:
        agent, held, profile = request.agent, ledger.held, request.caller.profile
        invoker, instructions = self._participants.invoker(agent), None
        if agent.instruction_parts is not None:
            scope = scope_of(held, ledger.task, profile, agent.name)
            dependencies = invoker.edition.resources.dependencies
            instructions = await agent.instruction_parts.text(held, scope, dependencies)
        # Only the agent of a conversation can hand it off.
        caller, hides = _caller(request), invoker.rules.hides
        every = offered(agent, invoker, profile)
        named = [tool for tool in every if tool.spec.tool_id not in agent.transfers]
        tools = [tool for tool in named if not hides(tool.spec, caller)]
        started = AgentStarted(
            agent=agent.name,
            message=request.task,
            system=system_prompt(agent, instructions=instructions, additions=request.additions),
            model=model.card.model_id,
            offered=tuple(tool.spec.tool_id for tool in tools),
            charter={AS_TOOL: True} if request.called_at is None else {AS_TOOL: True, OUTER: outer},
        )
        ledger.add(started, request.path)

    async def _answer(
        self, request: AgentRequest, ledger: Ledger, model: Model, *, is_new: bool
    ) -> FinalReply | ErrorDetail:
        run, contract = (
            partial(self._run, request, ledger, model, is_new=is_new),
            request.agent.contract,
        )
        if contract is None:
            return await run(None)
        return await with_output(contract, model.card, ledger, run, path=request.path)

    async def _run(
        self,
        request: AgentRequest,
        ledger: Ledger,
        model: Model,
        contract: OutputContract | None,
        *,
        is_new: bool,
    ) -> FinalReply | ErrorDetail:
        agent: AnyAgent = request.agent
        settings, dialogue = agent.settings, ledger.task.agents[request.path]
        setup, hooks = self._participants.setup(agent), None
        if setup.hooks is not None:
            resources, profile = setup.invoker.edition.resources, request.caller.profile
            hooks = TaskHooks(setup.hooks, ledger, profile, resources.dependencies)
        offer = self._offers(request, ledger, setup)
        if hooks is not None:
            await hooks.begin(dialogue)
        around = None if hooks is None else ReplyHooks(hooks, ledger, request.path)
        opened = partial(
            open_turns, dialogue=dialogue, world=self._world, bus=self._bus, is_new=is_new
        )
        most = settings.max_iterations
        run: Callable[[], Awaitable[End]]
        if contract is None:
            agent_model = AgentModel(model, offer, agent, ledger, hooks=around)
            turns = opened(agent_model, CallRunner(setup.invoker, ledger, settings))
            run = partial(loop, turns, ledger.task, max_iterations=most)
        else:
            offers = OutputOffers(offer, contract)
            call_runner = OutputCallRunner(
                self._participants.output_invoker(setup, contract),
                ledger,
                settings,
                contract=contract,
                dialogue=dialogue,
                hooks=hooks,
            )
            agent_model = AgentModel(model, offers, agent, ledger, contract=contract, hooks=around)
            turns = opened(agent_model, call_runner)
            run = partial(output_loop, turns, ledger, offers, max_iterations=most)
            hooks = None if contract.mode is OutputMode.TOOL else hooks
        ended = await run()
        while hooks is not None and not await has_passed(hooks, turns, ended):
            ended = await run()
        assert not isinstance(ended, Transfer)  # noqa: S101  its model has no tool for that
        return ended

    def _offers(self, request: AgentRequest, ledger: Ledger, setup: AgentSetup) -> FrameOffers:
        (agent, invoker, hooks), profile = setup, request.caller.profile
        dialogue, started = ledger.task.agents[request.path], ledger.task.started_agents
        fixed = started[request.path].offered
        choice = agent.settings.skill_choice
        skills = TaskSkills(
            self._participants.skills, dialogue, lambda: choice, profile, request.selected
        )
        return FrameOffers(
            agent,
            invoker,
            _caller(request, fixed, skills=skills, hooks=hooks),
            dialogue=dialogue,
            fixed=fixed if agent.settings.tools_enabled else None,
        )


def _agents_around(task: TaskState, path: CallPath) -> int:
    """Return how many agents are around a call; a frame in another place says it of itself."""
    around = [began for frame, began in task.started_agents.items() if is_below(path, frame)]
    return len(around) + max((each.charter.get(OUTER, 0) for each in around), default=0)


def _caller(
    request: AgentRequest,
    offered_ids: Sequence[str] = (),
    *,
    skills: TaskSkills | None = None,
    hooks: AgentHooks | None = None,
) -> Caller:
    """Return an agent in a frame as a caller. It may do nothing that its own caller must not."""
    outer = request.caller
    own = caller_for(request.agent, outer.profile, offered_ids, skills)
    return replace(own, session=outer.session, hooks=hooks).within(outer)


def _failure(
    agent: AnyAgent, error: ErrorDetail, budget: PartialBudget
) -> ToolFailed | BudgetExceeded:
    if error.code == BudgetExceeded.code:
        return _out_of_budget(agent, budget, error.message)
    message = f"the agent {agent.name} failed: {error.message}"
    return ToolFailed(message, details={"code": error.code})


def _out_of_budget(
    agent: AnyAgent, budget: PartialBudget, *message: str
) -> ToolFailed | BudgetExceeded:
    if not budget.has_refused:
        return BudgetExceeded(*message)
    # The caller has a budget left, so it may continue without this agent.
    spent = f"the agent {agent.name} has used up its own budget (`budget_…` in its settings)"
    return ToolFailed(spent, details={"code": BudgetExceeded.code})
