"""`execute_workflow`: a flow as a run of its own, and its result.

Guarantees: a call starts one run, also if it runs again after a crash, because the run has the
idempotency key of the call. While people are asked in the run, the call holds no worker: it
suspends, and its next entry finds the run and waits again. Cancelling the call cancels the run; a
stop of the process does not. Secrets of the calling task are redacted from the input of the run,
which is kept in a log of its own.

Shown by tests/builtins/test_workflow.py.
"""

import asyncio
from collections.abc import Iterable
from copy import copy
from typing import Any

from msgspec.structs import replace

from penstock.core.call import EXECUTE_WORKFLOW, Effect
from penstock.core.call_errors import (
    Cancelled,
    DepthExceeded,
    ToolFailed,
    ToolNotConfigured,
)
from penstock.core.envelope import Envelope, Json
from penstock.core.errors import NotFound
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import TaskId
from penstock.core.json_values.schema import Problem
from penstock.core.limits import Limits
from penstock.engine.ledger import Ledger
from penstock.engine.suspend import await_run
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import fields_of
from penstock.tools.resources import FlowRequest, Runs
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

FAILED = "WORKFLOW_FAILED"
_WRONG_INPUT = frozenset({"VALIDATION_ERROR", "TASK_REQUIRED"})
"""Rejections of a run that another input can avoid."""
_STATUS = {"success": "success", "aborted": "cancelled"}


class ExecuteWorkflow:
    """Starts a flow and waits for its end. A new entry of the call finds the same run."""

    spec = ToolSpec(
        tool_id=EXECUTE_WORKFLOW,
        description=(
            "Run a workflow of this project, and wait for its end, also while people are asked in "
            "it. Returns {workflowId, runId, status, output}: status is success or cancelled, "
            "output what each step left. Not for a question that another tool answers."
        ),
        input_schema=fields_of(
            {
                "workflowId": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 512,
                    "description": "The command of the workflow, such as research or dom:apply",
                },
                "input?": {
                    "type": "object",
                    "default": {},
                    "description": "task: its task in words; else inputs it declares",
                },
            }
        ),
        effect=Effect.WRITE,
        idempotent=True,
        timeout_ms=round(1000 * Limits().workflow_seconds),
    )

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the outcome of the run."""
        runs = invocation.edition.resources.callbacks.runs
        if runs is None:
            raise ToolNotConfigured(
                'no flows can be run here: open a project folder, penstock.open(".")'
            )
        command = input["workflowId"].removeprefix("/")
        run_id = await _start_run(runs, command, input.get("input", {}), invocation)
        envelope = await _wait_for_run(runs, run_id, invocation)
        return _answer(input["workflowId"], run_id, envelope)

    def preview(self, output: Any) -> str | None:
        """Return the workflow and its status."""
        return f"{output['workflowId']}: {output['status']}"


async def _start_run(runs: Runs, command: str, arguments: Json, invocation: Invocation) -> TaskId:
    """Start the run once. Secrets of this task are redacted from its input."""
    arguments = invocation.caller.secrets.json(arguments)
    task = arguments.get("task")
    if task is not None and not isinstance(task, str):
        raise invalid(EXECUTE_WORKFLOW, [Problem("/input/task", "must be a text")])
    ledger = invocation.ledger
    brief = ledger.task.brief
    depth = brief.depth + 1 if isinstance(brief, FlowRequested) else 1
    most = invocation.edition.world.limits.run_depth
    if depth > most:
        raise DepthExceeded(
            f"runs that start each other are nested more than {most} deep (limits.run_depth)"
        )
    request = FlowRequest(
        command=command,
        task=task,
        inputs={name: value for name, value in arguments.items() if name != "task"},
        key=invocation.idempotency_key,
        depth=depth,
        profile=invocation.caller.profile,
        waiter=(ledger.held.state.log_id, ledger.task.task_id),
        is_autonomous=invocation.caller.is_autonomous,
    )
    try:
        return await runs.start(request)
    except NotFound as error:
        raise ToolFailed(
            str(error), "NOT_FOUND", suggestion="Name a workflow of this project."
        ) from None


async def _wait_for_run(runs: Runs, run_id: TaskId, invocation: Invocation) -> Envelope:
    """Wait for a run. A cancelled call cancels it; a stop of the process does not."""
    try:
        return await _outcome(runs, run_id, invocation.ledger)
    except asyncio.CancelledError:
        if invocation.ledger.task.cancel_requested or not invocation.runner.is_unwanted:
            await runs.abort(run_id, invocation.caller.profile)
        raise


async def _outcome(runs: Runs, run_id: TaskId, ledger: Ledger) -> Envelope:
    """Return the outcome of a run. Raises Suspend while it waits for people.

    The run stays in `awaited` meanwhile, so that it is cancelled when this task ends.
    """
    ledger.task.own_waits().awaited[run_id] = None
    while (envelope := await runs.wait(run_id, ledger.task.task_id)) is None:
        await_run(ledger, run_id)
    ledger.task.own_waits().awaited.pop(run_id, None)
    return envelope


def _answer(workflow_id: str, run_id: TaskId, envelope: Envelope) -> Json:
    result, error = envelope.output or {}, envelope.error
    status = _STATUS.get(result.get("status", ""))
    if error is not None and error.code == Cancelled.code:
        status = "cancelled"
    if status is not None:
        return {"workflowId": workflow_id, "runId": run_id, "status": status, "output": result}
    reason = result.get("reason") or (error.message if error is not None else "it did not succeed")
    if error is not None and error.code in _WRONG_INPUT:
        raise invalid(EXECUTE_WORKFLOW, [Problem("/input", reason)])
    details = {"runId": run_id, "step": _failed_step(result), "message": reason}
    raise ToolFailed(f'the workflow "{workflow_id}" failed: {reason}', FAILED, details=details)


def _failed_step(result: Json) -> str | None:
    steps = result.get("results", {})
    return next((name for name, each in steps.items() if each["status"] == "error"), None)


def with_seconds(tools: Iterable[Tool], seconds: float) -> tuple[Tool, ...]:
    """Return the tools, with this timeout for the one that runs workflows."""
    return tuple(
        _lasting(each, seconds) if isinstance(each, ExecuteWorkflow) else each for each in tools
    )


def _lasting(tool: ExecuteWorkflow, seconds: float) -> ExecuteWorkflow:
    other = copy(tool)
    other.spec = replace(tool.spec, timeout_ms=round(1000 * seconds))
    return other


TOOLS = (ExecuteWorkflow(),)
