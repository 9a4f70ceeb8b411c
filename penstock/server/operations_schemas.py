"""JSON Schemas of the API's answers about webhooks, their deliveries, and forks of tasks."""

from penstock.server.schemas import (
    NUMBER,
    STRING,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    TRUTH,
    Schema,
    listed,
    page_of,
    record,
    ref,
)
from penstock.store.logs.outbox import EVENTS, DeliveryStatus

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

OPERATIONS: dict[str, Schema] = {
    "Fork": record({"id": STRING, "conversationId": TEXT_OR_NULL, "effects": listed(_EFFECT)}),
    "Webhook": record(_WEBHOOK, "reason"),
    "Webhooks": record({"webhooks": listed(ref("Webhook"))}),
    "Delivery": record(_DELIVERY, "problem"),
    "Deliveries": page_of("deliveries", "Delivery"),
}
