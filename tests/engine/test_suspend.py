"""Asking: once per question, and not for ever."""

import pytest
from msgspec.structs import replace

from penstock.core.errors import PenstockError, Suspend
from penstock.core.events.events import ParkedCall, QuestionAsked, TaskStarted, TaskSuspended
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import QuestionId, TaskId
from penstock.engine.session_state import fold
from penstock.engine.suspend import ask, await_run, park, withdraw
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.session_events import (
    LOG,
    ONE,
    answered,
    held_log,
    ledger_of,
    path_of,
    question,
)


async def test_a_question_is_asked_once_however_often_its_call_is_entered() -> None:
    ledger = ledger_of(await held_log(TaskStarted()))
    for number in range(3):
        again = replace(question("a"), question_id=QuestionId(f"q_{number}"))
        with pytest.raises(Suspend):
            await ask(ledger, again)
    assert list(ledger.task.waits.waiting) == ["q_0"]
    assert ledger.held.state.seq == 4


async def test_asking_returns_the_answer() -> None:
    held = await held_log(TaskStarted(), QuestionAsked(question=question("a")))
    held.add(answered("a", by=None), ONE)
    assert await ask(ledger_of(held), question("a")) == answered("a", by=None)


async def test_a_task_is_parked_with_all_that_it_waits_for() -> None:
    held = await held_log(TaskStarted(), *[QuestionAsked(question=question(n)) for n in "ab"])
    task = held.state.current
    assert task
    park(held, task, arrivals_before=0)
    assert task.is_suspended
    assert held.state.next_task() is None


async def test_a_task_is_not_parked_when_an_answer_came_meanwhile() -> None:
    held = await held_log(TaskStarted(), *[QuestionAsked(question=question(n)) for n in "ab"])
    task = held.state.current
    assert task
    held.add(answered("b", by=None), ONE)
    park(held, task, arrivals_before=0)
    assert held.state.next_task() is task


async def test_the_time_of_a_call_is_kept_when_an_answer_came_before_the_task_was_parked() -> None:
    log = MemoryLog(FakeClock())
    asked = [QuestionAsked(question=question(n)) for n in "ab"]
    held = await held_log(TaskStarted(), *asked, log=log)
    ledger = ledger_of(held)
    ledger.park(path_of("a"), attempt=1, seconds=1.5)
    held.add(answered("b", by=None), ONE)
    park(held, ledger.task, arrivals_before=0)
    ledger.park(path_of("a"), attempt=1, seconds=0.25)
    park(held, ledger.task, arrivals_before=1)
    await held.commit()
    current = fold(LOG, await log.read(LOG)).current
    assert current
    assert current.waits.parked == {path_of("a"): ParkedCall(path_of("a"), 1750, entries=2)}
    assert [ledger.active_ms(path_of("a"), attempt) for attempt in (1, 2)] == [1750, 0]


async def test_a_call_that_waits_without_a_question_is_a_fault() -> None:
    held = await held_log(TaskStarted())
    assert held.state.current
    with pytest.raises(PenstockError, match="without a question"):
        park(held, held.state.current, arrivals_before=0)


RUN, OTHER = TaskId("task_8"), TaskId("task_9")


async def test_a_task_is_parked_with_the_runs_that_its_calls_wait_for() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), QuestionAsked(question=question("a")), log=log)
    ledger = ledger_of(held)
    for run_id in (OTHER, RUN):
        with pytest.raises(Suspend) as raised:
            await_run(ledger, run_id)
        assert raised.value.awaited == (run_id,)
    park(held, ledger.task, arrivals_before=0)
    await held.commit()
    assert (ledger.task.is_suspended, held.state.next_task()) == (True, None)
    *_, last = await log.read(LOG)
    assert last.event == TaskSuspended(questions=(QuestionId("q_a"),), runs=(RUN, OTHER))


async def test_a_task_is_not_parked_when_a_run_ended_meanwhile() -> None:
    held = await held_log(TaskStarted())
    ledger = ledger_of(held)
    for run_id in (RUN, OTHER):
        with pytest.raises(Suspend):
            await_run(ledger, run_id)
    held.add(RunEnded(run_id=OTHER), ONE)
    park(held, ledger.task, arrivals_before=0)
    assert held.state.next_task() is ledger.task
    park(held, ledger.task, arrivals_before=1)
    assert held.state.next_task() is None


async def test_a_run_whose_end_is_known_is_not_awaited() -> None:
    held = await held_log(TaskStarted(), RunEnded(run_id=RUN))
    ledger = ledger_of(held)
    await_run(ledger, RUN)
    assert (list(ledger.task.waits.awaited), ledger.task.waits.arrivals) == ([], 0)


@pytest.mark.parametrize(
    ("below", "open_after"),
    [
        ("", []),
        (path_of("a"), ["q_a", "q_ab", "q_b"]),
        (path_of("b"), ["q_a", "q_a/inner", "q_ab", "q_b"]),
        (path_of("c"), ["q_a", "q_a/inner", "q_ab", "q_b"]),
    ],
    ids=[
        "the whole task",
        "a call with a question inside",
        "a call that only asked itself",
        "a call without any",
    ],
)
async def test_withdrawing_closes_the_questions_of_the_task_or_of_one_call(
    below: str, open_after: list[str]
) -> None:
    names = ("a", "a/inner", "ab", "b")
    held = await held_log(TaskStarted(), *[QuestionAsked(question=question(n)) for n in names])
    task = held.state.current
    assert task
    withdraw(held, task, below=below)
    assert sorted(task.waits.waiting) == open_after
