"""Webhooks as JSON: the bodies of deliveries, made when they are sent, and lists for operators."""

from typing import Any
from urllib.parse import urlsplit

from penstock.chat.wire_forms import conversation_of, question_part
from penstock.core.clock import to_iso
from penstock.core.events.events import QuestionAsked, Record, TaskEnded
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.logs.outbox import Delivery
from penstock.store.logs.webhook import Webhook
from penstock.store.projections import Projections

_CONTENT_OF_QUESTION = ("arguments", "context", "options", "schema", "form")
"""The members of a question that can repeat what a model or a person wrote."""


class Describer:
    """Makes the bodies of deliveries from the log, so that the outbox holds no content."""

    def __init__(self, log: Log, projections: Projections, web_url: str) -> None:
        self._log = log
        self._projections = projections
        self._questions = f"{web_url.rstrip('/')}/api/questions"

    async def describe(self, delivery: Delivery, webhook: Webhook) -> dict[str, Any] | None:
        """Return the body; None if the event was erased meanwhile."""
        task = await self._projections.find_task(delivery.task_id)
        records = await self._log.read(delivery.log_id, after=delivery.seq - 1, limit=1)
        if task is None or not records or records[0].seq != delivery.seq:
            return None
        record = records[0]
        about = self._about(record, task, has_content=webhook.has_content)
        if about is None:
            return None
        head = {"id": delivery.event_id, "type": delivery.event, "at": to_iso(delivery.at)}
        return head | about

    def _about(
        self, record: Record, task: TaskRecord, *, has_content: bool
    ) -> dict[str, Any] | None:
        event = record.event
        if isinstance(event, TaskEnded):
            return {"task": _task_part(task) | _end_part(event, has_content=has_content)}
        if isinstance(event, QuestionAsked):
            question = question_part(event.question)
            if not has_content:
                question = {
                    key: value for key, value in question.items() if key not in _CONTENT_OF_QUESTION
                }
            question["url"] = f"{self._questions}/{event.question.question_id}"
            return {"task": _task_part(task), "question": question}
        return None


def webhook_part(webhook: Webhook, paused: dict[str, str]) -> dict[str, Any]:
    """Return a webhook for operators. Its path and query can be secrets, so they are left out."""
    address = urlsplit(webhook.url)
    part = {
        "id": webhook.webhook_id,
        "origin": f"{address.scheme}://{address.netloc}",
        "events": list(webhook.events),
        "agents": list(webhook.agents),
        "kinds": list(webhook.kinds),
        "content": webhook.has_content,
    }
    if (reason := paused.get(webhook.webhook_id)) is not None:
        return part | {"status": "paused", "reason": reason}
    return part | {"status": "active"}


def delivery_part(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery for operators."""
    ended = delivery.ended_at
    part: dict[str, Any] = {
        "id": delivery.delivery_id,
        "webhookId": delivery.webhook_id,
        "eventId": delivery.event_id,
        "type": delivery.event,
        "taskId": delivery.task_id,
        "conversationId": conversation_of(delivery.log_id, delivery.task_id),
        "status": delivery.status.value,
        "attempts": delivery.attempts,
        "at": to_iso(delivery.at),
        "nextAt": to_iso(delivery.next_at) if ended is None else None,
        "endedAt": None if ended is None else to_iso(ended),
    }
    return part if delivery.problem is None else part | {"problem": delivery.problem}


def _task_part(task: TaskRecord) -> dict[str, Any]:
    return {
        "id": task.task_id,
        "kind": task.kind,
        "agentId": task.agent,
        "conversationId": conversation_of(task.log_id, task.task_id),
        "status": task.status.value,
    }


def _end_part(ended: TaskEnded, *, has_content: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"status": ended.status.value, "usage": ended.usage.to_wire()}
    if ended.error is not None:
        error = ended.error
        part["error"] = error.to_wire() if has_content else {"code": error.code}
    if has_content:
        part["content"] = ended.content
        if ended.output is not None:
            part["output"] = ended.output.value
        if ended.envelope is not None:
            part["result"] = ended.envelope.to_wire()
    return part
