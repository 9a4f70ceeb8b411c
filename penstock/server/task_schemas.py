"""JSON Schemas of the API's answers about tasks, their repetitions and undos, and webhooks."""

from typing import get_args

from penstock.chat.recorded.replay_report import DifferenceKind, StopReason
from penstock.chat.recorded.undo import UndoStatus
from penstock.server.schemas import (
    BLOCKED,
    NUMBER,
    OBJECT,
    STRING,
    TASK_STATUS,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    TRUTH,
    WAITS,
    Schema,
    listed,
    page_of,
    record,
    ref,
)
from penstock.store.logs.outbox import DeliveryStatus
from penstock.store.logs.webhook import EVENTS

_LISTED = {
    "id": STRING,
    "kind": STRING,
    "status": TASK_STATUS,
    "agentId": STRING,
    "conversationId": TEXT_OR_NULL,
    "createdAt": TIME,
    "startedAt": TIME_OR_NULL,
    "endedAt": TIME_OR_NULL,
    "rootId": STRING,
}
_CHILD = {
    "retryOf": STRING,
    "scheduleId": STRING,
    "parentId": STRING,
    "title": STRING,
    "key": STRING,
    "workerKind": STRING,
    "batchId": STRING,
}
_USED = {"usage": ref("Usage"), "totalUsage": ref("Usage")}
_TASK = (
    _LISTED
    | {
        "iterations": NUMBER,
        "usage": ref("Usage"),
        "error": OBJECT,
        "result": {"type": ["object", "null"]},
    }
    | WAITS
)
TASKS: dict[str, Schema] = {
    "Task": record(_TASK | _CHILD | BLOCKED, "error", *_CHILD, *BLOCKED),
    "ListedTask": record(_LISTED | _CHILD | BLOCKED, *_CHILD, *BLOCKED),
    "TaskList": page_of("tasks", "ListedTask"),
    "TaskNode": record(
        _LISTED | _CHILD | BLOCKED | _USED | {"children": listed(ref("TaskNode"))},
        *_CHILD,
        *BLOCKED,
        "children",
    ),
    "TaskTree": record(
        {"task": ref("TaskNode"), "children": listed(ref("TaskNode")), "truncated": TRUTH},
        "truncated",
    ),
}
"""Every schema of a task and of trees of tasks."""

_EVENT = {"enum": list(EVENTS)}
_WEBHOOK = {
    "id": STRING,
    "origin": STRING,
    "events": listed(_EVENT),
    **dict.fromkeys(("agents", "kinds"), listed(STRING)),
    "content": TRUTH,
    "status": {"enum": ["active", "paused"]},
    "reason": STRING,
}
_DELIVERY = {
    **dict.fromkeys(("id", "webhookId", "eventId", "taskId"), STRING),
    "type": _EVENT,
    "conversationId": TEXT_OR_NULL,
    "status": {"enum": [each.value for each in DeliveryStatus]},
    "attempts": NUMBER,
    "at": TIME,
    **dict.fromkeys(("nextAt", "endedAt"), TIME_OR_NULL),
    "problem": STRING,
}

_EFFECT = record({"path": listed(STRING), "tool": STRING, "status": STRING})

_DIFFERENCE = record(
    {
        "seq": NUMBER,
        **dict.fromkeys(("path", "summary"), STRING),
        "kind": {"enum": list(get_args(DifferenceKind))},
        "recorded": {},
        "now": {},
        "diff": listed(
            record({"pointer": STRING, "was": {}, "is": {}, "character": NUMBER}, "character")
        ),
    }
)
_REPORT = {
    "taskId": STRING,
    "equal": TRUTH,
    **dict.fromkeys(("comparedEvents", "totalEvents", "upToSeq"), NUMBER),
    "stopped": {"enum": list(get_args(StopReason))},
    "usage": record({"modelCalls": NUMBER, "costUsd": {"type": "number"}}),
    "difference": _DIFFERENCE,
    "later": listed(_DIFFERENCE),
    "warnings": listed(STRING),
}
_UNDO_CALL = {
    **dict.fromkeys(("id", "tool", "reason", "revert", "output"), STRING),
    "status": {"enum": list(get_args(UndoStatus))},
    "input": OBJECT,
}
_UNDO = {
    **dict.fromkeys(("taskId", "status"), STRING),
    "undoId": TEXT_OR_NULL,
    "calls": listed(record(_UNDO_CALL, "reason", "revert", "input", "output")),
    "questions": listed(STRING),
    "error": {"type": ["object", "null"]},
}

OPERATIONS: dict[str, Schema] = {
    "ReplayReport": record(_REPORT, "difference", "later"),
    "ReplayState": record({"replayId": STRING}),
    "Fork": record({"id": STRING, "conversationId": TEXT_OR_NULL, "effects": listed(_EFFECT)}),
    "Undo": record(_UNDO),
    "Retry": record({"id": STRING, "conversationId": TEXT_OR_NULL, "retryOf": STRING}),
    "Webhook": record(_WEBHOOK, "reason"),
    "Webhooks": record({"webhooks": listed(ref("Webhook"))}),
    "Delivery": record(_DELIVERY, "problem"),
    "Deliveries": page_of("deliveries", "Delivery"),
}
