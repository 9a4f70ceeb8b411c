"""The events of a recorded task, and the time that they show."""

from penstock.app.trial.recorded_events import RecordedEvents, ReplayClock
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Event,
    Record,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus

TASK = TaskId("task_1")
DONE = CallSettled(tool_id="pay", envelope=Envelope.success(1))


def records(*events: tuple[str, Event]) -> list[Record]:
    """The events of a task with their paths."""
    return [
        Record(LogId("conv_1"), seq, Moment(seq), TASK, CallPath(path) if path else None, event)
        for seq, (path, event) in enumerate(events, 1)
    ]


def test_what_happened_inside_a_call_is_found_once_also_that_of_a_later_attempt() -> None:
    task = RecordedEvents(
        records(
            ("", TaskStarted()),
            ("task_1/1/pay#a/get#b", DONE),
            ("task_1/1/pay#a~2/get#b/deep#c", DONE),
            ("task_1/1/pay#a", DONE),
            ("task_1/1/other#a/get#b", DONE),
            ("", TaskEnded(status=TaskStatus.SUCCEEDED)),
        ),
        TASK,
    )
    inner = task.inner(CallPath("task_1/1/pay#a"))
    assert [each.seq for each in inner] == [2, 3]
    task.take(inner[0])
    assert [each.seq for each in task.inner(CallPath("task_1/1/pay#a"))] == [3]
    assert (task.compared, task.total, task.up_to) == (1, 6, 2)


def test_events_of_processes_do_not_count() -> None:
    started = CallStarted(tool_id="pay", idempotency_key="k")
    task = RecordedEvents(records(("", TaskStarted()), ("task_1/1/pay#a", started)), TASK)
    assert task.total == 1


async def test_recorded_waits_take_no_time_and_real_ones_do() -> None:
    clock = ReplayClock()
    clock.move(Moment(5_000))
    clock.move(Moment(4_000))
    await clock.sleep(3600)
    assert (clock.now(), clock.monotonic()) == (5_000, 5)
    clock.go_live()
    assert clock.monotonic() >= 5
