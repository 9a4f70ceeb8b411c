"""The defaults of a task body."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.call import ToolCall
from penstock.core.errors import Cancel, OutOfResources
from penstock.core.events.events import (
    CallRequested,
    CancelRequested,
    Entry,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import CallId, MessageId
from penstock.core.messages import Usage
from penstock.core.task import Missing, MissingKind, QuestionStatus, TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_body import (
    MissingParts,
    Need,
    cancelled,
    crashed,
    failed,
    ignore_end,
    internal_error,
    never_available,
    nothing_missing,
)
from penstock.engine.task_state import Brief, TaskState
from penstock.store.logs.log import Lease
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.activations import ActiveLog, finish, no_end
from tests.kit.session_events import ANN, LOG, ONE, TWO, held_log, path_of, question


async def test_a_task_requires_nothing_and_its_end_is_ignored() -> None:
    held = await held_log()
    task = held.state.next_task()
    assert task
    assert nothing_missing(held.state, task) is None
    assert not never_available(LOG, MissingParts((Need(Missing(MissingKind.AGENT, "clerk")),)))
    before = held.state.tick
    await ignore_end(held, task)
    assert held.state.tick == before


async def test_each_task_of_an_activation_is_checked_for_missing_parts() -> None:
    missing = MissingParts((Need(Missing(MissingKind.TOOL, "saw")),))
    active = ActiveLog(finish, lacks=lambda _, task: missing if task.task_id == TWO else None)
    await active.say()
    await active.say(TWO, is_new=False)
    await active.run()
    assert active.worked == [ONE]
    assert active.activations.is_blocked(LOG)
    (blocked,) = [each for each in await active.events() if isinstance(each, TaskBlocked)]
    assert blocked.blocked_on == missing.missing


async def test_a_task_that_its_body_cannot_close_has_no_open_question_left() -> None:
    async def asks(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        held.add(QuestionAsked(question=question("a")), task.task_id, path_of("a"))
        raise ZeroDivisionError

    active = ActiveLog(asks, end=no_end)
    await active.say()
    await active.run()
    *_, closed, last = await active.events()
    assert isinstance(closed, QuestionAnswered)
    assert (closed.question_id, closed.status) == ("q_a", QuestionStatus.CANCELLED)
    assert isinstance(last, TaskEnded)


class Scarce(MemoryLog):
    """Has no thread to read a log with, once."""

    lacks = True

    async def read(self, *given: Any, **more: Any) -> Sequence[Record]:
        if self.lacks:
            self.lacks = False
            raise RuntimeError("can't start new thread")
        return await super().read(*given, **more)


async def test_a_lack_of_threads_releases_the_log_and_does_not_count_as_a_crash() -> None:
    active = ActiveLog(finish, log=Scarce(FakeClock()))
    await active.say()
    with pytest.raises(OutOfResources):
        await active.run()
    await active.run()
    assert active.worked == [ONE]
    assert not any(isinstance(each, TaskResumed) for each in await active.events())


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancel_ends_the_work_and_hits_nothing_that_follows(swallows: bool) -> None:
    here = asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        if task.task_id == TWO:
            await settle()
            return await finish(held, task)
        held.add(TaskStarted(), task.task_id)
        here.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise

    active = ActiveLog(work)
    await active.say()
    await active.say(TWO, is_new=False)
    running = asyncio.ensure_future(active.run())
    await here.wait()
    await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
    await active.activations.refresh(LOG)
    await active.activations.refresh(LOG)
    await running
    ends = [each.status for each in await active.events() if isinstance(each, TaskEnded)]
    assert ends == [TaskStatus.CANCELLED, TaskStatus.SUCCEEDED]


async def test_a_cancel_that_the_work_finds_itself() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
        await held.refresh()
        raise Cancel

    active = ActiveLog(work)
    await active.say()
    await active.run()
    assert [type(each) for each in await active.events()] == [
        CancelRequested,
        TaskStarted,
        TaskEnded,
    ]


async def test_a_task_that_ended_before_its_cancel_was_seen_has_succeeded() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        await active.log.send(LOG, [Entry(CancelRequested(), ONE)])
        await finish(held, task)
        await held.commit()

    active = ActiveLog(work)
    await active.say()
    await active.run()
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.status is TaskStatus.SUCCEEDED


async def test_a_stop_of_the_process_releases_the_log_with_work_left() -> None:
    here = asyncio.Event()

    async def work(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        here.set()
        await asyncio.Event().wait()

    active = ActiveLog(work)
    await active.say()
    running = asyncio.ensure_future(active.run())
    await here.wait()
    await active.activations.close()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [each.log_id for each in await active.log.pending(limit=9)] == [LOG]
    assert await active.is_free()


async def test_work_that_raises_cancelled_error_itself_fails_its_task_once() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        raise asyncio.CancelledError

    active = ActiveLog(work)
    await active.say()
    await active.run()
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.error
    assert (only.status, only.error.code) == (TaskStatus.FAILED, "INTERNAL_ERROR")
    assert await active.log.pending(limit=9) == []


async def test_work_that_cancels_itself_counts_as_a_crash_and_fails_in_the_end() -> None:
    async def work(held: HeldLog, task: TaskState) -> None:
        here = asyncio.current_task()
        assert here
        here.cancel()
        await asyncio.Event().wait()

    active = ActiveLog(work, recoveries=3)
    await active.say()
    for _ in range(6):
        await asyncio.gather(asyncio.ensure_future(active.run()), return_exceptions=True)
        active.clock.advance(4)
    (only,) = [each for each in await active.events() if isinstance(each, TaskEnded)]
    assert only.status is TaskStatus.FAILED
    assert len(active.worked) == 3


LEASE = Lease(log_id=LOG, epoch=12, head=3, crashed=True, recoveries=11, alone=5)
MESSAGE = MessageReceived(message_id=MessageId("msg_1"), content="Go")
ASKED = ReplyReceived(
    iteration=1,
    base=0,
    text="",
    message_id=MessageId("msg_2"),
    calls=(ToolCall(CallId("tc_1"), "look", {}), ToolCall(CallId("tc_2"), "dig", {})),
)
PLACES: dict[str, tuple[Brief, str]] = {
    "a message": (
        MESSAGE,
        "while its model was asked or in a call that it had just asked for",
    ),
    "a call": (CallRequested(tool_id="dig", input={}, profile_id=ANN), "in the call of 'dig'"),
    "a flow": (FlowRequested(command="trip", profile_id=ANN), "in the flow 'trip'"),
}


@pytest.mark.parametrize(("brief", "place"), PLACES.values(), ids=list(PLACES))
def test_the_error_of_repeated_crashes_has_their_number_place_and_advice(
    brief: Brief, place: str
) -> None:
    error = crashed(TaskState(ONE, brief), LEASE)
    assert (error.code, error.retryable, error.continuable) == ("INTERNAL_ERROR", False, False)
    assert error.message == (
        f"the process died 11 times in a row at the same place of this task, {place}, 5 times with "
        "no other suspect at work. Look for the reason in the output of the process, then send the "
        "message again"
    )


def test_the_calls_without_an_outcome_are_named() -> None:
    task = TaskState(ONE, MESSAGE, started=TaskStarted())
    task.add_reply(ASKED, None, (), 0)
    assert ", in 'dig' or 'look', " in crashed(task, LEASE).message


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELLED])
def test_the_end_of_a_task_has_its_usage(status: TaskStatus) -> None:
    task = TaskState(ONE, MESSAGE)
    task.add_reply(replace(ASKED, usage=Usage(input_tokens=7, output_tokens=2)), None, (), 0)
    ended = cancelled(task) if status is TaskStatus.CANCELLED else failed(task, internal_error("x"))
    assert (ended.status, ended.iterations, ended.usage) == (status, 1, task.spent.usage())
    assert (ended.usage.input_tokens, ended.usage.model_calls) == (7, 1)
    assert ended.error
    assert ended.error.code == ("CANCELLED" if status is TaskStatus.CANCELLED else "INTERNAL_ERROR")
