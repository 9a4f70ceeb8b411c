"""Checks what the module of a code step returned against the outputs of the step."""

from collections.abc import Mapping
from typing import Any

from penstock.core.call_errors import ScriptError
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.flow_events import Outcome, Output, StepResult
from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Schema
from penstock.flows.definition import Code, CodeDecision
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.manifest.fields import found, quoted

HARD = "FlowHardError"
"""Name of the error class that ends the flow."""


def conclude(step: Code, envelope: Envelope) -> VisitOutcome:
    """Return the outcome of a visit from the envelope of its call."""
    if envelope.error is not None:
        return _failed(envelope.status, envelope.error)
    output = envelope.output if isinstance(envelope.output, dict) else {}
    value, summary = output.get("value"), output.get("summary")
    value = {} if value is None else value
    if not isinstance(value, dict):
        message = f"the handler must return {wanted(step)}, found {found(value)}"
        return failed("code_node", message)
    outputs = dict(value)
    branch = None
    if isinstance(step, CodeDecision):
        branch = outputs.pop("branch", None)
        if (ended := _off_map(step, branch)) is not None:
            return ended
    if problems := Schema(_schema(step)).problems(outputs):
        message = "; ".join(map(str, problems))
        return failed("code_node", f"the handler must return {wanted(step)}: {message}")
    if not isinstance(summary, str):
        summary = f"returned {', '.join(outputs) or 'nothing'}"
    result = StepResult(
        summary=summary,
        full_output=compact(outputs) if outputs else summary,
        branch=branch,
        outputs=outputs,
    )
    return VisitOutcome(outcome=Outcome.SUCCESS, result=result)


def wanted(step: Code) -> str:
    """Return a description of what the module must return."""
    names = [each.name for each in step.outputs]
    if isinstance(step, CodeDecision):
        names.append("branch")
    return f"an object with exactly {', '.join(names)}" if names else "nothing"


def type_of(output: Output) -> str | None:
    """Return the JSON type of an output, or None for any."""
    if output.pattern is not None:
        return "string"
    return None if output.value_type is None else output.value_type.value


def _failed(status: Status, error: ErrorDetail) -> VisitOutcome:
    if status is Status.TIMEOUT:
        return failed("code_timeout", error.message)
    details = error.details or {}
    is_hard = error.code == ScriptError.code and details.get("name") == HARD
    return failed("flow_hard_error" if is_hard else "code_node", error.message, is_hard=is_hard)


def _off_map(step: CodeDecision, branch: Any) -> VisitOutcome | None:
    names = ", ".join(step.branches)
    if branch is None:
        return failed(
            "code_no_branch", f"the handler returned no branch; it must be one of {names}"
        )
    if isinstance(branch, str) and branch in step.branches:
        return None
    message = f"branch must be one of {names}; found {quoted(branch)}"
    return failed("off_map_branch", message, is_hard=True)


def _schema(step: Code) -> Mapping[str, Any]:
    """Return a schema that accepts exactly the declared outputs."""
    return {
        "type": "object",
        "required": [each.name for each in step.outputs],
        "additionalProperties": False,
        "properties": {each.name: _schema_of(each) for each in step.outputs},
    }


def _schema_of(output: Output) -> dict[str, Any]:
    kind = type_of(output)
    schema: dict[str, Any] = {} if kind is None else {"type": kind}
    if output.pattern is not None:
        schema["pattern"] = output.pattern
    return schema
