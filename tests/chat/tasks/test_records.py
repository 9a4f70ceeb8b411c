"""The events of a task are held against what the lists say of it."""

import pytest
from msgspec.structs import replace

from penstock.chat.tasks.records import first_record, records_of
from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import MessageReceived, TaskEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskRecord
from penstock.models.scripted import ScriptedModel, say
from penstock.store.logs.log import Log
from penstock.store.projections.projections import Page
from penstock.testing.runtime import MemoryStorage, memory_runtime


async def told_twice() -> tuple[Log, TaskRecord, TaskRecord]:
    """Return a log with two tasks, and how they are listed."""
    place = MemoryStorage()
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model, place=place) as runtime:
        reply = await runtime.chat("One")
        await runtime.chat("Two", session_id=reply.session_id)
        (second, first), _ = await runtime.parts.projections.tasks(page=Page())
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
async def test_a_task_that_is_listed_elsewhere_than_it_is_says_so(wrong: dict[str, int]) -> None:
    log, first, second = await told_twice()
    for task in (first, second):
        with pytest.raises(StoreCorrupt, match="doctor --rebuild"):
            await records_of(log, replace(task, **wrong))


async def test_a_first_event_of_another_task_is_not_taken_for_its_own() -> None:
    log, first, second = await told_twice()
    with pytest.raises(StoreCorrupt, match="its log says otherwise"):
        await first_record(log, replace(second, first_seq=first.first_seq))


async def test_a_task_whose_log_was_deleted_has_no_events() -> None:
    log, first, _ = await told_twice()
    gone = replace(first, log_id=LogId("conv_gone"), task_id=TaskId("task_gone"))
    assert await records_of(log, gone) == []
