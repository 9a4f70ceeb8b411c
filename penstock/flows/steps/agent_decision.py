"""The kind `agent-decision`: an agent chooses one branch."""

from collections.abc import Mapping
from typing import ClassVar

from penstock.core.events.flow_events import Outcome
from penstock.flows.agents.finish import FinishContract
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.agent import AgentDriven, agent_of, pursue, task_of
from penstock.flows.steps.kind import (
    AGENT,
    BRANCHES,
    INPUTS,
    MAX_ITERATIONS,
    MODEL,
    ON_ERROR,
    TASK,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
)


class AgentDecision(AgentDriven, frozen=True, kw_only=True):
    """An agent chooses one branch."""

    kind: ClassVar[str] = "agent-decision"
    is_router: ClassVar[bool] = True
    has_branches: ClassVar[bool] = True

    task: str
    branches: Mapping[str, str]


async def _visit(step: AgentDecision, context: StepContext, tools: StepTools) -> VisitResult:
    agent = agent_of(tools, context, step.agent)
    if isinstance(agent, VisitOutcome):
        return VisitResult(ended=agent)
    contract = FinishContract(outputs=agent.profile.outputs, branches=tuple(step.branches))
    ended = await pursue(step, context, tools, agent, task=task_of(step), contract=contract)
    if ended.outcome is not Outcome.SUCCESS:
        return VisitResult(ended=ended)
    target = step.branches[str(ended.result.branch)]
    return VisitResult(ended=ended, route=context.run.loops.route(step, [target]))


KIND = StepKind(
    step=AgentDecision,
    fields=(
        needed(AGENT),
        needed(TASK),
        MODEL,
        MAX_ITERATIONS,
        needed(BRANCHES),
        INPUTS,
        ON_ERROR,
    ),
    visit=_visit,
    implied_by="branches",
)
