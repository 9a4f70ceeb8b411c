"""A run of a flow as its log tells it: a fold of what started and what settled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from penstock.core.flow_events import StepSettled, StepStarted
from penstock.core.step import ABORTED, SKIPPED, Outcome, StepResult
from penstock.flows.definition import AgentStep, AnyStep, Flow, FlowRef, Fork, LoopDecision
from penstock.flows.runs.fork_choice import A_PERSON, ForkAnswer, ForkChoice
from penstock.flows.runs.loops import LoopCounters
from penstock.flows.runs.plan import Aborted, Jumped, Notice, Plan, Skipped
from penstock.flows.runs.values import TemplateValues


@dataclass(slots=True)
class Run:
    """One flow at work: the run itself, or a flow that one of its steps refers to."""

    flow: Flow
    task: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Of the project."""
    plan: Plan = field(init=False)
    loops: LoopCounters = field(init=False)
    results: dict[str, StepResult] = field(default_factory=dict)
    """By step; `REF.STEP` for steps of a flow that a step refers to."""
    forks: dict[str, ForkAnswer] = field(default_factory=dict)
    choices: dict[str, ForkChoice] = field(default_factory=dict)
    """Of the steps that a fork has just led to, until they have run."""
    tries: dict[str, int] = field(default_factory=dict)
    """Failed tries of a step that is to be tried again."""
    between_tries: set[str] = field(default_factory=set)
    """Steps whose next try has not begun."""
    promised: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Ids of steps of flows inside, and the references that bring them, as far as paths tell."""
    brought: dict[str, str] = field(default_factory=dict)
    """Ids of steps of flows inside, and the one reference that has them; empty: several have."""
    visits_inside: dict[str, int] = field(default_factory=dict)
    """How often steps of flows inside were started, by result id."""
    forks_inside: dict[str, ForkAnswer] = field(default_factory=dict)
    """Forks of flows inside, by result id."""
    newest: str | None = None
    """The step that settled last."""
    newest_agent: str | None = None
    """What settled last and has the result of an agent: its step, or that of a flow inside."""
    failed_by: Outcome = Outcome.SOFT
    """Whether a soft or a hard failure ended the run."""
    failure: str = ""
    """Why the run ended with error."""

    def __post_init__(self) -> None:
        """Begin at the first segment."""
        self.plan, self.loops = Plan(self.flow), LoopCounters(self.flow)

    def values(self, config: Mapping[str, Any] | None = None) -> TemplateValues:
        """Return what templates of a step name; `config` is the step's own."""
        return TemplateValues(
            flow=self.flow,
            task=self.task,
            results=self.results,
            loops=self.loops,
            forks=self.forks,
            config={**self.config, **self.flow.config, **(config or {})},
            inputs=self.inputs,
            promised=self.promised,
        )

    def start(self, event: StepStarted) -> None:
        """Take in that a visit began."""
        visit = self.plan.start(event.step_id)
        self.between_tries.discard(event.step_id)
        step = self.flow.by_id[event.step_id]
        if isinstance(step, LoopDecision):
            self.loops.begin(step, visit)

    def settle(self, event: StepSettled) -> Sequence[Notice]:
        """Take in how a visit ended; returns what follows from it."""
        if event.will_retry:
            self.tries[event.step_id] = self.tries.get(event.step_id, 0) + 1
            self.between_tries.add(event.step_id)
            return ()
        step = self.flow.by_id[event.step_id]
        self.tries.pop(event.step_id, None)
        self.choices.pop(event.step_id, None)
        self.results[event.step_id] = event.result
        self.newest = event.step_id
        if isinstance(step, AgentStep) or _is_of_agent(step, event.result):
            self.newest_agent = event.step_id
        if event.answer is not None and isinstance(step, Fork):
            self._choose(step, event)
        if step.is_router:
            self.loops.settle(step, event.visit, event.targets)
        return self._noted(self.plan.settle(event.step_id, event.outcome, event.targets), event)

    def abort(self) -> Sequence[Notice]:
        """Take in that somebody wants the run to end."""
        return self._noted(self.plan.abort(), None)

    def fail(self, text: str) -> Sequence[Notice]:
        """Take in that the runtime failed."""
        self.failure, self.failed_by = text, Outcome.HARD
        return self._noted(self.plan.fail(), None)

    def visits_of(self, result_id: str) -> int:
        """Return how often the step was started that a result is of."""
        return self.plan.visits.get(result_id, self.visits_inside.get(result_id, 0))

    def adopt(self, ref: str, inner: "Run", number: str = "") -> None:
        """Take over results of a flow that a step referred to.

        As `REF.STEP`, of a match of a glob as `REF.N.STEP` too, and as `STEP` where no step of this
        flow and no other reference has that id.
        """
        fronts = [f"{ref}.", *([f"{ref}.{number}."] if number else [])]
        for name, result in inner.results.items():
            for front in fronts:
                self._take_over(f"{front}{name}", result, inner.visits_of(name))
            if name in self.flow.by_id:
                continue
            owner = self.brought.setdefault(name, ref)
            if owner == ref and self.promised.get(name, frozenset()) <= {ref}:
                self._take_over(name, result, inner.visits_of(name))
            elif owner != ref:
                self.brought[name] = ""
                self.results.pop(name, None)
        for name, answer in (inner.forks_inside | inner.forks).items():
            self.forks_inside.update((f"{front}{name}", answer) for front in fronts)

    def last_result(self) -> StepResult:
        """Return what the agent left that settled last; nothing, if none did."""
        return self.results[self.newest_agent] if self.newest_agent else StepResult()

    def _take_over(self, result_id: str, result: StepResult, visits: int) -> None:
        self.results[result_id] = result
        self.visits_inside[result_id] = visits

    def _choose(self, fork: Fork, event: StepSettled) -> None:
        answer = event.answer or ""
        self.forks[fork.step_id] = ForkAnswer(answer, event.notes)
        choice = ForkChoice(
            fork_id=fork.step_id,
            question=event.question or fork.question,
            answer=answer,
            notes=event.notes,
            decided_by=event.decided_by or A_PERSON,
        )
        self.choices.update(dict.fromkeys(event.targets, choice))

    def _leave_choices(self, jump: Jumped) -> None:
        """Forget what was chosen at forks, but for the steps that this jump leads to from one."""
        self.choices = {
            step_id: choice
            for step_id, choice in self.choices.items()
            if choice.fork_id == jump.source and step_id in jump.targets
        }

    def _noted(self, notices: Sequence[Notice], event: StepSettled | None) -> Sequence[Notice]:
        for notice in notices:
            if isinstance(notice, Skipped):
                self.results[notice.step_id] = SKIPPED
            elif isinstance(notice, Aborted):
                cause = event.text if event is not None else ""
                self.results[notice.step_id] = replace(ABORTED, summary=cause or ABORTED.summary)
            elif isinstance(notice, Jumped):
                self._leave_choices(notice)
        if event is not None and self.plan.status is not None:
            usual = f"step {event.step_id!r} failed and did not say why"
            has_failed = event.outcome is not Outcome.SUCCESS
            self.failure = event.text or (usual if has_failed else "")
            self.failed_by = event.outcome
        return notices


def _is_of_agent(step: AnyStep, result: StepResult) -> bool:
    """Whether a step that refers to flows has the result of an agent in them."""
    return isinstance(step, FlowRef) and result.finish is not None
