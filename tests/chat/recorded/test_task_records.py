"""Repeated requests with one Idempotency-Key, and the events of a task."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.runtime import Runtime
from penstock.builtins import TOOLS
from penstock.chat.recorded.task_records import first_record, records_of
from penstock.chat.requests import NewMessage, RequestKey, SentMessage, TaskReply
from penstock.core.clock import SystemClock
from penstock.core.errors import IdempotencyConflict, StoreCorrupt
from penstock.core.events.events import MessageReceived, QuestionAnswered, Record, TaskEnded
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.task import TaskRecord, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.logs.log import Log
from penstock.store.projections import Page
from penstock.testing.log import MemoryLog
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.logs import events
from tests.kit.questions import mail

STORY = {
    "Ask": [call("ask_user", question="Who?"), call("ask_user", question="When?"), say("So be it.")]
}


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Runtime, NewMessage]]:
    """Open a runtime with an open question; yield a message with a key that answers it."""
    async with memory_runtime(model=ScriptedModel(STORY), tools=TOOLS) as runtime:
        question = await runtime.chat("Ask")
        yield runtime, keyed("Ann", SessionId(question.session))


def keyed(content: str, session_id: SessionId) -> NewMessage:
    return NewMessage(
        content=content, session_id=session_id, idempotency=RequestKey("key", content)
    )


async def sent(runtime: Runtime, message: NewMessage) -> tuple[SentMessage, TaskReply]:
    """Send a message; return its position and the status of its task."""
    taken = await runtime.requests.send(message)
    reply = await runtime.requests.wait(taken.task_id)
    assert reply
    return taken, reply


async def answers_of(runtime: Runtime, session_id: SessionId) -> list[str]:
    """Return the answers."""
    sent_again = await events(runtime, session_id)
    return [each.answer["text"] for each in sent_again if isinstance(each, QuestionAnswered)]


async def test_a_repeated_answer_does_not_answer_the_next_question() -> None:
    """`Idempotency-Key`: "same key and body within 24 h attaches to the same task"."""
    async with asking() as (runtime, answer):
        first, reply = await sent(runtime, answer)
        again, still = await sent(runtime, answer)
        assert (again, still.questions) == (first, reply.questions)
        assert await answers_of(runtime, first.session_id) == ["Ann"]


async def test_a_repeated_answer_starts_no_task_after_the_end() -> None:
    async with asking() as (runtime, answer):
        first, _ = await sent(runtime, answer)
        await runtime.chat("Now", session=first.session_id)
        again, reply = await sent(runtime, answer)
        _, total = await runtime.parts.storage.projections.tasks(page=Page())
    assert (again, total) == (first, 1)
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "So be it.")


@pytest.mark.parametrize("ends", [False, True], ids=["asking", "ended"])
async def test_another_message_with_the_key_of_an_answer_is_refused(ends: bool) -> None:
    """`Idempotency-Key`: "other body: 409 IDEMPOTENCY_CONFLICT"."""
    async with asking() as (runtime, answer):
        await sent(runtime, answer)
        if ends:
            await runtime.chat("Now", session=answer.session_id)
        with pytest.raises(IdempotencyConflict):
            await runtime.requests.send(keyed("Bob", SessionId(str(answer.session_id))))


async def test_a_repeated_request_cancels_nothing() -> None:
    async with asking() as (runtime, answer):
        await sent(runtime, answer)
        _, reply = await sent(runtime, replace(answer, cancel_open=True))
        assert reply.status is TaskStatus.SUSPENDED


async def test_a_repeated_answer_is_recognized_while_an_approval_is_open() -> None:
    story = [call("ask_user", question="Who?"), call("mail")]
    async with memory_runtime(model=ScriptedModel(story), tools=[*TOOLS, mail()]) as runtime:
        question = await runtime.chat("Write")
        answer = keyed("Ann", SessionId(question.session))
        first, _ = await sent(runtime, answer)
        again, _ = await sent(runtime, answer)
    assert again == first


class Watched(MemoryLog):
    """A log that records its reads."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.reads: list[tuple[int, int | None]] = []

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        """Return what the log has."""
        self.reads.append((part.get("after", 0), part.get("limit")))
        return await super().read(log_id, **part)


async def test_an_answer_reads_as_little_of_a_long_conversation_as_of_a_new_one() -> None:
    model = ScriptedModel(STORY | {"Hi": say("Hello.")})
    place = MemoryStorage(log=(log := Watched()))
    async with memory_runtime(model=model, tools=TOOLS, place=place) as runtime:
        started = await runtime.chat("Hi")
        question = await runtime.chat("Ask", session=started.session)
        log.reads.clear()
        taken, _ = await sent(
            runtime, replace(keyed("Ann", SessionId(question.session)), idempotency=RequestKey())
        )
        task = await runtime.parts.storage.projections.find_task(taken.task_id)
    assert task
    assert min(after for after, _ in log.reads) == task.first_seq - 1 > 0


async def told_twice() -> tuple[Log, TaskRecord, TaskRecord]:
    """Return a log with two tasks, and their rows."""
    place = MemoryStorage()
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model, place=place) as runtime:
        reply = await runtime.chat("One")
        await runtime.chat("Two", session=reply.session)
        (second, first), _ = await runtime.parts.storage.projections.tasks(page=Page())
    return place.log, first, second


async def test_a_task_is_read_from_its_first_event_to_its_last() -> None:
    log, *tasks = await told_twice()
    for task in tasks:
        records = await records_of(log, task)
        assert {record.task_id for record in records} == {task.task_id}
        assert isinstance(records[0].event, MessageReceived)
        assert isinstance(records[-1].event, TaskEnded)
        assert await first_record(log, task) == records[0]


@pytest.mark.parametrize(
    "wrong",
    [{"first_seq": 1}, {"first_seq": 900}, {"ended_seq": 3}, {"ended_seq": 900}],
    ids=str,
)
async def test_a_row_that_does_not_match_its_log_is_store_corrupt(wrong: dict[str, int]) -> None:
    log, first, second = await told_twice()
    for task in (first, second):
        with pytest.raises(StoreCorrupt, match="doctor --rebuild"):
            await records_of(log, replace(task, **wrong))


async def test_the_first_event_of_another_task_is_refused() -> None:
    log, first, second = await told_twice()
    with pytest.raises(StoreCorrupt, match="its log says otherwise"):
        await first_record(log, replace(second, first_seq=first.first_seq))


async def test_a_task_whose_log_was_deleted_has_no_events() -> None:
    log, first, _ = await told_twice()
    gone = replace(first, log_id=LogId("conv_gone"), task_id=TaskId("task_gone"))
    assert await records_of(log, gone) == []
