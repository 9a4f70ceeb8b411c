"""The kind `agent-loop-decision`: an agent decides whether to repeat, up to a limit."""

from collections.abc import Iterator
from typing import ClassVar

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import Outcome, StepResult
from penstock.flows.agents.briefing import Expand
from penstock.flows.agents.finish import FinishContract
from penstock.flows.checks.context import FlowView
from penstock.flows.definition import CAP, Choice, Route
from penstock.flows.parsed_flow import ParsedStep
from penstock.flows.runs.values import RouteTaken
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.agent import AgentDriven, agent_of, pursue
from penstock.flows.steps.kind import (
    AGENT,
    INPUTS,
    MAX_ITERATIONS,
    MODEL,
    ON_ERROR,
    STEP_ID,
    TASK,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)

LOOP_TARGET, EXIT_TARGET = "loop_target", "exit_target"
LOOP, EXIT = "loop", "exit"
"""Answers of the agent, and labels in pictures."""


class LoopDecision(AgentDriven, frozen=True, kw_only=True):
    """An agent decides whether to repeat. Each visit is one iteration."""

    kind: ClassVar[str] = "agent-loop-decision"
    is_router: ClassVar[bool] = True
    counts_visits: ClassVar[bool] = True

    task: str
    loop_target: str
    exit_target: str

    @property
    def limits_loops(self) -> bool:
        """True: the limit is a required field."""
        return True

    @property
    def loop_targets(self) -> tuple[str, ...]:
        """The step that starts the next iteration."""
        return (self.loop_target,)

    @property
    def exit_targets(self) -> tuple[str, ...]:
        """The step after the last iteration."""
        return (self.exit_target,)

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers that the agent may choose: step ids or `loop` and `exit`."""
        return tuple(dict.fromkeys((self.loop_target, self.exit_target, LOOP, EXIT)))

    def target_of(self, answer: str) -> str:
        """Return the step for an answer. A step with the id `loop` or `exit` takes precedence."""
        if answer in {self.loop_target, self.exit_target}:
            return answer
        return self.loop_target if answer == LOOP else self.exit_target

    def decisions(self) -> Iterator[Route]:
        """Yield the route back and the exit route."""
        yield Route(LOOP_TARGET, self.loop_target, label=LOOP, is_limited=True)
        yield Route(EXIT_TARGET, self.exit_target, label=EXIT, is_limited=True)

    def ways_on(self) -> Iterator[Choice]:
        """Yield the choices: exit, repeat once, and repeat up to the limit."""
        yield Choice(EXIT, (self.exit_target,), keys=(EXIT_TARGET,))
        yield Choice(LOOP, (self.loop_target,), keys=(LOOP_TARGET,))
        yield Choice(CAP, (self.loop_target,), keys=(MAX_ITERATIONS.key,))


async def _visit(step: LoopDecision, context: StepContext, tools: StepTools) -> VisitResult:
    if (forced := context.run.loops.begin(step, context.visit)) is not None:
        result = StepResult(summary=f"left after {step.max_iterations} rounds")
        ended = VisitOutcome(outcome=Outcome.SUCCESS, result=result)
        return VisitResult(ended=ended, route=forced)
    agent = agent_of(tools, context, step.agent)
    if isinstance(agent, VisitOutcome):
        return VisitResult(ended=agent)
    contract = FinishContract(outputs=agent.profile.outputs, branches=step.answers)

    def task(expand: Expand) -> str:
        count = f"This is iteration {context.visit} of {step.max_iterations}."
        return f"{expand(step.task)}\n\n{count}"

    ended = await pursue(step, context, tools, agent, task=task, contract=contract)
    if ended.outcome is not Outcome.SUCCESS:
        return VisitResult(ended=ended)
    target = step.target_of(str(ended.result.branch))
    return VisitResult(ended=ended, route=RouteTaken((target,), context.visit))


def _check(step: LoopDecision, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Warn if the loop target comes later and no path leads back to the step."""
    target = step.loop_target
    if target not in view.by_id or view.reachability.is_back(target, step.step_id):
        return
    if not view.reachability.leads_back(target, step.step_id):
        message = f'loop_target "{target}" of {parsed.label} comes later and nothing leads back'
        yield parsed.warning("loop-target-forward", message, parsed.node.at(LOOP_TARGET).key_place)


KIND = StepKind(
    step=LoopDecision,
    fields=(
        needed(AGENT),
        needed(TASK),
        MODEL,
        needed(step_field(LOOP_TARGET, STEP_ID)),
        needed(step_field(EXIT_TARGET, STEP_ID)),
        needed(MAX_ITERATIONS),
        INPUTS,
        ON_ERROR,
    ),
    visit=_visit,
    check=_check,
    implied_by=LOOP_TARGET,
)
