"""JSON Schemas of the answers of direct calls and links."""

from penstock.server.schemas.components import (
    ANYTHING,
    OBJECT,
    STRING,
    TEXT_OR_NULL,
    TRUTH,
    Schema,
    listed,
    page_of,
    record,
    ref,
)

_ERROR = record(
    {
        "code": STRING,
        "message": STRING,
        "retryable": TRUTH,
        "continuable": TRUTH,
        "details": OBJECT,
    },
    "details",
)
_ENVELOPE = {
    "status": {"enum": ["success", "failed", "timeout", "validation_error"]},
    "output": ANYTHING,
    "error": _ERROR,
}

OUTCOMES: dict[str, Schema] = {
    "DirectCall": record(
        {
            "toolId": STRING,
            "description": STRING,
            "inputSchema": OBJECT,
            "outputSchema": OBJECT,
            "effect": {"enum": ["none", "read", "write"]},
            "requiresApproval": TRUTH,
        },
        "outputSchema",
    ),
    "DirectCalls": page_of("directCalls", "DirectCall"),
    "CallOutcome": record(_ENVELOPE | {"taskId": TEXT_OR_NULL}, "output", "error"),
    "OpenedLink": record(
        {
            "key": TEXT_OR_NULL,
            "conversationId": STRING,
            "agentId": STRING,
            "expiresAt": TEXT_OR_NULL,
        }
    ),
    "CallWaiting": record(
        {
            "taskId": STRING,
            "status": {"const": "suspended"},
            "error": _ERROR,
            "questions": listed(ref("OpenQuestion")),
        },
        "status",
        "error",
        "questions",
    ),
}
"""Every schema of a direct call, and of a link."""
