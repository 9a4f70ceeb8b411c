"""The kind `agent`: an agent works until it calls `finish`. Other kinds let agents decide."""

from collections.abc import Sequence
from typing import ClassVar

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError
from penstock.core.events.flow_events import STANDARD_FIELDS
from penstock.flows.agents.agent_runner import AgentVisit
from penstock.flows.agents.briefing import Briefing, TaskOf, brief
from penstock.flows.agents.finish import FinishContract, merged
from penstock.flows.definition import Step
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.kind import (
    AFTERWARDS,
    AGENT,
    INPUTS,
    MODEL,
    OUTPUTS,
    TASK,
    TEXT,
    IgnoredValue,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)


class AgentDriven(Step, frozen=True, kw_only=True):
    """A step that an agent always carries out."""

    expands: ClassVar[tuple[str, ...]] = ("task",)

    agent: str

    def result_fields(self, of_agent: Sequence[str] | None) -> Sequence[str] | None:
        """Return the standard fields, those of the agent, and those of the step."""
        if of_agent is None:
            return None
        return (*STANDARD_FIELDS, *of_agent, *(output.name for output in self.outputs))


class AgentStep(AgentDriven, frozen=True, kw_only=True):
    """An agent works until it calls `finish`."""

    kind: ClassVar[str] = "agent"
    is_agent_work: ClassVar[bool] = True


async def _visit(step: AgentStep, context: StepContext, tools: StepTools) -> VisitResult:
    agent = agent_of(tools, context, step.agent)
    if isinstance(agent, VisitOutcome):
        return VisitResult(ended=agent)
    contract = FinishContract(outputs=merged(agent.profile.outputs, step.outputs))
    ended = await pursue(step, context, tools, agent, task=task_of(step), contract=contract)
    return VisitResult(ended=ended)


def agent_of(tools: StepTools, context: StepContext, name: str) -> Agent | VisitOutcome:
    """Return the agent of a visit as the run recorded it, or the failure of the visit."""
    return tools.agent_runner.agent_of(context.frame, name, context.ledger)


def task_of(step: Step) -> TaskOf | None:
    """Return the step's own task, or None for the task of the run."""
    task = step.task
    return None if task is None else lambda expand: expand(task)


async def pursue(
    step: Step,
    context: StepContext,
    tools: StepTools,
    agent: Agent,
    *,
    task: TaskOf | None,
    contract: FinishContract,
) -> VisitOutcome:
    """Let an agent work until it calls `finish` as the contract demands."""

    def briefing(agent: Agent) -> Briefing | VisitOutcome:
        values, materials = context.run.values(), tools.agent_runner.materials
        try:
            result = brief(step, agent, task, run=context.run, values=values, materials=materials)
        except CallError as error:
            return failed("input_file", f"an input cannot be read: {error}")
        context.warn_of_missing(values, step.step_id)
        for missing in result.missing:
            context.warn(missing, stepId=step.step_id)
        return result

    visit = AgentVisit(
        frame=context.frame,
        agent=agent,
        contract=contract,
        briefing=briefing,
        profile=context.profile,
        model=step.model,
        is_autonomous=context.is_autonomous,
    )
    ended = await tools.agent_runner.pursue(visit, context.ledger)
    for warning in ended.warnings:
        context.warn(warning, stepId=step.step_id)
    return ended


KIND = StepKind(
    step=AgentStep,
    fields=(
        needed(AGENT),
        TASK,
        MODEL,
        OUTPUTS,
        step_field("output", TEXT),
        INPUTS,
        *AFTERWARDS,
        step_field("reads", IgnoredValue(), ""),
    ),
    visit=_visit,
)
