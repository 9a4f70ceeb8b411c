"""State of one flow in a run: a fold of step starts and step outcomes.

Adds to the plan what the rest of a run reads: results, choices at forks, failed attempts, loop
counters, and the results that nested flows bring. Like the plan it depends on the log alone, so a
resumed run has the same templates and the same result. `flow_result` is the outcome as people and
programs read it. Tests: tests/flows/runs/test_run.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from penstock.core.envelope import Json
from penstock.core.events.flow_events import (
    ABORTED,
    SKIPPED,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.engine.task_state import TaskState
from penstock.flows.definition import Flow, Step
from penstock.flows.runs.plan import Aborted, Jumped, Notice, Plan, RunStatus, Skipped
from penstock.flows.runs.values import (
    A_PERSON,
    ForkAnswer,
    ForkChoice,
    LoopCounters,
    TemplateValues,
)
from penstock.flows.runs.visits import warnings_of


@dataclass(slots=True)
class Run:
    """One running flow: the run itself, or a nested flow."""

    flow: Flow
    task: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Config of the project."""
    plan: Plan = field(init=False)
    loops: LoopCounters = field(init=False)
    results: dict[str, StepResult] = field(default_factory=dict)
    """By step id; `REF.STEP` for the steps of nested flows."""
    forks: dict[str, ForkAnswer] = field(default_factory=dict)
    choices: dict[str, ForkChoice] = field(default_factory=dict)
    """Forks that led to a step, by that step, until it has run."""
    tries: dict[str, int] = field(default_factory=dict)
    """Number of failed attempts of steps that will be retried."""
    between_tries: set[str] = field(default_factory=set)
    """Steps whose next attempt has not started."""
    promised: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Step ids of nested flows -> the flow-ref steps that may provide them, by literal paths."""
    brought: dict[str, str] = field(default_factory=dict)
    """Step ids of nested flows -> the flow-ref step that provided them; empty if several did."""
    visits_inside: dict[str, int] = field(default_factory=dict)
    """Number of starts of the steps of nested flows, by result id."""
    forks_inside: dict[str, ForkAnswer] = field(default_factory=dict)
    """Fork answers in nested flows, by result id."""
    newest: str | None = None
    """The step that settled last."""
    newest_agent: str | None = None
    """The last settled step with an agent's result: an agent step or a flow-ref."""
    failed_by: Outcome = Outcome.SOFT
    """Whether a soft or a hard failure ended the run."""
    failure: str = ""
    """Error text of a failed run."""

    def __post_init__(self) -> None:
        """Start at the first segment."""
        self.plan, self.loops = Plan(self.flow), LoopCounters(self.flow)

    def values(self, config: Mapping[str, Any] | None = None) -> TemplateValues:
        """Return the values for a step's templates; `config` is the step's own."""
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
        """Record that a visit or an attempt started."""
        visit = self.plan.start(event.step_id)
        self.between_tries.discard(event.step_id)
        step = self.flow.by_id[event.step_id]
        if step.counts_visits:
            self.loops.begin(step, visit)

    def settle(self, event: StepSettled) -> Sequence[Notice]:
        """Record the outcome of a visit. Return its consequences."""
        # A failed attempt that will be retried is not an outcome: the plan still sees the step as
        # running.
        if event.will_retry:
            self.tries[event.step_id] = self.tries.get(event.step_id, 0) + 1
            self.between_tries.add(event.step_id)
            return ()
        step = self.flow.by_id[event.step_id]
        self.tries.pop(event.step_id, None)
        self.choices.pop(event.step_id, None)
        self.results[event.step_id] = event.result
        self.newest = event.step_id
        if step.is_agent_work or _is_of_agent(step, event.result):
            self.newest_agent = event.step_id
        if event.answer is not None and step.asks_person:
            self._choose(step, event)
        if step.is_router:
            self.loops.settle(step, event.visit, event.targets)
        return self._record(self.plan.settle(event.step_id, event.outcome, event.targets), event)

    def abort(self) -> Sequence[Notice]:
        """End the run because its cancellation was requested."""
        return self._record(self.plan.abort(), None)

    def fail(self, text: str) -> Sequence[Notice]:
        """End the run because the runtime failed."""
        self.failure, self.failed_by = text, Outcome.HARD
        return self._record(self.plan.fail(), None)

    def visits_of(self, result_id: str) -> int:
        """Return how often the step of a result was started."""
        return self.plan.visits.get(result_id, self.visits_inside.get(result_id, 0))

    def adopt(self, ref: str, inner: "Run", number: str = "") -> None:
        """Add the results of a nested flow.

        A result is available as `REF.STEP`, in a glob also as `REF.N.STEP`. It is also available as
        plain `STEP` if that id is unambiguous: no step of this flow and no other flow-ref has it.
        """
        prefixes = [f"{ref}.", *([f"{ref}.{number}."] if number else [])]
        for name, result in inner.results.items():
            for prefix in prefixes:
                self._take_over(f"{prefix}{name}", result, inner.visits_of(name))
            if name in self.flow.by_id:
                continue
            # `promised` counts flow-refs that have not run yet: the meaning of plain `STEP` must
            # not depend on the order in which they finish.
            owner = self.brought.setdefault(name, ref)
            if owner == ref and self.promised.get(name, frozenset()) <= {ref}:
                self._take_over(name, result, inner.visits_of(name))
            elif owner != ref:
                self.brought[name] = ""
                self.results.pop(name, None)
        for name, answer in (inner.forks_inside | inner.forks).items():
            self.forks_inside.update((f"{prefix}{name}", answer) for prefix in prefixes)

    def last_result(self) -> StepResult:
        """Return the newest agent result, or an empty one."""
        return self.results[self.newest_agent] if self.newest_agent else StepResult()

    def _take_over(self, result_id: str, result: StepResult, visits: int) -> None:
        self.results[result_id] = result
        self.visits_inside[result_id] = visits

    def _choose(self, fork: Step, event: StepSettled) -> None:
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

    def _forget_choices(self, jump: Jumped) -> None:
        """Forget earlier fork choices, except those that this jump itself follows."""
        self.choices = {
            step_id: choice
            for step_id, choice in self.choices.items()
            if choice.fork_id == jump.source and step_id in jump.targets
        }

    def _record(self, notices: Sequence[Notice], event: StepSettled | None) -> Sequence[Notice]:
        for notice in notices:
            if isinstance(notice, Skipped):
                self.results[notice.step_id] = SKIPPED
            elif isinstance(notice, Aborted):
                cause = event.text if event is not None else ""
                self.results[notice.step_id] = replace(ABORTED, summary=cause or ABORTED.summary)
            elif isinstance(notice, Jumped):
                self._forget_choices(notice)
        if event is not None and self.plan.status is not None:
            usual = f"step {event.step_id!r} failed without a reason"
            has_failed = event.outcome is not Outcome.SUCCESS
            self.failure = event.text or (usual if has_failed else "")
            self.failed_by = event.outcome
        return notices


def flow_result(run: Run, task: TaskState, command: str, *, reason: str = "") -> Json:
    """Return the result of a run that has ended. `reason` overrides the run's own failure text."""
    status = run.plan.status or RunStatus.ERROR
    newest = run.results.get(run.newest) if run.newest else None
    wire: dict[str, Any] = {
        "runId": task.task_id,
        "flowName": command,
        "status": status.value,
        "task": run.task,
        "stepCount": sum(isinstance(event, StepStarted) for _, event in task.flow_events),
        "totalDuration": task.spent.active_ms,
        "results": {name: _entry(run, name, result) for name, result in run.results.items()},
        "forks": {
            name: _fork(fork.answer, fork.notes)
            for name, fork in (run.forks_inside | run.forks).items()
        },
        "lastResult": None if newest is None else newest.to_wire(),
        "usage": _usage(task.spent.usage()),
        "warnings": warnings_of(task),
    }
    why = reason or run.failure
    if status is not RunStatus.SUCCESS and why:
        wire["reason"] = why
    return wire


def result_without_steps(
    run_id: str, command: str, status: RunStatus, reason: str, *, task: str = ""
) -> Json:
    """Return the result of a run that was rejected, or ended before its first step."""
    return {
        "runId": run_id,
        "flowName": command,
        "status": status.value,
        "reason": reason,
        "task": task,
        "stepCount": 0,
        "totalDuration": 0,
        "results": {},
        "forks": {},
        "lastResult": None,
        "usage": _usage(NOTHING_SPENT),
        "warnings": [],
    }


def _is_of_agent(step: Step, result: StepResult) -> bool:
    """Whether the step is a flow-ref whose result comes from an agent."""
    return step.is_nested and result.finish is not None


def _entry(run: Run, name: str, result: StepResult) -> Json:
    return {**result.to_wire(), "visits": run.visits_of(name)}


def _usage(usage: Usage) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "modelCalls": usage.model_calls,
        "toolCalls": usage.tool_calls,
    }


def _fork(answer: str, notes: str) -> Json:
    return {"answer": answer, **({"notes": notes} if notes else {})}
