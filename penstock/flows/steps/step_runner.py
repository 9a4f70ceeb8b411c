"""Carries out one visit of a step, by its kind.

Every kind ends in a `VisitResult`: an outcome and, for routers, where control goes. A visit that
was interrupted starts again from the top, with the same frame: the session, calls and question
that it had are found in the log under that frame and are not made a second time. Code in this
file must therefore do the same in each attempt; anything with an effect belongs behind the
ledger. Tests: tests/flows/steps/test_step_runner.py.
"""

from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError
from penstock.core.events.flow_events import Outcome, StepResult, is_present
from penstock.core.limits import World
from penstock.engine.suspend import ask
from penstock.flows.agents.agent_sessions import AgentSessions, AgentVisit
from penstock.flows.agents.briefing import Briefing, Expand, TaskOf, brief, wired
from penstock.flows.agents.finish import FinishContract, loop_branches, loop_target, merged
from penstock.flows.code.steps import CodeSteps, CodeVisit
from penstock.flows.definition import (
    DECIDER,
    AgentDecision,
    AgentStep,
    AnyStep,
    Code,
    CodeDecision,
    Conditional,
    FlowRef,
    Fork,
    LoopDecision,
    Shell,
)
from penstock.flows.runs.loops import RouteTaken
from penstock.flows.runs.run import Run
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.flows.steps.forks import cancelled, choice_in, chosen, decider_task, question_of
from penstock.flows.steps.shell import ShellSteps, with_variables
from penstock.flows.steps.step_context import StepContext, VisitResult


class StepRunner:
    """Carries out visits of all kinds of steps, except flow-ref."""

    def __init__(
        self, agent_sessions: AgentSessions, code: CodeSteps, shell: ShellSteps, world: World
    ) -> None:
        self._agent_sessions = agent_sessions
        self._code = code
        self._shell = shell
        self._world = world

    @property
    def why_no_shell(self) -> str:
        """Reason why shell steps are not available; empty if they are."""
        return self._shell.why_off

    async def visit(self, step: AnyStep, context: StepContext) -> VisitResult:
        """Carry out a visit to its end.

        Raises Suspend if it waits for a person, Cancel if the cancellation of the run was
        requested.
        """
        match step:
            case AgentStep():
                visited = await self._agent(step, context)
            case Conditional():
                visited = _conditional(step, context.run)
            case LoopDecision():
                visited = await self._loop(step, context)
            case AgentDecision():
                visited = await self._decision(step, context)
            case Fork():
                visited = await self._fork(step, context)
            case Code():
                visited = await self._enter(step, context)
            case Shell():
                visited = VisitResult(ended=await self._command(step, context))
            case FlowRef():
                raise TypeError("flow-ref steps are run by the FlowRunner")
            case _:
                assert_never(step)
        return visited

    async def _command(self, step: Shell, context: StepContext) -> VisitOutcome:
        values = context.run.values(step.config)
        command = with_variables(step.command, values)
        context.warn_of_missing(values, step.step_id)
        return await self._shell.run(step, context.frame, command, ledger=context.ledger)

    # ---- agents ----

    async def _agent(self, step: AgentStep, context: StepContext) -> VisitResult:
        agent = self._agent_of(context, step.agent)
        if isinstance(agent, VisitOutcome):
            return VisitResult(ended=agent)
        declared = agent.profile.outputs
        contract = FinishContract(outputs=merged(declared, step.outputs))
        return VisitResult(
            ended=await self._pursue(step, context, agent, task=_task_of(step), contract=contract)
        )

    async def _decision(self, step: AgentDecision, context: StepContext) -> VisitResult:
        agent = self._agent_of(context, step.agent)
        if isinstance(agent, VisitOutcome):
            return VisitResult(ended=agent)
        declared = agent.profile.outputs
        contract = FinishContract(outputs=declared, branches=tuple(step.branches))
        ended = await self._pursue(step, context, agent, task=_task_of(step), contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return VisitResult(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return VisitResult(ended=ended, route=context.run.loops.route(step, [target]))

    async def _loop(self, step: LoopDecision, context: StepContext) -> VisitResult:
        if (forced := context.run.loops.begin(step, context.visit)) is not None:
            result = StepResult(summary=f"left after {step.max_iterations} rounds")
            ended = VisitOutcome(outcome=Outcome.SUCCESS, result=result)
            return VisitResult(ended=ended, route=forced)
        agent = self._agent_of(context, step.agent)
        if isinstance(agent, VisitOutcome):
            return VisitResult(ended=agent)
        declared = agent.profile.outputs
        contract = FinishContract(outputs=declared, branches=loop_branches(step))

        def task(expand: Expand) -> str:
            count = f"This is iteration {context.visit} of {step.max_iterations}."
            return f"{expand(step.task)}\n\n{count}"

        ended = await self._pursue(step, context, agent, task=task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return VisitResult(ended=ended)
        target = loop_target(step, str(ended.result.branch))
        return VisitResult(ended=ended, route=RouteTaken((target,), context.visit))

    def _agent_of(self, context: StepContext, name: str) -> Agent | VisitOutcome:
        return self._agent_sessions.agent_of(context.frame, name, context.ledger)

    async def _pursue(
        self,
        step: AnyStep,
        context: StepContext,
        agent: Agent,
        *,
        task: TaskOf | None,
        contract: FinishContract,
    ) -> VisitOutcome:
        def briefing(agent: Agent) -> Briefing | VisitOutcome:
            values, materials = context.run.values(), self._agent_sessions.materials
            try:
                result = brief(
                    step, agent, task, run=context.run, values=values, materials=materials
                )
            except CallError as error:
                return failed("input_file", f"an input cannot be read: {error}")
            context.warn_of_missing(values, step.step_id)
            for missing in result.missing:
                context.warn(missing, stepId=step.step_id)
            return result

        model = getattr(step, "model", None)
        visit = AgentVisit(
            frame=context.frame,
            agent=agent,
            contract=contract,
            briefing=briefing,
            profile=context.profile,
            model=model,
            is_autonomous=context.is_autonomous,
        )
        ended = await self._agent_sessions.pursue(visit, context.ledger)
        for warning in ended.warnings:
            context.warn(warning, stepId=step.step_id)
        return ended

    # ---- code ----

    async def _enter(self, step: Code, context: StepContext) -> VisitResult:
        values = context.run.values()
        inputs = {name: values.value(text) for name, text in step.inputs.items()}
        context.warn_of_missing(values, step.step_id)
        visit = CodeVisit(
            step=step,
            inputs=inputs,
            task=context.run.task,
            frame=context.frame,
            profile=context.profile,
            is_autonomous=context.is_autonomous,
        )
        ended = await self._code.pursue(visit, context.ledger)
        if not isinstance(step, CodeDecision) or ended.outcome is not Outcome.SUCCESS:
            return VisitResult(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return VisitResult(ended=ended, route=context.run.loops.route(step, [target]))

    # ---- forks ----

    async def _fork(self, step: Fork, context: StepContext) -> VisitResult:
        values = context.run.values()
        question = values.text(step.question, wired(step, values))
        context.warn_of_missing(values, step.step_id)
        visited = await self._choose(step, context, question)
        return replace(visited, question=question)

    async def _choose(self, step: Fork, context: StepContext, question: str) -> VisitResult:
        if context.is_autonomous:
            return await self._leave_to_agent(step, context)
        asked = question_of(step, question, context.frame, self._world)
        choice = choice_in((await ask(context.ledger, asked)).answer)
        if choice.is_cancelled:
            return cancelled(step)
        if choice.is_left_to_agent:
            return await self._leave_to_agent(step, context)
        if choice.is_of(step):
            return chosen(step, context.run, choice.options, notes=choice.notes)
        return await self._decide(step, context, ", ".join(choice.options), notes=choice.notes)

    async def _leave_to_agent(self, step: Fork, context: StepContext) -> VisitResult:
        return replace(await self._decide(step, context, None), is_left_to_agent=True)

    async def _decide(
        self, step: Fork, context: StepContext, own_words: str | None, *, notes: str = ""
    ) -> VisitResult:
        """Let an agent choose: the run is autonomous, or a person answered in their own words."""
        agent = self._agent_of(context, step.agent or DECIDER)
        if isinstance(agent, VisitOutcome):
            return VisitResult(ended=agent)
        contract = FinishContract(
            outputs=agent.profile.outputs,
            branches=step.options,
            is_multiple=step.is_multiple,
        )
        task = partial(decider_task, step, own_words)
        ended = await self._pursue(step, context, agent, task=task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return VisitResult(ended=ended, decided_by=agent.name)
        branch = ended.result.branch
        options = [branch] if isinstance(branch, str) else list(branch or ())
        note = notes if own_words is not None else ended.result.summary
        visited = chosen(step, context.run, options, notes=note, own_words=own_words)
        result = replace(visited.ended.result, outputs=ended.result.outputs)
        return replace(visited, ended=replace(visited.ended, result=result), decided_by=agent.name)


def _conditional(step: Conditional, run: Run) -> VisitResult:
    # `check` without a dot means the artifacts of that step.
    name, dot, field = step.check.rpartition(".")
    step_id, field = (name, field) if dot else (step.check, "artifacts")
    result = run.results.get(step_id)
    value = _field(result, field) if result is not None else None
    branch, target = ("present", step.present) if is_present(value) else ("absent", step.absent)
    ended = VisitOutcome(outcome=Outcome.SUCCESS, result=StepResult(summary=branch, branch=branch))
    return VisitResult(ended=ended, route=RouteTaken((target,)))


def _field(result: StepResult, name: str) -> Any:
    if result.status == "skipped":
        return None
    return result.read(name if result.has(name) else "fullOutput")


def _task_of(step: AgentStep | AgentDecision) -> TaskOf | None:
    """Return the step's own task, or None for the task of the run."""
    task = step.task
    return None if task is None else lambda expand: expand(task)
