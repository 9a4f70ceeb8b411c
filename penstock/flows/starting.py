"""Whether a run may begin, and with what: else it is rejected, and says why."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Diagnostic
from penstock.core.events.flow_events import FlowRequested, FlowStarted
from penstock.core.events.step import ValueType
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
_SAID = 3
"""Errors that a reason names; the details have all."""


class Rejection(Struct, frozen=True, kw_only=True):
    """Why a run never begins."""

    code: str
    reason: str
    details: Any = None


class RunStart(Struct, frozen=True, kw_only=True):
    """What a run begins with."""

    flow: Flow
    started: FlowStarted


class FlowSettings(Struct, frozen=True, kw_only=True):
    """What a project says of all its flows."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """`${{config.KEY}}`, where neither step nor flow says it."""
    is_autonomous: bool = False
    """What a run is of which nobody says it."""


def begin(
    source: FlowSource, asked: FlowRequested, settings: FlowSettings, *, no_shell: str = ""
) -> RunStart | Rejection:
    """Return what a run begins with; `no_shell` is why shell steps do not run here."""
    flow = flow_of(source.text, source.path)
    if flow is None or source.errors:
        errors = source.errors or read_flow(source.text, source.name).findings
        return _invalid(asked.command, errors)
    shell = next((each for each in flow.steps if isinstance(each, Shell)), None)
    if shell is not None and no_shell:
        return _without_shell(asked.command, shell, no_shell)
    if flow.needs_task and not (asked.task or "").strip():
        question = _question(flow, asked.command)
        return Rejection(code=TASK_REQUIRED, reason=f"the flow needs a task. {question}")
    inputs, problems = run_inputs(flow, asked.inputs)
    if problems:
        return _wrong_inputs(problems)
    started = FlowStarted(
        root=source.root,
        file=source.path,
        texts=source.texts,
        task=asked.task or "",
        inputs=inputs,
        config=dict(settings.config),
        autonomous=settings.is_autonomous if asked.autonomous is None else asked.autonomous,
        max_concurrent=asked.max_concurrent,
    )
    return RunStart(flow=flow, started=started)


def wanted_by(library: FlowLibrary, command: str) -> Mapping[str, MissingArguments]:
    """Return what a flow needs, by its command. Raises NotFound, with the nearest one."""
    return wanted_of(library.find(command), command)


def wanted_of(source: FlowSource, command: str) -> Mapping[str, MissingArguments]:
    """Return what to ask a person who starts a flow without it: `task`, and inputs by their names.

    A flow that cannot run wants nothing.
    """
    flow = flow_of(source.text, source.path)
    if flow is None:
        return {}
    wanted = {each.name: _wanted(each) for each in flow.inputs if each.is_required}
    task = {TASK: MissingArguments(question=_question(flow, command))} if flow.needs_task else {}
    return {} if source.errors else task | wanted


def errors_text(errors: Sequence[Diagnostic]) -> str:
    """Return what keeps a flow from running, as a reason names it: the first few, with lines."""
    said = "; ".join(f"line {each.line}: {each.message}" for each in errors[:_SAID])
    return said + (f" and {len(errors) - _SAID} more" if len(errors) > _SAID else "")


def _wanted(given: RunInput) -> MissingArguments:
    is_text = given.value_type is ValueType.STRING
    about = one_line(given.description) or "what is it to be?"
    form = "" if is_text else f" ({given.value_type})"
    return MissingArguments(question=f"{given.name}{form}: {about}", is_text=is_text)


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
    said = "; ".join(map(str, problems))
    details = {"problems": [{"path": each.path, "message": each.message} for each in problems]}
    return Rejection(
        code=VALIDATION_ERROR, reason=f"the inputs do not fit: {said}", details=details
    )
