"""Runs the module of a code step in the sandbox.

The module runs as a script tool that only this step can call. It therefore has the guarantees of
script tools: a timeout, host calls that are recorded below the frame of the visit, and an outcome
that is settled once, so that a visit interrupted by a crash is replayed and not repeated. It gets
no vault and no state; egress and tools are what the step declares. The text of the module is the
one stored with the run. `conclude` checks what the module returned against the outputs of the
step. Tests: tests/flows/test_code_visit.py,
tests/journeys/test_flow_code_killed.py.
"""

import asyncio
import posixpath
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Call, CallPath, Origin, frame_above
from penstock.core.call_errors import BudgetExceeded, ScriptError
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.flow_events import FlowRequested, FlowStarted, Outcome, Output, StepResult
from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Schema
from penstock.engine.ledger import Ledger
from penstock.flows.checks.context import WRITTEN, CheckContext, module_of, stems
from penstock.flows.project.files import command_of
from penstock.flows.project.modules import RunFiles
from penstock.flows.runs.visits import VisitOutcome, failed
from penstock.flows.steps.code import Code, CodeDecision, CodeVisit, type_of
from penstock.flows.steps.kind import CodeEnvironment, InvokerWith
from penstock.manifest.fields import described, quoted
from penstock.resources.hosts import read_patterns
from penstock.tools.invocation import NestedCalls
from penstock.tools.invoker import Invoker
from penstock.tools.policy import SCRIPT, Caller
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec

SOONEST_SHARE, MAX_EARLY_MS = 10, 100
"""`ctx.signal` fires a tenth of the timeout early, at most 100 ms, so that code can react."""
HARD_ERROR = "FlowHardError"
"""Name of the error class that ends the flow."""


async def enter(
    visit: CodeVisit, ledger: Ledger, code_environment: CodeEnvironment, invoker_with: InvokerWith
) -> VisitOutcome:
    """Carry out a visit to its end.

    Raises Suspend if it waits for a person, Cancel if the cancellation of the task was requested.
    """
    started, step = _started(ledger, visit.frame), visit.step
    command, texts = _command(ledger, visit.frame, started), started.texts
    check_context = CheckContext(file=started.file, command=command, has_file=texts.__contains__)
    path = module_of(step, check_context)
    if path is None:
        return failed("code_node", _missing(step, check_context))
    beside = RunFiles(texts, posixpath.dirname(path))
    loaded = await asyncio.to_thread(code_environment.load, path, beside)
    if loaded.script is None:
        return failed("code_node", f"the handler is broken: {loaded.problems[0]}")
    try:
        egress = read_patterns(step.egress)
    except ValueError as error:
        return failed("code_node", f"egress of step {step.step_id!r}: {error}")
    bindings = replace(code_environment.usual, vault=(), state=(), egress=egress)
    tool = ScriptTool(
        _spec(step), loaded.script, bindings=bindings, sandbox=code_environment.sandbox
    )
    return await _call(tool, visit, ledger, invoker_with(tool), command=command)


def conclude(step: Code, envelope: Envelope) -> VisitOutcome:
    """Return the outcome of a visit from the envelope of its call."""
    if envelope.error is not None:
        return _failed(envelope.status, envelope.error)
    output = envelope.output if isinstance(envelope.output, dict) else {}
    value, summary = output.get("value"), output.get("summary")
    value = {} if value is None else value
    if not isinstance(value, dict):
        message = f"the handler must return {expected_result(step)}, found {described(value)}"
        return failed("code_node", message)
    outputs = dict(value)
    branch = None
    if isinstance(step, CodeDecision):
        branch = outputs.pop("branch", None)
        if (ended := _off_map(step, branch)) is not None:
            return ended
    if problems := Schema(_schema(step)).problems(outputs):
        message = "; ".join(map(str, problems))
        return failed("code_node", f"the handler must return {expected_result(step)}: {message}")
    if not isinstance(summary, str):
        summary = f"returned {', '.join(outputs) or 'nothing'}"
    result = StepResult(
        summary=summary,
        full_output=compact(outputs) if outputs else summary,
        branch=branch,
        outputs=outputs,
    )
    return VisitOutcome(outcome=Outcome.SUCCESS, result=result)


def expected_result(step: Code) -> str:
    """Return a description of what the module must return."""
    names = [each.name for each in step.outputs]
    if isinstance(step, CodeDecision):
        names.append("branch")
    return f"an object with exactly {', '.join(names)}" if names else "nothing"


async def _call(
    tool: ScriptTool, visit: CodeVisit, ledger: Ledger, invoker: Invoker, *, command: str
) -> VisitOutcome:
    tool_id = tool.spec.tool_id
    values = _input(visit, command)
    path = ledger.occurrences(visit.frame).path(tool_id, values)
    caller = Caller(
        origin=Origin.FLOW,
        profile=visit.profile,
        agent_tools=frozenset({tool_id}),
        is_autonomous=visit.is_autonomous,
    )
    call = Call(path, tool_id, values)
    envelope = await invoker.call(call, caller, ledger, NestedCalls(tool.spec))
    error, settled = envelope.error, ledger.find(path)
    # A budget error inside a module that ran is the module's own failure, unless the whole run is
    # out of time.
    if error is not None and error.code == BudgetExceeded.code:
        has_run = settled is not None and settled.ran
        if not has_run or ledger.budget.seconds_left() <= 0:
            return failed("budget", error.message, is_hard=True)
    return conclude(visit.step, envelope)


def _started(ledger: Ledger, frame: CallPath) -> FlowStarted:
    """Return the start event of the flow that a visit belongs to."""
    run = frame_above(frame)
    return next(
        event
        for path, event in ledger.task.flow_events
        if isinstance(event, FlowStarted) and path == run
    )


def _command(ledger: Ledger, frame: CallPath, started: FlowStarted) -> str:
    """Return the command of a visit's flow. A nested flow's command follows from its path."""
    task = ledger.task
    is_inside = frame_above(frame) != CallPath(task.task_id)
    if is_inside or not isinstance(task.brief, FlowRequested):
        return command_of(started.file, started.root)
    return task.brief.command


def _missing(step: Code, check_context: CheckContext) -> str:
    expected = next(iter(stems(step, check_context)), step.target)
    suffix = f".{WRITTEN}" if step.target is None else ""
    return (
        f"no handler for step {step.step_id!r}: expected {expected}{suffix}; "
        f"penstock flow generate {check_context.command} writes a first one"
    )


def _spec(step: Code) -> ToolSpec:
    return ToolSpec(
        tool_id=f"{step.kind}:{step.step_id}",
        description=f"The handler of step {step.step_id!r}.",
        input_schema=ANY_INPUT,
        timeout_ms=step.timeout,
        is_frame=True,
        is_offered=False,
        script_tools=frozenset(step.tools),
        kind=SCRIPT,
    )


def _input(visit: CodeVisit, command: str) -> dict[str, Any]:
    step = visit.step
    early = min(step.timeout // SOONEST_SHARE, MAX_EARLY_MS)
    return {
        "input": dict(visit.inputs),
        "about": {"flowName": command, "stepId": step.step_id, "task": visit.task},
        "signalMs": max(step.timeout - early, 1),
    }


def _failed(status: Status, error: ErrorDetail) -> VisitOutcome:
    if status is Status.TIMEOUT:
        return failed("code_timeout", error.message)
    details = error.details or {}
    is_hard = error.code == ScriptError.code and details.get("name") == HARD_ERROR
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
