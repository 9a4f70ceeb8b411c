"""Checks whether a run can start, and returns what it starts with or why it is rejected."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import FlowRequested, FlowStarted, ValueType
from penstock.core.json_values.schema import Problem
from penstock.core.messages import MissingArguments
from penstock.core.text import one_line
from penstock.flows.definition import Flow, RunInput, Shell
from penstock.flows.inputs import run_inputs
from penstock.flows.project.library import FlowLibrary, FlowSource
from penstock.flows.reading.flow import flow_of, read_flow
from penstock.flows.reading.inputs import TASK

FLOW_INVALID = "FLOW_INVALID"
GATE_CLOSED = "GATE_CLOSED"
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
    """What a run starts with."""

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


def wanted_by(library: FlowLibrary, command: str) -> Mapping[str, MissingArguments]:
    """Return the required arguments of a flow. Raises NotFound, with the nearest command."""
    return wanted_of(library.find(command), command)


def wanted_of(source: FlowSource, command: str) -> Mapping[str, MissingArguments]:
    """Return the required arguments to ask a person for: `task`, and inputs by name.

    Empty for a flow that cannot run.
    """
    flow = flow_of(source.text, source.path)
    if flow is None:
        return {}
    arguments = {item.name: _argument(item) for item in flow.inputs if item.is_required}
    task = {TASK: MissingArguments(question=_question(flow, command))} if flow.needs_task else {}
    return {} if source.errors else task | arguments


def errors_text(errors: Sequence[Diagnostic]) -> str:
    """Return the first few errors with their lines, for a reason."""
    text = "; ".join(f"line {error.line}: {error.message}" for error in errors[:_NAMED])
    return text + (f" and {len(errors) - _NAMED} more" if len(errors) > _NAMED else "")


def _argument(item: RunInput) -> MissingArguments:
    is_text = item.value_type is ValueType.STRING
    about = one_line(item.description) or "what is it to be?"
    form = "" if is_text else f" ({item.value_type})"
    return MissingArguments(question=f"{item.name}{form}: {about}", is_text=is_text)


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
