"""A task that ends early: every open call gets one outcome."""

import json

import pytest

from penstock.chat.task_closer import TaskCloser
from penstock.core.call import CallPath
from penstock.core.envelope import ErrorDetail
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Event,
    QuestionAnswered,
    QuestionAsked,
    TaskEnded,
    TaskStarted,
)
from penstock.core.messages import ToolMessage
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Occurrences
from penstock.engine.task_body import cancelled, failed
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.session_events import KEY, LOG, ONE, held_log, outcome, question, reply

FAILED = ErrorDetail(code="MODEL_UNAVAILABLE", message="no model", continuable=False)


def call_path(number: int = 1) -> CallPath:
    """Return the path of the n-th equal call of the first reply."""
    seen = Occurrences(f"{ONE}/1", KEY)
    paths = [seen.path("tool", {}) for _ in range(number)]
    return paths[-1]


async def close(held: HeldLog, log: MemoryLog, *, fails: bool = False) -> list[Event]:
    """Close the task; return the written events."""
    task = held.state.current or next(iter(held.state.queue.values()))
    before = held.state.seq
    TaskCloser(KEY).end(held, task, failed(task, FAILED) if fails else cancelled(task))
    await held.commit()
    return [record.event for record in await log.read(LOG, after=before)]


def codes(events: list[Event]) -> list[str]:
    errors = [each.envelope.error for each in events if isinstance(each, CallSettled)]
    return [error.code for error in errors if error]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_started_write_is_interrupted_and_other_calls_are_cancelled(fails: bool) -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a", "b", "c"), log=log)
    started = CallStarted(tool_id="tool", idempotency_key="k")
    held.add(started, ONE, call_path(2))
    written = await close(held, log, fails=fails)
    assert codes(written[1:]) == ["CANCELLED", "INTERRUPTED", "CANCELLED"]
    settled = [each for each in written if isinstance(each, CallSettled)]
    assert [each.ran for each in settled] == [False, True, False]
    how = "failed" if fails else "was cancelled"
    assert [each.envelope.error.message for each in settled[:2] if each.envelope.error] == [
        f"the task {how}; this was not done",
        f"the task {how} while this ran: it may or may not have happened",
    ]
    assert isinstance(written[-1], TaskEnded)
    assert written[-1].status is (TaskStatus.FAILED if fails else TaskStatus.CANCELLED)
    assert written[-1].usage.tool_calls == 1


async def test_every_call_has_a_tool_message_afterwards() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a", "b"), log=log)
    await close(held, log)
    results = [each for each in held.state.messages.entries if isinstance(each, ToolMessage)]
    assert [each.call_id for each in results] == ["a", "b"]
    assert json.loads(results[0].content)["code"] == "CANCELLED"


async def test_a_settled_call_is_not_settled_again() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a", "b"), log=log)
    held.add(outcome("a"), ONE, call_path())
    written = await close(held, log)
    assert codes(written) == ["CANCELLED"]


async def test_a_started_nested_write_is_settled_too() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a"), log=log)
    inner = CallPath(f"{call_path()}/mail#12")
    held.add(CallStarted(tool_id="mail", idempotency_key="k"), ONE, inner)
    written = [each for each in await close(held, log) if isinstance(each, CallSettled)]
    assert [(each.tool_id, each.call_id) for each in written] == [("tool", "a"), ("mail", None)]


async def test_open_questions_are_closed_before_their_calls() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a"), log=log)
    held.add(QuestionAsked(question=question("a")), ONE)
    written = await close(held, log)
    closed, settled, _ = written[1:]
    assert isinstance(closed, QuestionAnswered)
    assert (closed.status, closed.by) == (QuestionStatus.CANCELLED, None)
    assert isinstance(settled, CallSettled)


async def test_a_queued_task_starts_and_ends() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(log=log)
    written = await close(held, log)
    assert [type(each) for each in written] == [TaskStarted, TaskEnded]
