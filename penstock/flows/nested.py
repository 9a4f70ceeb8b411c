"""Nested flows: the flows that a flow-ref step refers to, and its result."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.events.flow_events import ABORTED, FlowStarted, Outcome, StepResult, StepStatus
from penstock.flows.definition import FlowRef
from penstock.flows.inputs import run_inputs
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.project.snapshot import referred_flows
from penstock.flows.reading.flow import flow_of
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import TemplateValues
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.flows.starting import errors_text


def referred_starts(
    library: FlowLibrary, source: FlowSource, step: FlowRef, path: str, *, values: TemplateValues
) -> list[FlowStarted] | VisitOutcome:
    """Return the starts of the flows that the path of a step refers to, or why the step fails."""
    sources = referred_flows(library, source, step.path, path)
    if sources is None:
        return failed("ref_outside", f'the path "{path}" leads out of the project', is_hard=True)
    if not sources:
        return failed("ref_missing", f'no flow matches "{path}"')
    starts = []
    wired = {name: values.value(text) for name, text in step.inputs.items()}
    for nested in sources:
        started = _started(library, nested, values.task, wired)
        if isinstance(started, VisitOutcome):
            return started
        starts.append(started)
    return starts


def result_of_last(run: Run | None) -> StepResult:
    """Return the result of a flow-ref step: the last agent result of its last flow."""
    result = run.last_result() if run is not None else StepResult()
    return replace(result, status=StepStatus.COMPLETE)


def in_frames(
    starts: Sequence[FlowStarted], frame: CallPath, *, is_glob: bool
) -> Iterator[tuple[CallPath, FlowStarted]]:
    """Yield each flow with its frame: that of the step, or one a match of a glob."""
    for number, started in enumerate(starts, 1):
        yield (CallPath(f"{frame}/{number}") if is_glob else frame), started


def failed_inside(run: Run) -> VisitOutcome:
    """Return the outcome of a step with a nested flow that did not succeed."""
    ended = failed("ref_failed", run.failure or "a flow inside did not succeed")
    if run.plan.status is RunStatus.ABORTED:
        result = replace(ABORTED, summary=ended.text)
        return replace(ended, outcome=Outcome.ABORTED, source="aborted", result=result)
    return replace(ended, outcome=run.failed_by)


def _started(
    library: FlowLibrary, source: FlowSource, task: str, wired: Mapping[str, Any]
) -> FlowStarted | VisitOutcome:
    errors = source.errors or library.faults(source)
    flow = flow_of(source.text, source.path)
    if errors or flow is None:
        return failed("ref_failed", f"{source.name} has errors: {errors_text(errors)}")
    inputs, problems = run_inputs(flow, wired)
    if problems:
        message = "; ".join(map(str, problems))
        return failed("ref_failed", f"{source.name} cannot begin: {message}")
    return FlowStarted(
        root=source.root, file=source.path, texts=source.texts, task=task, inputs=inputs
    )
