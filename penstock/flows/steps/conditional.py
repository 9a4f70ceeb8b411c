"""The kind `conditional`: chooses a branch by whether a result has a value."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import Outcome, StepResult, is_present
from penstock.flows.checks.context import FlowView
from penstock.flows.checks.results import lacking, nearest_result, unknown_result
from penstock.flows.definition import Choice, Route, Step
from penstock.flows.parsed_flow import ParsedStep
from penstock.flows.runs.values import RouteTaken
from penstock.flows.runs.visits import VisitOutcome
from penstock.flows.steps.kind import (
    STEP_ID,
    TEXT,
    Sample,
    StepContext,
    StepKind,
    StepTools,
    VisitResult,
    needed,
    step_field,
)
from penstock.manifest.authored_kinds import meant
from penstock.manifest.fields import quoted

CHECK, PRESENT, ABSENT = "check", "present", "absent"


class Conditional(Step, frozen=True, kw_only=True):
    """Chooses a branch by whether a result has a value."""

    kind: ClassVar[str] = "conditional"
    is_router: ClassVar[bool] = True

    check: str
    """`STEP` or `STEP.FIELD`."""
    present: str
    absent: str

    @property
    def tested(self) -> tuple[str, ...]:
        """The ids that `check` may mean: result ids may contain dots."""
        return (self.check, self.check.rpartition(".")[0])

    def decisions(self) -> Iterator[Route]:
        """Yield both branches."""
        yield Route(PRESENT, self.present)
        yield Route(ABSENT, self.absent)

    def ways_on(self) -> Iterator[Choice]:
        """Yield both branches."""
        yield Choice(PRESENT, (self.present,), keys=(PRESENT,))
        yield Choice(ABSENT, (self.absent,), keys=(ABSENT,))


async def _visit(step: Conditional, context: StepContext, tools: StepTools) -> VisitResult:
    del tools
    # `check` without a dot means the artifacts of that step.
    name, dot, field = step.check.rpartition(".")
    step_id, field = (name, field) if dot else (step.check, "artifacts")
    result = context.run.results.get(step_id)
    value = _field(result, field) if result is not None else None
    branch, target = (PRESENT, step.present) if is_present(value) else (ABSENT, step.absent)
    ended = VisitOutcome(outcome=Outcome.SUCCESS, result=StepResult(summary=branch, branch=branch))
    return VisitResult(ended=ended, route=RouteTaken((target,)))


def _field(result: StepResult, name: str) -> Any:
    if result.status == "skipped":
        return None
    return result.read(name if result.has(name) else "fullOutput")


def _simulate(step: Conditional, context: StepContext, sample: Sample) -> Mapping[str, Any]:
    del step, context, sample
    return {}


def _check(step: Conditional, parsed: ParsedStep, view: FlowView) -> Iterator[Diagnostic]:
    """Yield a finding if it tests something that does not exist."""
    check = step.check
    if not check:
        return
    place = parsed.node.at(CHECK).key_place
    step_id, _, field = (check, "", "") if check in view.by_id else check.rpartition(".")
    step_id = step_id or check
    if unknown := unknown_result(view, [*step_id.split("."), *([field] if field else [])]):
        message = f"check of {parsed.label} refers to unknown step {quoted(unknown)}"
        near = meant(nearest_result(view, unknown))
        yield parsed.warning("check-unknown-step", message, place, near)
    elif field and lacking(view, [step_id, field]):
        message = f'"{field}" is not an output of step "{step_id}"; its full output is tested'
        yield parsed.warning("check-unknown-field", message, place)


KIND = StepKind(
    step=Conditional,
    fields=(
        needed(step_field(CHECK, TEXT)),
        needed(step_field(PRESENT, STEP_ID)),
        needed(step_field(ABSENT, STEP_ID)),
    ),
    visit=_visit,
    simulate=_simulate,
    check=_check,
    implied_by=CHECK,
)
