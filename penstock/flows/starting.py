"""Starts of runs: top-level ones from requests, nested ones from flow-ref steps.

`begin` checks whether a run can start; it returns what the run starts with, or why it is rejected.
`referred_starts` does the same for the flows that a flow-ref step refers to, where a rejection is
the failure of the step. Both check the inputs with `run_inputs`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.diagnostics import Diagnostic, did_you_mean
from penstock.core.events.flow_events import (
    ABORTED,
    FlowRequested,
    FlowStarted,
    Outcome,
    StepResult,
    StepStatus,
    ValueType,
)
from penstock.core.json_values.schema import Problem
from penstock.core.text import one_line
from penstock.engine.slash_commands import MissingArgument
from penstock.flows.definition import Flow, RunInput
from penstock.flows.parsing import TASK, flow_of, read_flow
from penstock.flows.project.library import FlowLibrary, FlowSource, referred_flows
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.values import TemplateValues
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.flow_ref import FlowRef
from penstock.flows.steps.shell import Shell
from penstock.manifest.authored_kinds import fits
from penstock.manifest.fields import described

FLOW_INVALID = "FLOW_INVALID"
TASK_REQUIRED = "TASK_REQUIRED"
VALIDATION_ERROR = "VALIDATION_ERROR"
_NAMED = 3
"""Number of errors named in a reason; the details list all."""


class Rejection(Struct, frozen=True, kw_only=True):
    """Why a run is refused before its first step."""

    code: str
    reason: str
    details: Any = None


class RunStart(Struct, frozen=True, kw_only=True):
    """The initial values of a run."""

    flow: Flow
    started: FlowStarted


class FlowSettings(Struct, frozen=True, kw_only=True):
    """Settings of a project for all its flows."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Values of `${{config.KEY}}` that neither the step nor the flow sets."""
    is_autonomous: bool = False
    """Whether runs are autonomous by default; the request can override it."""


def begin(
    source: FlowSource, request: FlowRequested, settings: FlowSettings, *, no_shell: str = ""
) -> RunStart | Rejection:
    """Check a request. `no_shell` is why shell steps are not available; empty if they are."""
    flow = flow_of(source.text, source.path)
    if flow is None or source.errors:
        errors = source.errors or read_flow(source.text, source.name).findings
        return _invalid(request.command, errors)
    shell = next((step for step in flow.steps if isinstance(step, Shell)), None)
    if shell is not None and no_shell:
        return _without_shell(request.command, shell, no_shell)
    if flow.needs_task and not (request.task or "").strip():
        question = _question(flow, request.command)
        return Rejection(code=TASK_REQUIRED, reason=f"the flow needs a task. {question}")
    inputs, problems = run_inputs(flow, request.inputs)
    if problems:
        return _wrong_inputs(problems)
    started = FlowStarted(
        root=source.root,
        file=source.path,
        texts=source.texts,
        task=request.task or "",
        inputs=inputs,
        config=dict(settings.config),
        autonomous=settings.is_autonomous if request.autonomous is None else request.autonomous,
        max_concurrent=request.max_concurrent,
    )
    return RunStart(flow=flow, started=started)


def wanted_by(library: FlowLibrary, command: str) -> Mapping[str, MissingArgument]:
    """Return the required arguments of a flow. Raises NotFound, with the nearest command."""
    return wanted_of(library.find(command), command)


def wanted_of(source: FlowSource, command: str) -> Mapping[str, MissingArgument]:
    """Return the required arguments to ask a person for: `task`, and inputs by name.

    Empty for a flow that cannot run.
    """
    flow = flow_of(source.text, source.path)
    if flow is None:
        return {}
    arguments = {item.name: _argument(item) for item in flow.inputs if item.is_required}
    task = {TASK: MissingArgument(question=_question(flow, command))} if flow.needs_task else {}
    return {} if source.errors else task | arguments


def errors_text(errors: Sequence[Diagnostic]) -> str:
    """Return the first few errors with their lines, for a reason."""
    text = "; ".join(f"line {error.line}: {error.message}" for error in errors[:_NAMED])
    return text + (f" and {len(errors) - _NAMED} more" if len(errors) > _NAMED else "")


def run_inputs(flow: Flow, values_given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return the inputs of a run with their defaults, and their problems."""
    declared = {each.name: each for each in flow.inputs}
    problems = [
        Problem(
            f"/inputs/{name}", f"is not an input of this flow.{did_you_mean(name, list(declared))}"
        )
        for name in values_given
        if name not in declared
    ]
    values: dict[str, Any] = {}
    for name, declaration in declared.items():
        pointer = f"/inputs/{name}"
        if name not in values_given:
            if declaration.is_required:
                problems.append(Problem(pointer, f"is required: {declaration.value_type}"))
            elif declaration.default is not None:
                values[name] = declaration.default
        elif fits(values_given[name], declaration.value_type):
            values[name] = values_given[name]
        else:
            message = f"must be {declaration.value_type}, found {described(values_given[name])}"
            problems.append(Problem(pointer, message))
    return values, problems


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
    """Yield each flow with its frame: that of the step, or one frame per match of a glob."""
    for number, started in enumerate(starts, 1):
        yield (CallPath(f"{frame}/{number}") if is_glob else frame), started


def failed_inside(run: Run) -> VisitOutcome:
    """Return the outcome of a step with a nested flow that did not succeed."""
    ended = failed("ref_failed", run.failure or "a flow inside did not succeed")
    if run.plan.status is RunStatus.ABORTED:
        result = replace(ABORTED, summary=ended.text)
        return replace(ended, outcome=Outcome.ABORTED, source="aborted", result=result)
    return replace(ended, outcome=run.failed_by)


def _argument(item: RunInput) -> MissingArgument:
    is_text = item.value_type is ValueType.STRING
    about = one_line(item.description) or "what is it to be?"
    form = "" if is_text else f" ({item.value_type})"
    return MissingArgument(question=f"{item.name}{form}: {about}", is_text=is_text)


def _question(flow: Flow, command: str) -> str:
    return flow.task_prompt or f"What should {command} do?"


def _invalid(command: str, errors: Sequence[Diagnostic]) -> Rejection:
    details = {"diagnostics": [each.to_finding() for each in errors]}
    reason = f'the flow "/{command}" has errors: {errors_text(errors)}'
    return Rejection(code=FLOW_INVALID, reason=reason, details=details)


def _without_shell(command: str, step: Shell, why: str) -> Rejection:
    finding = Diagnostic(code="shell-off", message=f"step {step.step_id!r}: {why}")
    reason = f'the flow "/{command}" has the shell step {step.step_id!r}, and {why}'
    details = {"diagnostics": [finding.to_finding()]}
    return Rejection(code=FLOW_INVALID, reason=reason, details=details)


def _wrong_inputs(problems: Sequence[Problem]) -> Rejection:
    text = "; ".join(map(str, problems))
    details = {"problems": [{"path": each.path, "message": each.message} for each in problems]}
    return Rejection(
        code=VALIDATION_ERROR, reason=f"the inputs do not fit: {text}", details=details
    )


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
        return failed("ref_failed", f"{source.name} cannot start: {message}")
    return FlowStarted(
        root=source.root, file=source.path, texts=source.texts, task=task, inputs=inputs
    )
