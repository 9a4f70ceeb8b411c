"""JSON Schemas of the API's answers: the components of its OpenAPI document."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
TRUTH: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
ANYTHING: Schema = {}
TIME: Schema = {"type": "string", "format": "date-time"}
TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def listed(item: Schema) -> Schema:
    """Return a list of these."""
    return {"type": "array", "items": item}


def record(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """Return the schema of an object with exactly these keys; the optional ones can be missing."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def frame(kind: str, properties: Mapping[str, Schema], *optional: str) -> Schema:
    """Return a frame of the chat stream."""
    return record({"type": {"const": kind}} | dict(properties), *optional)


def page_of(name: str, item: str) -> Schema:
    """Return a page of a list."""
    meta = record({"total": NUMBER, "limit": NUMBER, "offset": NUMBER})
    return record({name: listed(ref(item)), "meta": meta})


_COUNTS = ("cachedTokens", "cacheWriteTokens", "reasoningTokens")
_USAGE = record(
    {
        **dict.fromkeys(("inputTokens", "outputTokens", "modelCalls", "toolCalls"), NUMBER),
        "costUsd": {"type": ["number", "null"]},
    }
    | dict.fromkeys(_COUNTS, NUMBER),
    *_COUNTS,
)
WAITS = {"questions": listed(STRING), "runs": listed(STRING)}
_PART = record({"kind": {"enum": ["agent", "model", "tool", "toolset", "task"]}, "id": STRING})
BLOCKED = {"blockedOn": listed(_PART), "message": STRING}
_CALL = {"id": STRING, "name": STRING, "arguments": OBJECT}
_FILE = {"url": STRING, "mimeType": STRING, "bytes": NUMBER}
_IMAGE = _FILE | {"width": NUMBER, "height": NUMBER}
_RESULT = {
    "toolCallId": STRING,
    "name": STRING,
    "success": {"const": True},
    "result": ANYTHING,
    "resultPreview": STRING,
    "truncated": {"const": True},
    "totalCharacters": NUMBER,
    "artifactId": STRING,
    "imageUrl": STRING,
    "images": listed(record(_IMAGE, "width", "height")),
    "files": listed(record(_FILE)),
}
_STORED = {"blobId": STRING, "mimeType": STRING, "bytes": NUMBER}
_STORED |= {"name": STRING, "width": NUMBER, "height": NUMBER}
_STORED_OPTIONAL = ("name", "width", "height")
_ATTACHMENT = {**_FILE, "mediaId": STRING, "name": STRING}
_FAILURE = {
    "toolCallId": STRING,
    "name": STRING,
    "success": {"const": False},
    "error": STRING,
    "code": STRING,
    "suggestion": STRING,
    "detector": {"enum": ["identical", "cycle", "no_progress"]},
}
_FORM = {
    "type": {"enum": ["input", "select", "confirm"]},
    **dict.fromkeys(("multiSelect", "allowCustom", "allowNotes", "allowDecide"), TRUTH),
    **dict.fromkeys(("defaultValue", "stepId"), STRING),
}
_QUESTION = {
    "id": STRING,
    "kind": {"enum": ["approval", "ask_user", "user_message", "fork", "task"]},
    "text": STRING,
    "toolCallId": STRING,
    "toolName": STRING,
    "arguments": OBJECT,
    "path": listed(STRING),
    "context": STRING,
    "options": listed(record({"label": STRING, "value": STRING})),
    "schema": OBJECT,
    "form": record(_FORM, *list(_FORM)[1:]),
}
_QUESTION_OPTIONAL = tuple(name for name in _QUESTION if name not in {"id", "kind", "text"})
_ASKER = {"taskId": STRING}
"""Only questions of tasks below the one that the stream shows have it."""
_CHECKED = ("database", "migrations", "launcher", "disk", "blobs")
_CHECKS = record({name: {"enum": ["ok", "failed"]} for name in _CHECKED})
TASK_STATUS = {
    "enum": ["queued", "blocked", "running", "suspended", "succeeded", "failed", "cancelled"]
}
_LIMITS = ("max_iterations", "loop_detected", "budget_exceeded")
_FINISH = {"enum": ["stop", "length", "content_filter", *_LIMITS]}
_HANDED_OFF = {"model": TEXT_OR_NULL}
_HANDED_OFF |= dict.fromkeys(("taskId", "agentId", "previousAgentId"), STRING)
_TOLD = ("event", "level", "toolName", "title", "message")
_NOTE = dict.fromkeys(_TOLD, STRING) | {"payload": ANYTHING}

FRAMES: dict[str, Schema] = {
    "MessageStart": frame(
        "message_start",
        {
            "conversationId": STRING,
            "taskId": STRING,
            "userMessageId": TEXT_OR_NULL,
            "model": TEXT_OR_NULL,
            "agentId": STRING,
        },
        "agentId",
    ),
    "HandedOff": frame("handed_off", _HANDED_OFF),
    "HandedBackFrame": frame("handed_back", {"conversationId": STRING, "agentId": STRING}),
    "Thinking": frame(
        "thinking",
        {"iteration": INTEGER, "maxIterations": INTEGER, "delta": STRING},
        "maxIterations",
        "delta",
    ),
    "ContentDelta": frame(
        "content_delta",
        {"iteration": INTEGER, "closing": {"const": True}, "delta": STRING},
        "iteration",
        "closing",
    ),
    "ContentReset": frame(
        "content_reset",
        {"iteration": INTEGER, "closing": {"const": True}},
        "iteration",
        "closing",
    ),
    "OutputDelta": frame("output_delta", {"iteration": INTEGER, "partial": ANYTHING}),
    "ToolCall": frame(
        "tool_call", _CALL | {"iteration": INTEGER, "argumentsText": STRING}, "argumentsText"
    ),
    "ToolResult": frame(
        "tool_result",
        _RESULT,
        "truncated",
        "totalCharacters",
        "artifactId",
        "imageUrl",
        "images",
        "files",
    ),
    "ToolFailure": frame("tool_result", _FAILURE, "suggestion", "detector"),
    "QuestionAsked": frame("question", _QUESTION | _ASKER, *_QUESTION_OPTIONAL, *_ASKER),
    "QuestionAnswered": frame(
        "question_answered",
        {"id": STRING, "status": {"enum": ["answered", "cancelled"]}, "answer": OBJECT} | _ASKER,
        *("answer", *_ASKER),
    ),
    "Note": frame("note", _NOTE, *_TOLD[2:], "payload"),
    "Suspended": frame("suspended", {"taskId": STRING} | WAITS | BLOCKED, "runs", *BLOCKED),
    "MessageComplete": frame(
        "message_complete",
        {
            "assistantMessageId": TEXT_OR_NULL,
            "conversationId": STRING,
            "taskId": STRING,
            "content": STRING,
            "toolCalls": listed(record(_CALL)),
            "toolResults": listed({"oneOf": [ref("ToolResult"), ref("ToolFailure")]}),
            "finishReason": {"anyOf": [_FINISH, {"type": "null"}]},
            "iterations": NUMBER,
            "usage": ref("Usage"),
            "attachments": listed(record(_ATTACHMENT)),
            "output": ANYTHING,
        },
        *("attachments", "output"),
    ),
    "TaskError": frame(
        "error", {"message": STRING, "code": STRING, "retryable": TRUTH, "taskId": STRING}
    ),
}
"""Every frame of the chat stream, by name."""

MAPPING = {
    "message_start": "MessageStart",
    "handed_off": "HandedOff",
    "handed_back": "HandedBackFrame",
    "thinking": "Thinking",
    "content_delta": "ContentDelta",
    "content_reset": "ContentReset",
    "output_delta": "OutputDelta",
    "tool_call": "ToolCall",
    "tool_result": "ToolOutcome",
    "question": "QuestionAsked",
    "question_answered": "QuestionAnswered",
    "note": "Note",
    "suspended": "Suspended",
    "message_complete": "MessageComplete",
    "error": "TaskError",
}
"""The schema of a frame, by its `type`."""

_MESSAGE: dict[str, Schema] = {
    "id": STRING,
    "role": {"enum": ["user", "assistant", "system", "tool"]},
    "content": TEXT_OR_NULL,
    "conversationId": STRING,
    "createdAt": TIME,
    "toolCalls": {"type": ["array", "null"], "items": record(_CALL)},
    "toolResults": {"type": ["array", "null"], "items": ref("ToolOutcome")},
    "metadata": OBJECT,
    "toolCallId": STRING,
    "output": ANYTHING,
    "attachments": listed(record(_STORED | {"url": STRING}, *_STORED_OPTIONAL)),
}
ERROR = record({"code": STRING, "message": STRING, "details": ANYTHING}, "details")
_ASKED = {
    "status": {"enum": ["open", "answered", "cancelled", "expired"]},
    "taskId": STRING,
    "conversationId": TEXT_OR_NULL,
    "agentId": STRING,
    "createdAt": TIME,
    "answeredAt": TIME,
    "answeredBy": STRING,
    "answer": OBJECT,
}
_EVENT = {"seq": INTEGER, "at": TIME, "kind": STRING, "path": TEXT_OR_NULL, "body": OBJECT}
_CONVERSATION = {
    "id": STRING,
    "title": STRING,
    "createdAt": TIME,
    "updatedAt": TIME,
    "messageCount": NUMBER,
    "status": {"anyOf": [TASK_STATUS, {"type": "null"}]},
}
_MODEL = {
    "id": STRING,
    "name": STRING,
    "provider": STRING,
    "available": TRUTH,
    "contextTokens": {"type": ["integer", "null"]},
    "tools": TRUTH,
}
_TOOL = {
    "name": STRING,
    "description": STRING,
    "parameters": OBJECT,
    "type": STRING,
    "cluster": TEXT_OR_NULL,
    "enabled": TRUTH,
    "approval": TRUTH,
    "effect": {"enum": ["none", "read", "write"]},
}
_AGENT = {
    "id": STRING,
    "name": STRING,
    "description": STRING,
    "model": TEXT_OR_NULL,
    "source": STRING,
    **dict.fromkeys(("created_at", "updated_at"), TIME_OR_NULL),
    "outputSchema": OBJECT,
    "handoffs": listed(STRING),
}
_TIME_MS: Schema = {"type": ["number", "null"]}
_METRICS = record(
    {
        "tool": STRING,
        "calls": NUMBER,
        "succeeded": NUMBER,
        "failed": NUMBER,
        "blocked": NUMBER,
        "rejected": NUMBER,
        "successRate": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "durationMs": record(dict.fromkeys(("mean", "p50", "p95", "max"), _TIME_MS)),
        "tokens": record(dict.fromkeys(("arguments", "results", "definitions"), NUMBER)),
        "errors": {"type": "object", "additionalProperties": NUMBER},
    }
)
_SECTION_META = record({"total": NUMBER, "limit": NUMBER, "hasMore": TRUTH})

COMPONENTS: dict[str, Schema] = FRAMES | {
    "Usage": _USAGE,
    "ToolOutcome": {"oneOf": [ref("ToolResult"), ref("ToolFailure")]},
    "Frame": {
        "oneOf": [ref(name) for name in dict.fromkeys(MAPPING.values())],
        "discriminator": {
            "propertyName": "type",
            "mapping": {kind: ref(name)["$ref"] for kind, name in MAPPING.items()},
        },
    },
    "Problem": record({"error": ERROR}),
    "Message": record(_MESSAGE, *(name for name in _MESSAGE if name not in {"role", "content"})),
    "Exchange": record({"userMessage": ref("Message"), "assistantMessage": ref("Message")}),
    "Waiting": record(
        {
            "taskId": STRING,
            "conversationId": STRING,
            "userMessage": ref("Message"),
            "assistantMessage": {"type": "null"},
            "suspended": record(WAITS | {"questions": listed(ref("Question"))}),
            "status": TASK_STATUS,
        }
        | BLOCKED,
        *("userMessage", "assistantMessage", "suspended", "status", *BLOCKED),
    ),
    "History": record(
        {"messages": listed(ref("Message")), "conversationId": TEXT_OR_NULL, "meta": _SECTION_META}
    ),
    "Question": record(
        _QUESTION | _ASKED, *_QUESTION_OPTIONAL, "answeredAt", "answeredBy", "answer"
    ),
    "Questions": page_of("questions", "Question"),
    "OpenQuestion": record(_QUESTION, *_QUESTION_OPTIONAL),
    "AnsweredQuestion": record({"question": ref("Question")}),
    "TaskState": record({"id": STRING, "status": TASK_STATUS}),
    "TaskEvent": record(_EVENT),
    "TaskEvents": record(
        {"events": listed(ref("TaskEvent")), "meta": record({"limit": NUMBER, "hasMore": TRUTH})}
    ),
    "Conversation": record(_CONVERSATION),
    "Conversations": page_of("conversations", "Conversation"),
    "HandedBack": record({"conversationId": STRING, "agentId": STRING}),
    "Models": record({"models": listed(record(_MODEL)), "default": STRING}),
    "Tools": record({"tools": listed(record(_TOOL)), "toolsets": listed(STRING)}),
    "Agent": record(
        _AGENT | {"instructions": STRING, "settings": OBJECT},
        *("instructions", "settings", "outputSchema", "handoffs"),
    ),
    "Agents": page_of("agents", "Agent"),
    "Secret": record({"key": STRING, "updatedAt": TIME}),
    "Secrets": page_of("secrets", "Secret"),
    "Permission": record({"permissionId": STRING, "name": STRING, "description": TEXT_OR_NULL}),
    "PermissionGroup": record(
        {
            "groupId": STRING,
            "name": STRING,
            "description": TEXT_OR_NULL,
            "permissions": listed(ref("Permission")),
        }
    ),
    "Permissions": record(
        {
            "catalogId": TEXT_OR_NULL,
            "version": TEXT_OR_NULL,
            "groups": listed(ref("PermissionGroup")),
        }
    ),
    "AgentSettings": record({"settings": OBJECT, "overridden": listed(STRING)}),
    "ToolMetrics": _METRICS,
    "ModelMetrics": record({"model": STRING, "usage": ref("Usage")}),
    "Metrics": record(
        {"metrics": listed(ref("ToolMetrics")), "models": listed(ref("ModelMetrics"))}
        | {"meta": record({"from": TIME, "to": TIME})}
    ),
    "Upload": record(_STORED, *_STORED_OPTIONAL),
    "Artifact": record(
        {"id": STRING, "toolName": STRING, "totalCharacters": NUMBER}
        | {"offset": NUMBER, "text": STRING, "hasMore": TRUTH}
    ),
    "Health": record({"status": STRING, "version": STRING}),
    "Readiness": record(
        {"status": {"enum": ["ok", "failed"]}, "checks": _CHECKS}
        | {"details": OBJECT, "confinement": OBJECT},
        *("checks", "details", "confinement"),
    ),
}
"""Every schema of the document except those of flows and direct calls."""
