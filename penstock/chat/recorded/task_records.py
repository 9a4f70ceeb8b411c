"""Reads the events of one task from its log, and finds the task of a repeated request.

The row of a task has its first and last `seq`. If the log does not begin and end the task there, an
event was lost or the row is damaged; StoreCorrupt is raised instead of returning a part as the
whole.
"""

from collections.abc import AsyncIterator

from penstock.chat.requests import NewMessage, SentMessage
from penstock.core.errors import IdempotencyConflict, NotFound, StoreCorrupt
from penstock.core.events.events import (
    CallSettled,
    MessageReceived,
    QuestionAnswered,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.ids import MessageId, SessionId, TaskId
from penstock.core.messages import Usage, total_usage
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.projections import Projections
from penstock.store.rows import REBUILD


async def records_of(log: Log, task: TaskRecord) -> list[Record]:
    """Return the events of a task so far; none if its log was deleted meanwhile.

    Raises StoreCorrupt if an event is missing or unreadable, or if the task does not begin and end
    where its row says.
    """
    before = task.first_seq - 1
    limit = None if task.ended_seq is None else max(task.ended_seq - before, 1)
    records = await log.read(task.log_id, after=before, limit=limit)
    is_whole = bool(records) and records[0].task_id == task.task_id
    if is_whole and task.ended_seq is not None:
        last = records[-1]
        is_end = isinstance(last.event, TaskEnded) and last.task_id == task.task_id
        is_whole = is_end and last.seq == task.ended_seq
    if not is_whole and await log.head(task.log_id):
        raise unfit(task)
    return [record for record in records if record.task_id == task.task_id]


async def first_record(log: Log, task: TaskRecord) -> Record:
    """Return the event that requested a task.

    Raises StoreCorrupt if there is none, also if the log was deleted meanwhile.
    """
    records = await log.read(task.log_id, after=task.first_seq - 1, limit=1)
    if not records or records[0].task_id != task.task_id:
        raise unfit(task)
    return records[0]


async def spent_on(log: Log, task: TaskRecord) -> tuple[int, Usage, TaskEnded | None]:
    """Return a task's iterations and usage so far, and its end."""
    if task.ended_seq is not None:
        for record in await log.read(task.log_id, after=task.ended_seq - 1, limit=1):
            if isinstance(record.event, TaskEnded):
                return record.event.iterations, record.event.usage, record.event
    records = await records_of(log, task)
    own = [each.event for each in records]
    replies = [each for each in own if isinstance(each, ReplyReceived) and each.iteration]
    calls = sum(isinstance(each, CallSettled) and each.ran for each in own)
    usage = total_usage([each.usage for each in replies], tool_calls=calls)
    mine = [each.event for each in records if each.path is None]
    turns = [each.iteration for each in mine if isinstance(each, ReplyReceived)]
    return max(turns, default=0), usage, None


def unfit(task: TaskRecord) -> StoreCorrupt:
    """Return the error of a task whose row does not match its log."""
    ends = "" if task.ended_seq is None else f" and end with event {task.ended_seq}"
    return StoreCorrupt(
        f"task {task.task_id!r} is {task.status.value} in the lists, and should begin with event "
        f"{task.first_seq}{ends} of log {task.log_id!r}; its log says otherwise. {REBUILD}",
        details={"log": task.log_id},
    )


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
        idempotency = message.idempotency
        async for record in self._records(task):
            event = record.event
            if not isinstance(event, MessageReceived | QuestionAnswered):
                continue
            if event.idempotency_key == idempotency.key:
                if event.request_hash != idempotency.request_hash:
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
