"""One visit of one step, by its kind: what it does until it is over (section 7)."""

from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError
from penstock.core.step import Outcome, StepResult, is_present
from penstock.core.world import World
from penstock.engine.suspend import ask
from penstock.flows.agent_sessions import AgentSessions, AgentVisit, find_agent
from penstock.flows.briefing import Expand, TaskOf, brief, wired
from penstock.flows.code import CodeSteps, CodeVisit
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
from penstock.flows.finish import FinishContract, loop_branches, loop_target, merged
from penstock.flows.forks import cancelled, choice_in, chosen, decider_task, question_of
from penstock.flows.loops import RouteTaken
from penstock.flows.prompt import Briefing
from penstock.flows.run import Run
from penstock.flows.session import VisitOutcome, failed
from penstock.flows.shell import ShellSteps, with_variables
from penstock.flows.step_context import StepContext, Visited


class StepRunner:
    """Carries out visits of steps."""

    def __init__(
        self, agent_sessions: AgentSessions, code: CodeSteps, shell: ShellSteps, world: World
    ) -> None:
        self._agent_sessions = agent_sessions
        self._code = code
        self._shell = shell
        self._world = world

    @property
    def why_no_shell(self) -> str:
        """Why shell steps do not run here; nothing if they do."""
        return self._shell.why_off

    async def visit(self, step: AnyStep, place: StepContext) -> Visited:
        """Go on with a visit until it is over.

        Raises Suspend when it waits for a person, Cancel when somebody wants the run to end.
        """
        match step:
            case AgentStep():
                visited = await self._agent(step, place)
            case Conditional():
                visited = _conditional(step, place.run)
            case LoopDecision():
                visited = await self._loop(step, place)
            case AgentDecision():
                visited = await self._decision(step, place)
            case Fork():
                visited = await self._fork(step, place)
            case Code():
                visited = await self._enter(step, place)
            case Shell():
                visited = Visited(ended=await self._command(step, place))
            case FlowRef():
                raise TypeError("a flow-ref step is conducted, not visited")
            case _:
                assert_never(step)
        return visited

    async def _command(self, step: Shell, place: StepContext) -> VisitOutcome:
        values = place.run.values(step.config)
        command = with_variables(step.command, values)
        place.warn_of_missing(values, step.step_id)
        return await self._shell.run(step, place.frame, command, ledger=place.ledger)

    # ---- agents ----

    async def _agent(self, step: AgentStep, place: StepContext) -> Visited:
        agent = find_agent(self._agent_sessions, step.agent, place)
        if isinstance(agent, VisitOutcome):
            return Visited(ended=agent)
        promised = agent.charter.outputs
        contract = FinishContract(outputs=merged(promised, step.outputs))
        return Visited(
            ended=await self._pursue(step, place, agent, task=_task_of(step), contract=contract)
        )

    async def _decision(self, step: AgentDecision, place: StepContext) -> Visited:
        agent = find_agent(self._agent_sessions, step.agent, place)
        if isinstance(agent, VisitOutcome):
            return Visited(ended=agent)
        promised = agent.charter.outputs
        contract = FinishContract(outputs=promised, branches=tuple(step.branches))
        ended = await self._pursue(step, place, agent, task=_task_of(step), contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return Visited(ended=ended, route=place.run.loops.route(step, [target]))

    async def _loop(self, step: LoopDecision, place: StepContext) -> Visited:
        if (out := place.run.loops.begin(step, place.visit)) is not None:
            result = StepResult(summary=f"left after {step.max_iterations} rounds")
            return Visited(ended=VisitOutcome(outcome=Outcome.SUCCESS, result=result), route=out)
        agent = find_agent(self._agent_sessions, step.agent, place)
        if isinstance(agent, VisitOutcome):
            return Visited(ended=agent)
        promised = agent.charter.outputs
        contract = FinishContract(outputs=promised, branches=loop_branches(step))

        def task(expand: Expand) -> str:
            count = f"This is iteration {place.visit} of {step.max_iterations}."
            return f"{expand(step.task)}\n\n{count}"

        ended = await self._pursue(step, place, agent, task=task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = loop_target(step, str(ended.result.branch))
        return Visited(ended=ended, route=RouteTaken((target,), place.visit))

    async def _pursue(
        self,
        step: AnyStep,
        place: StepContext,
        agent: Agent,
        *,
        task: TaskOf | None,
        contract: FinishContract,
    ) -> VisitOutcome:
        def briefing(agent: Agent) -> Briefing | VisitOutcome:
            values, materials = place.run.values(), self._agent_sessions.materials
            try:
                told = brief(step, agent, task, run=place.run, values=values, materials=materials)
            except CallError as error:
                return failed("input_file", f"an input cannot be read: {error}")
            place.warn_of_missing(values, step.step_id)
            for missing in told.missing:
                place.warn(missing, stepId=step.step_id)
            return told

        model = getattr(step, "model", None)
        visit = AgentVisit(
            frame=place.frame,
            agent=agent,
            contract=contract,
            briefing=briefing,
            profile=place.profile,
            model=model,
            is_autonomous=place.is_autonomous,
        )
        ended = await self._agent_sessions.pursue(visit, place.ledger)
        for warning in ended.warnings:
            place.warn(warning, stepId=step.step_id)
        return ended

    # ---- code ----

    async def _enter(self, step: Code, place: StepContext) -> Visited:
        values = place.run.values()
        inputs = {name: values.value(text) for name, text in step.inputs.items()}
        place.warn_of_missing(values, step.step_id)
        visit = CodeVisit(
            step=step,
            inputs=inputs,
            task=place.run.task,
            frame=place.frame,
            profile=place.profile,
            is_autonomous=place.is_autonomous,
        )
        ended = await self._code.pursue(visit, place.ledger)
        if not isinstance(step, CodeDecision) or ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return Visited(ended=ended, route=place.run.loops.route(step, [target]))

    # ---- forks ----

    async def _fork(self, step: Fork, place: StepContext) -> Visited:
        values = place.run.values()
        question = values.text(step.question, wired(step, values))
        place.warn_of_missing(values, step.step_id)
        visited = await self._choose(step, place, question)
        return replace(visited, question=question)

    async def _choose(self, step: Fork, place: StepContext, question: str) -> Visited:
        if place.is_autonomous:
            return await self._leave_to_agent(step, place)
        asked = question_of(step, question, place.frame, self._world)
        choice = choice_in((await ask(place.ledger, asked)).answer)
        if choice.is_cancelled:
            return cancelled(step)
        if choice.is_left_to_agent:
            return await self._leave_to_agent(step, place)
        if choice.is_of(step):
            return chosen(step, place.run, choice.options, notes=choice.notes)
        return await self._decide(step, place, ", ".join(choice.options), notes=choice.notes)

    async def _leave_to_agent(self, step: Fork, place: StepContext) -> Visited:
        return replace(await self._decide(step, place, None), is_left_to_agent=True)

    async def _decide(
        self, step: Fork, place: StepContext, said: str | None, *, notes: str = ""
    ) -> Visited:
        """Let an agent choose: no person does, or one answered in words of their own."""
        agent = find_agent(self._agent_sessions, step.agent or DECIDER, place)
        if isinstance(agent, VisitOutcome):
            return Visited(ended=agent)
        contract = FinishContract(
            outputs=agent.charter.outputs,
            branches=step.options,
            is_multiple=step.is_multiple,
        )
        task = partial(decider_task, step, said)
        ended = await self._pursue(step, place, agent, task=task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended, decided_by=agent.name)
        branch = ended.result.branch
        options = [branch] if isinstance(branch, str) else list(branch or ())
        note = notes if said is not None else ended.result.summary
        visited = chosen(step, place.run, options, notes=note, said=said)
        result = replace(visited.ended.result, outputs=ended.result.outputs)
        return replace(visited, ended=replace(visited.ended, result=result), decided_by=agent.name)


def _conditional(step: Conditional, run: Run) -> Visited:
    name, dot, field = step.check.rpartition(".")
    step_id, field = (name, field) if dot else (step.check, "artifacts")
    result = run.results.get(step_id)
    value = _field(result, field) if result is not None else None
    said, target = ("present", step.present) if is_present(value) else ("absent", step.absent)
    ended = VisitOutcome(outcome=Outcome.SUCCESS, result=StepResult(summary=said, branch=said))
    return Visited(ended=ended, route=RouteTaken((target,)))


def _field(result: StepResult, name: str) -> Any:
    if result.status == "skipped":
        return None
    return result.read(name if result.has(name) else "fullOutput")


def _task_of(step: AgentStep | AgentDecision) -> TaskOf | None:
    """Return the task of a step; None for that of the run."""
    task = step.task
    return None if task is None else lambda expand: expand(task)
