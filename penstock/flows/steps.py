"""One visit of one step, by its kind: what it does until it is over (section 7)."""

from dataclasses import dataclass, replace
from typing import Any

from penstock.agents.agent import Agent
from penstock.core.call import CallPath
from penstock.core.call_errors import CallError
from penstock.core.envelope import Json
from penstock.core.flow_events import FlowTold, StepSettled
from penstock.core.ids import QuestionId
from penstock.core.profile import Profile
from penstock.core.question import Option, Question, QuestionKind
from penstock.core.step import ABORTED, Outcome, StepResult, is_present
from penstock.core.world import World
from penstock.engine.answers import OTHER
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import ask
from penstock.flows.briefing import brief, wired
from penstock.flows.code import CodeSteps, CodeVisit
from penstock.flows.crew import Crew, Visit, find_agent
from penstock.flows.definition import (
    DECIDER,
    AgentDecision,
    AgentStep,
    AnyStep,
    Code,
    CodeDecision,
    Conditional,
    Fork,
    LoopDecision,
    Shell,
)
from penstock.flows.finish import Contract, loop_branches, loop_target, merged
from penstock.flows.loops import Route
from penstock.flows.prompt import Briefing
from penstock.flows.run import Run
from penstock.flows.session import Ended, failed
from penstock.flows.shell import ShellSteps

DECIDE = "decide"
WARNING = "flow_warning"
NOWHERE = Route(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """How a visit ended, and where it leads."""

    ended: Ended
    route: Route = NOWHERE
    answer: str | None = None
    """What was chosen at a fork."""
    notes: str = ""
    decided_by: str = ""
    """The agent that decided a fork."""

    def event(self, step_id: str, visit: int) -> StepSettled:
        """Return the visit as the log keeps it."""
        ended = self.ended
        return StepSettled(
            step_id=step_id,
            visit=visit,
            outcome=ended.outcome,
            result=ended.result,
            source=ended.source,
            text=ended.text,
            targets=self.route.targets,
            answer=self.answer,
            notes=self.notes,
            decided_by=self.decided_by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a visit takes place, and for whom."""

    run: Run
    frame: CallPath
    visit: int
    ledger: Ledger
    profile: Profile
    is_autonomous: bool

    def tell(self, kind: str, **body: Any) -> None:
        """Show readers of the run something."""
        self.ledger.add(FlowTold(kind=kind, body=body), self.frame)

    def warn(self, message: str, **body: Any) -> None:
        """Tell readers of the run, and of its result, that something is odd; it goes on."""
        self.tell(WARNING, message=message, **body)


class Steps:
    """Carries out visits of steps."""

    def __init__(self, crew: Crew, code: CodeSteps, shell: ShellSteps, world: World) -> None:
        self._crew = crew
        self._code = code
        self._shell = shell
        self._world = world

    async def visit(self, step: AnyStep, place: Place) -> Visited:
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
            case _:
                raise TypeError(f"a {step.kind} step is conducted, not visited")
        return visited

    async def _command(self, step: Shell, place: Place) -> Ended:
        values = place.run.values(step.config)
        return await self._shell.run(step, place.frame, values, ledger=place.ledger)

    # ---- agents ----

    async def _agent(self, step: AgentStep, place: Place) -> Visited:
        agent = find_agent(self._crew, step.agent)
        if isinstance(agent, Ended):
            return Visited(ended=agent)
        promised = agent.charter.outputs if agent.charter else ()
        contract = Contract(outputs=merged(promised, step.outputs))
        return Visited(
            ended=await self._pursue(step, place, agent, task=step.task, contract=contract)
        )

    async def _decision(self, step: AgentDecision, place: Place) -> Visited:
        agent = find_agent(self._crew, step.agent)
        if isinstance(agent, Ended):
            return Visited(ended=agent)
        promised = agent.charter.outputs if agent.charter else ()
        contract = Contract(outputs=promised, branches=tuple(step.branches))
        ended = await self._pursue(step, place, agent, task=step.task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return Visited(ended=ended, route=place.run.loops.route(step, [target]))

    async def _loop(self, step: LoopDecision, place: Place) -> Visited:
        if (out := place.run.loops.begin(step, place.visit)) is not None:
            result = StepResult(summary=f"left after {step.max_iterations} rounds")
            return Visited(ended=Ended(outcome=Outcome.SUCCESS, result=result), route=out)
        agent = find_agent(self._crew, step.agent)
        if isinstance(agent, Ended):
            return Visited(ended=agent)
        promised = agent.charter.outputs if agent.charter else ()
        contract = Contract(outputs=promised, branches=loop_branches(step))
        task = f"{step.task}\n\nThis is iteration {place.visit} of {step.max_iterations}."
        ended = await self._pursue(step, place, agent, task=task, contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = loop_target(step, str(ended.result.branch))
        return Visited(ended=ended, route=Route((target,), place.visit))

    async def _pursue(
        self, step: AnyStep, place: Place, agent: Agent, *, task: str | None, contract: Contract
    ) -> Ended:
        def briefing(agent: Agent) -> Briefing | Ended:
            values, handouts = place.run.values(), self._crew.handouts
            try:
                told = brief(step, agent, task, run=place.run, values=values, handouts=handouts)
            except CallError as error:
                return failed("input_file", f"an input cannot be read: {error}")
            for reference in values.take_missing():
                place.warn(f"{reference} names nothing", stepId=step.step_id, reference=reference)
            for missing in told.missing:
                place.warn(missing, stepId=step.step_id)
            return told

        model = getattr(step, "model", None)
        visit = Visit(
            frame=place.frame,
            agent=agent,
            contract=contract,
            briefing=briefing,
            profile=place.profile,
            model=model,
            is_autonomous=place.is_autonomous,
        )
        ended = await self._crew.pursue(visit, place.ledger)
        for warning in ended.warnings:
            place.warn(warning, stepId=step.step_id)
        return ended

    # ---- code ----

    async def _enter(self, step: Code, place: Place) -> Visited:
        values = place.run.values()
        visit = CodeVisit(
            step=step,
            inputs={name: values.value(text) for name, text in step.inputs.items()},
            task=place.run.task,
            frame=place.frame,
            profile=place.profile,
            is_autonomous=place.is_autonomous,
        )
        ended = await self._code.pursue(visit, place.ledger)
        for reference in values.take_missing():
            place.warn(f"{reference} names nothing", stepId=step.step_id, reference=reference)
        if not isinstance(step, CodeDecision) or ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended)
        target = step.branches[str(ended.result.branch)]
        return Visited(ended=ended, route=place.run.loops.route(step, [target]))

    # ---- forks ----

    async def _fork(self, step: Fork, place: Place) -> Visited:
        if place.is_autonomous:
            return await self._decide(step, place, None)
        answered = await ask(place.ledger, _question(step, place, self._world))
        answer = answered.answer
        if answer.get("cancel") or ("value" not in answer and DECIDE not in answer):
            return _cancelled(step)
        notes = str(answer.get("notes", ""))
        if answer.get(DECIDE):
            return await self._decide(step, place, None)
        chosen = answer["value"]
        options = [chosen] if isinstance(chosen, str) else list(chosen)
        if all(each in step.branches for each in options):
            return _chosen(step, place.run, options, notes=notes)
        return await self._decide(step, place, ", ".join(options), notes=notes)

    async def _decide(
        self, step: Fork, place: Place, said: str | None, *, notes: str = ""
    ) -> Visited:
        """Let an agent choose: no person does, or one answered in words of their own."""
        agent = find_agent(self._crew, step.agent or DECIDER)
        if isinstance(agent, Ended):
            return Visited(ended=agent)
        contract = Contract(
            outputs=agent.charter.outputs if agent.charter else (),
            branches=step.options,
            is_multiple=step.is_multiple,
        )
        ended = await self._pursue(step, place, agent, task=_task_of(step, said), contract=contract)
        if ended.outcome is not Outcome.SUCCESS:
            return Visited(ended=ended, decided_by=agent.name)
        branch = ended.result.branch
        options = [branch] if isinstance(branch, str) else list(branch or ())
        note = notes if said is not None else ended.result.summary
        visited = _chosen(step, place.run, options, notes=note, said=said)
        result = replace(visited.ended.result, outputs=ended.result.outputs)
        return replace(visited, ended=replace(visited.ended, result=result), decided_by=agent.name)


def _conditional(step: Conditional, run: Run) -> Visited:
    name, dot, field = step.check.rpartition(".")
    step_id, field = (name, field) if dot else (step.check, "artifacts")
    result = run.results.get(step_id)
    value = _field(result, field) if result is not None else None
    target = step.present if is_present(value) else step.absent
    said = "present" if target == step.present else "absent"
    ended = Ended(outcome=Outcome.SUCCESS, result=StepResult(summary=said, branch=said))
    return Visited(ended=ended, route=Route((target,)))


def _field(result: StepResult, name: str) -> Any:
    if result.status == "skipped":
        return None
    return result.read(name if result.has(name) else "fullOutput")


def _question(step: Fork, place: Place, world: World) -> Question:
    values = place.run.values()
    texts = [*step.options, *[OTHER] * step.allows_custom]
    form: Json = {
        "type": "select",
        "multiSelect": step.is_multiple,
        "allowCustom": step.allows_custom,
        "allowNotes": step.allows_notes,
        "allowDecide": step.agent is not None,
        "stepId": step.step_id,
    }
    return Question(
        question_id=QuestionId(world.new_id("q")),
        kind=QuestionKind.FORK,
        text=values.text(step.question, wired(step, values)),
        path=place.frame,
        options=tuple(Option(label=each, value=each) for each in texts),
        form=form,
    )


def _chosen(
    step: Fork, run: Run, options: list[str], *, notes: str, said: str | None = None
) -> Visited:
    targets = [step.branches[each] for each in step.options if each in options]
    branch = options[0] if not step.is_multiple else tuple(options)
    answer = said if said is not None else ", ".join(options)
    result = StepResult(summary=answer, full_output=answer, branch=branch)
    ended = Ended(outcome=Outcome.SUCCESS, result=result)
    route = run.loops.route(step, list(dict.fromkeys(targets)))
    return Visited(ended=ended, route=route, answer=answer, notes=notes)


def _cancelled(step: Fork) -> Visited:
    """Return the end of a fork whose person wants no more of the whole run."""
    text = f"cancelled at fork {step.step_id}"
    result = replace(ABORTED, summary=text)
    ended = Ended(outcome=Outcome.ABORTED, result=result, source="aborted", text=text)
    return Visited(ended=ended)


def _task_of(step: Fork, said: str | None) -> str:
    """Return what the decider is told to do."""
    options = ", ".join(step.options)
    asked = f"{step.question}\n\nOptions: {options}\n\n"
    if said is not None:
        asked += f"A person answered in words of their own:\n{said}\n\n"
    return asked + (step.task or "Choose the option that fits best, and say why.")
