"""The FlowResult: the outcome of a run as people and programs read it."""

from typing import Any

from penstock.core.envelope import Json
from penstock.core.events.flow_events import StepResult, StepStarted
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.engine.task_ends import usage_of
from penstock.engine.task_state import TaskState
from penstock.flows.runs.plan import RunStatus
from penstock.flows.runs.run import Run
from penstock.flows.runs.warnings import warnings_of


def flow_result(run: Run, task: TaskState, command: str, *, reason: str = "") -> Json:
    """Return the result of a run that has ended. `reason` overrides the run's own failure text."""
    status = run.plan.status or RunStatus.ERROR
    newest = run.results.get(run.newest) if run.newest else None
    wire: dict[str, Any] = {
        "runId": task.task_id,
        "flowName": command,
        "status": status.value,
        "task": run.task,
        "stepCount": sum(isinstance(event, StepStarted) for _, event in task.story),
        "totalDuration": task.active_ms,
        "results": {name: _entry(run, name, result) for name, result in run.results.items()},
        "forks": {
            name: _fork(fork.answer, fork.notes)
            for name, fork in (run.forks_inside | run.forks).items()
        },
        "lastResult": None if newest is None else newest.to_wire(),
        "usage": _usage(usage_of(task)),
        "warnings": warnings_of(task),
    }
    why = reason or run.failure
    if status is not RunStatus.SUCCESS and why:
        wire["reason"] = why
    return wire


def unbegun(run_id: str, command: str, status: RunStatus, reason: str, *, task: str = "") -> Json:
    """Return the result of a run that was rejected, or ended before its first step."""
    return {
        "runId": run_id,
        "flowName": command,
        "status": status.value,
        "reason": reason,
        "task": task,
        "stepCount": 0,
        "totalDuration": 0,
        "results": {},
        "forks": {},
        "lastResult": None,
        "usage": _usage(NOTHING_SPENT),
        "warnings": [],
    }


def _entry(run: Run, name: str, result: StepResult) -> Json:
    return {**result.to_wire(), "visits": run.visits_of(name)}


def _usage(usage: Usage) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "modelCalls": usage.model_calls,
        "toolCalls": usage.tool_calls,
    }


def _fork(answer: str, notes: str) -> Json:
    return {"answer": answer, **({"notes": notes} if notes else {})}
