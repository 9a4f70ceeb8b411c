"""JSON Schemas of the API's answers about flows and their runs."""

from penstock.app.run_feed import TYPES
from penstock.server.schemas import (
    ANYTHING,
    BLOCKED,
    ERROR,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    TIME,
    TIME_OR_NULL,
    TRUTH,
    Schema,
    listed,
    page_of,
    record,
    ref,
)

ENDED = ("success", "error", "aborted", "rejected")
"""How a run can end."""
RUN_STATES = ("queued", "blocked", "running", "suspended", *ENDED)
STEP_STATES = (
    *("pending", "running", "waiting"),
    *("complete", "error", "blocked", "skipped", "aborted"),
)

_STATE = {"enum": list(RUN_STATES)}
_INPUT = {
    "name": STRING,
    "type": {"enum": ["string", "number", "boolean", "object", "array"]},
    "required": TRUTH,
    "description": STRING,
    "default": ANYTHING,
}
_FLOW = {
    "name": STRING,
    "description": STRING,
    "source": {"enum": ["local", "package", "built-in"]},
    "path": STRING,
    "taskRequired": TRUTH,
    "taskPrompt": STRING,
    "inputs": listed(record(_INPUT, "default")),
    "stepCount": NUMBER,
    "valid": TRUTH,
}
_MAYBE = ("taskPrompt", "inputs")
_STEP = {"id": STRING, "type": STRING, "agent": STRING}
_READ = {
    "content": STRING,
    "steps": listed(record(_STEP, "agent")),
    "diagnostics": listed(ref("Finding")),
    "graph": {"type": ["string", "null"]},
}
_RUN = {
    "runId": STRING,
    "status": _STATE,
    "task": STRING,
    "startedAt": TIME_OR_NULL,
    "endedAt": TIME,
    "stepCount": NUMBER,
    **BLOCKED,
}
_STEP_STATE = {
    "id": STRING,
    "type": STRING,
    "state": {"enum": list(STEP_STATES)},
    "visits": NUMBER,
    "summary": STRING,
    "duration": NUMBER,
    "usage": ref("Usage"),
}
_RESULT = {
    "runId": STRING,
    "flowName": STRING,
    "status": {"enum": list(ENDED)},
    "reason": STRING,
    "task": STRING,
    "stepCount": NUMBER,
    "totalDuration": NUMBER,
    "results": OBJECT,
    "forks": OBJECT,
    "lastResult": {"type": ["object", "null"]},
    "usage": OBJECT,
    "warnings": listed(STRING),
}
_AGENT = {
    "name": STRING,
    "description": STRING,
    "tools": listed(STRING),
    "inputs": listed(STRING),
    "outputs": listed(OBJECT),
    "card": OBJECT,
    "source_type": {"enum": ["local", "package", "built-in"]},
    "source_path": STRING,
    "architect": OBJECT,
}

_DRY = {
    "runs": INTEGER,
    "starts": INTEGER,
    "reached": listed(STRING),
    "branches": listed(record({"step": STRING, "branch": STRING, "walked": TRUTH})),
    "complete": TRUTH,
}

FLOWS: dict[str, Schema] = {
    "Finding": record(
        {
            "line": INTEGER,
            "severity": {"enum": ["error", "warning"]},
            "message": STRING,
            "suggestion": STRING,
        },
        "suggestion",
    ),
    "Findings": record({"diagnostics": listed(ref("Finding")), "dryRun": record(_DRY)}, "dryRun"),
    "FlowSummary": record(_FLOW, *_MAYBE),
    "Flows": page_of("flows", "FlowSummary"),
    "Flow": record(_FLOW | _READ, *_MAYBE),
    "WrittenFlow": record(
        {
            "written": {"const": True},
            "path": STRING,
            "name": STRING,
            "diagnostics": listed(ref("Finding")),
            "dryRun": record(_DRY | {"problems": listed(ref("Finding"))}),
        },
        "dryRun",
    ),
    "Catalog": listed(record(_AGENT, "inputs", "outputs", "card", "source_path")),
    "RunBegun": record(
        {
            "runId": STRING,
            "taskId": STRING,
            "status": _STATE,
            "questions": listed(ref("OpenQuestion")),
            **BLOCKED,
        },
        *("questions", *BLOCKED),
    ),
    "RunRejected": record({"error": ERROR, "runId": STRING}, "runId"),
    "FlowResult": record(_RESULT, "reason", "task", "totalDuration", "usage"),
    "FlowRunSummary": record(_RUN, "endedAt", *BLOCKED),
    "FlowRuns": page_of("runs", "FlowRunSummary"),
    "FlowRun": record(
        _RUN
        | {
            "steps": listed(record(_STEP_STATE, "summary", "duration", "usage")),
            "questions": listed(ref("Question")),
            "result": ref("FlowResult"),
        },
        *("endedAt", "result", *BLOCKED),
    ),
    "RunFrame": {
        "type": "object",
        "required": ["type", "runId", "seq"],
        "properties": {
            "type": {"enum": list(TYPES)},
            "runId": STRING,
            "seq": INTEGER,
            "at": TIME,
            "stepId": STRING,
            "visit": INTEGER,
            "path": STRING,
        },
    },
}
"""Every schema of a flow, of a run, and of its frames."""
