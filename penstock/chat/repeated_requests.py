"""Repeated requests: finds the task of the first request with the same Idempotency-Key."""

from collections.abc import AsyncIterator

from penstock.chat.message import NewMessage, SentMessage
from penstock.chat.tasks.records import first_record, records_of
from penstock.core.errors import IdempotencyConflict, NotFound
from penstock.core.events.events import MessageReceived, QuestionAnswered, Record
from penstock.core.ids import MessageId, SessionId, TaskId
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.projections.projections import Projections


class RepeatedRequests:
    """Finds the task of a request that was accepted before."""

    def __init__(self, log: Log, projections: Projections) -> None:
        self._log = log
        self._projections = projections

    async def find(self, message: NewMessage, task_id: TaskId) -> SentMessage | None:
        """Return a repeated message, if it started this task or answered a question in it.

        Raises IdempotencyConflict when another request had its key.
        """
        if message.idempotency.key is None:
            return None
        task = await self._projections.find_task(task_id)
        if task is None:
            return None
        wanted = message.idempotency
        async for record in self._records(task):
            event = record.event
            if not isinstance(event, MessageReceived | QuestionAnswered):
                continue
            if event.idempotency_key == wanted.key:
                if event.request_hash != wanted.request_hash:
                    raise IdempotencyConflict
                is_first = record.seq == task.first_seq
                return await self.sent(task, record.seq if is_first else record.seq - 1)
        return None

    async def first(self, message: NewMessage, error: IdempotencyConflict) -> SentMessage:
        """Return the first request with this key; raise the error if it was a different request."""
        task = await self._projections.find_task(first_task(error))
        if task is None:
            raise NotFound("the conversation that this request began was deleted")
        return await self.find(message, task.task_id) or await self.sent(task, task.first_seq)

    async def sent(self, task: TaskRecord, seq: int) -> SentMessage:
        """Return the position of a request: its task and event."""
        began = await first_record(self._log, task)
        return SentMessage(
            session_id=SessionId(task.log_id),
            task_id=task.task_id,
            message_id=getattr(began.event, "message_id", MessageId("")),
            seq=seq,
        )

    async def _records(self, task: TaskRecord) -> AsyncIterator[Record]:
        """Yield the events of a task; the first one before the others are read."""
        yield await first_record(self._log, task)
        for record in (await records_of(self._log, task))[1:]:
            yield record


def first_task(error: IdempotencyConflict) -> TaskId:
    """Return the task of the first request with the key. Raises the error if that differs."""
    details = error.details or {}
    if not details.get("same"):
        raise IdempotencyConflict from None
    return TaskId(details["task_id"])
