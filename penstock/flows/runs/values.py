"""Names for templates of a run: results, loop counters, choices at forks, inputs, config.

`LoopCounters` count how often a run took each way back, and apply the limits of loops and routers.
`TemplateValues` resolves `${{...}}` placeholders.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.events.flow_events import StepResult, StepStatus
from penstock.flows.definition import Flow, Step
from penstock.manifest.template import MISSING, LookUp, Placeholder, ValueSource, parse

A_PERSON = "a person"
Inputs = Mapping[str, str]
"""The wired inputs of a step, expanded."""


class RouteTaken(Struct, frozen=True):
    """The targets of a router after its `max_iterations` was applied."""

    targets: tuple[str, ...]
    """Empty: control continues with the next segment."""
    iteration: int = 0
    """The current iteration; 0 if the step limits nothing."""
    is_forced: bool = False
    """The limit was reached, so the way back is not taken."""
    back: tuple[str, ...] = ()
    """The targets at or before the step, whether taken or not."""


class LoopCounters:
    """Loop counters of one run. They are never reset."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._order: Mapping[str, int] = {
            step.step_id: number for number, step in enumerate(flow.steps)
        }
        self._taken: dict[str, int] = {}
        """Number of ways back that each router took."""
        self._round: dict[str, int] = {}
        """Current value of `iteration` for each loop step."""

    def leads_back(self, step: Step, target: str) -> bool:
        """Whether the target is the step itself or comes before it in the file."""
        return self._order[target] <= self._order[step.step_id]

    def begin(self, step: Step, visit: int) -> RouteTaken | None:
        """Record a visit of a loop step. Return its exit if the limit is reached, else None."""
        self._round[step.step_id] = visit
        if step.max_iterations is not None and visit > step.max_iterations:
            return RouteTaken(step.exit_targets, visit, is_forced=True)
        return None

    def route(self, step: Step, targets: Sequence[str]) -> RouteTaken:
        """Apply the limit of a decision or a fork to the targets that were chosen."""
        back = [target for target in targets if self.leads_back(step, target)]
        if step.counts_visits or not back or step.max_iterations is None:
            return RouteTaken(tuple(targets))
        taken = self._taken.get(step.step_id, 0)
        if taken < step.max_iterations:
            return RouteTaken(tuple(targets), taken + 1, back=tuple(back))
        # At the limit, forward targets of a multiple choice are still taken. With none left,
        # control continues with the next segment.
        ahead = tuple(target for target in targets if target not in back)
        return RouteTaken(ahead, taken + 1, is_forced=True, back=tuple(back))

    def settle(self, step: Step, visit: int, targets: Sequence[str]) -> None:
        """Record the targets that a router led to."""
        is_back = any(self.leads_back(step, target) for target in targets)
        if step.counts_visits:
            is_repeated = is_back and not set(targets).isdisjoint(step.loop_targets)
            self._round[step.step_id] = visit + is_repeated
        elif is_back:
            self._taken[step.step_id] = self._taken.get(step.step_id, 0) + 1

    def iteration(self, step_id: str) -> int:
        """Return the current iteration of a router, from 1."""
        if self._flow.by_id[step_id].counts_visits:
            return self._round.get(step_id, 1)
        return 1 + self._taken.get(step_id, 0)


class ForkAnswer(Struct, frozen=True):
    """The answer at a fork, as templates read it."""

    answer: str
    """One option, several joined with ", ", or free text."""
    notes: str = ""


class ForkChoice(Struct, frozen=True, kw_only=True):
    """The fork that led to a step, and the choice made there."""

    fork_id: str
    question: str
    answer: str
    notes: str
    decided_by: str
    """`a person`, or the name of the agent that decided."""


class TemplateValues(Struct, kw_only=True):
    """Everything that templates of a run can name. Placeholders that name nothing are collected."""

    flow: Flow
    task: str
    results: Mapping[str, StepResult]
    """By result id. A skipped step has a result with status `skipped`."""
    loops: LoopCounters
    forks: Mapping[str, ForkAnswer] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Config of the project, overridden by the flow, overridden by the step."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Typed inputs of the run."""
    promised: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Step ids of nested flows -> the flow-ref steps that may provide them."""
    missing: list[str] = field(default_factory=list)
    """Placeholders that named nothing, each once, since the last `take_missing`."""

    def text(self, template: str, wired: Inputs | None = None) -> str:
        """Expand the placeholders of a text. `input.*` reads the wired inputs."""
        return parse(template).expand(self._look_up(wired))

    def value(self, template: str) -> Any:
        """Return a value for `inputs`. A template of a single placeholder keeps its type."""
        return parse(template).value(self._look_up(None))

    def read(self, ref: Placeholder) -> Any:
        """Return the value of one placeholder, or MISSING."""
        return self._look_up(None)(ref)

    def take_missing(self) -> list[str]:
        """Return the placeholders that named nothing, and clear the list."""
        missing, self.missing = self.missing, []
        return missing

    def _look_up(self, wired: Inputs | None) -> LookUp:
        def look_up(ref: Placeholder) -> Any:
            value = self._find(ref, wired or {})
            if value is MISSING and ref.text not in self.missing:
                self.missing.append(ref.text)
            return value

        return look_up

    def _find(self, ref: Placeholder, wired: Inputs) -> Any:
        named = {ValueSource.INPUT: wired, ValueSource.CONFIG: self.config}
        match ref.kind:
            case ValueSource.TASK:
                return self.task
            case ValueSource.RESULT:
                return self._result(ref.names)
            case ValueSource.LOOP:
                return self._loop(*ref.names)
            case ValueSource.FORK:
                return self._fork(*ref.names)
            case ValueSource.FLOW_INPUT:
                is_declared = any(one.name == ref.names[0] for one in self.flow.inputs)
                return self.inputs.get(ref.names[0], "" if is_declared else MISSING)
            case kind:
                return named[kind].get(ref.names[0], MISSING)

    def _result(self, names: tuple[str, ...]) -> Any:
        """Return a field of a result, or the full text of the result with that id.

        Result ids may contain dots (`REF.STEP`), so both readings are tried: first "the last name
        is a field", then "all names are an id".
        """
        *owner_names, name = names
        owner = self.results.get(".".join(owner_names)) if owner_names else None
        if owner is not None:
            if owner.has(name):
                return owner.read(name)
            if owner.status is StepStatus.SKIPPED:
                return ""
        whole = self.results.get(".".join(names))
        if whole is not None:
            return whole.full_output
        if self._is_inside_skipped(names[0]):
            return StepStatus.SKIPPED.value if len(names) > 1 and name == "status" else ""
        return MISSING

    def _is_inside_skipped(self, name: str) -> bool:
        """Whether the name belongs to a nested flow whose flow-ref step was skipped."""
        refs = {name} if name in self.flow.by_id else self.promised.get(name, ())
        results = [self.results.get(ref) for ref in refs]
        return bool(results) and all(
            result is not None and result.status is StepStatus.SKIPPED for result in results
        )

    def _loop(self, step_id: str, member: str) -> Any:
        step = self.flow.by_id.get(step_id)
        if step is None or not step.is_router:
            return MISSING
        if member == "iteration":
            return self.loops.iteration(step_id)
        return "" if step.max_iterations is None else step.max_iterations

    def _fork(self, step_id: str, member: str) -> Any:
        answer = self.forks.get(step_id)
        if answer is not None:
            return answer.answer if member == "answer" else answer.notes
        result = self.results.get(step_id)
        is_skipped = result is not None and result.status is StepStatus.SKIPPED
        return "" if is_skipped else MISSING
