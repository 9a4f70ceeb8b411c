"""The values that templates of a run name."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.step import StepResult, StepStatus
from penstock.flows.definition import Flow
from penstock.flows.runs.fork_choice import ForkAnswer
from penstock.flows.runs.loops import LoopCounters
from penstock.manifest.template import MISSING, LookUp, Placeholder, ValueSource, parse

Inputs = Mapping[str, str]
"""The wired inputs of a step, expanded."""


class TemplateValues(Struct, kw_only=True):
    """What a run knows, by the names of templates. What is asked for in vain is noted."""

    flow: Flow
    task: str
    results: Mapping[str, StepResult]
    """By result id; a step that was skipped has one that says so."""
    loops: LoopCounters
    forks: Mapping[str, ForkAnswer] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Of the project, with that of the flow and of the step above it."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Of the run."""
    promised: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Ids of steps of flows inside, and the references that bring them."""
    missing: list[str] = field(default_factory=list)
    """Places that named nothing, each once, since somebody looked here last."""

    def text(self, template: str, wired: Inputs | None = None) -> str:
        """Return a text with its places expanded; `input.*` are the wired ones."""
        return parse(template).expand(self._look_up(wired))

    def value(self, template: str) -> Any:
        """Return a value of `inputs`: typed when the template is nothing but one place."""
        return parse(template).value(self._look_up(None))

    def read(self, ref: Placeholder) -> Any:
        """Return what one place names, or MISSING."""
        return self._look_up(None)(ref)

    def take_missing(self) -> list[str]:
        """Return the places that named nothing, and forget them."""
        missing, self.missing = self.missing, []
        return missing

    def _look_up(self, wired: Inputs | None) -> LookUp:
        def look_up(ref: Placeholder) -> Any:
            found = self._find(ref, wired or {})
            if found is MISSING and ref.text not in self.missing:
                self.missing.append(ref.text)
            return found

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
                is_declared = any(each.name == ref.names[0] for each in self.flow.inputs)
                return self.inputs.get(ref.names[0], "" if is_declared else MISSING)
            case kind:
                return named[kind].get(ref.names[0], MISSING)

    def _result(self, names: tuple[str, ...]) -> Any:
        """Return a field of a result; else the whole text of the result that is named so."""
        *front, name = names
        owner = self.results.get(".".join(front)) if front else None
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
        """Whether what is named so would come of a flow-ref that was skipped."""
        refs = {name} if name in self.flow.by_id else self.promised.get(name, ())
        found = [self.results.get(each) for each in refs]
        return bool(found) and all(
            each is not None and each.status is StepStatus.SKIPPED for each in found
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
