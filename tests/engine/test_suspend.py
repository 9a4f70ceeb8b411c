"""Asking: once per question, and not for ever."""

from dataclasses import replace

import pytest

from penstock.core.errors import PenstockError
from penstock.core.events import ParkedCall, QuestionAsked, TaskStarted
from penstock.core.ids import QuestionId
from penstock.core.signals import Suspend
from penstock.engine.state import fold
from penstock.engine.suspend import ask, park
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.events import LOG, ONE, answered, held_log, ledger_of, path_of, question


async def test_a_question_is_asked_once_however_often_its_call_is_entered() -> None:
    ledger = ledger_of(await held_log(TaskStarted()))
    for number in range(3):
        again = replace(question("a"), question_id=QuestionId(f"q_{number}"))
        with pytest.raises(Suspend):
            await ask(ledger, again)
    assert list(ledger.task.waiting) == ["q_0"]
    assert ledger.held.state.seq == 4


async def test_the_answer_is_what_asking_returns() -> None:
    held = await held_log(TaskStarted(), QuestionAsked(question=question("a")))
    held.add(answered("a", by=None), ONE)
    assert await ask(ledger_of(held), question("a")) == answered("a", by=None)


async def test_a_task_is_parked_with_all_that_it_waits_for() -> None:
    held = await held_log(TaskStarted(), *[QuestionAsked(question=question(n)) for n in "ab"])
    task = held.state.current
    assert task
    park(held, task, answered=0)
    assert task.is_suspended
    assert held.state.next_task() is None


async def test_a_task_is_not_parked_when_an_answer_came_meanwhile() -> None:
    held = await held_log(TaskStarted(), *[QuestionAsked(question=question(n)) for n in "ab"])
    task = held.state.current
    assert task
    held.add(answered("b", by=None), ONE)
    park(held, task, answered=0)
    assert held.state.next_task() is task


async def test_the_time_of_a_call_is_kept_when_an_answer_came_before_the_task_was_parked() -> None:
    log = MemoryLog(FakeClock())
    asked = [QuestionAsked(question=question(n)) for n in "ab"]
    held = await held_log(TaskStarted(), *asked, log=log)
    ledger = ledger_of(held)
    ledger.park(path_of("a"), attempt=1, seconds=1.5)
    held.add(answered("b", by=None), ONE)
    park(held, ledger.task, answered=0)
    ledger.park(path_of("a"), attempt=1, seconds=0.25)
    park(held, ledger.task, answered=1)
    await held.commit()
    current = fold(LOG, await log.read(LOG)).current
    assert current
    assert current.parked == {path_of("a"): ParkedCall(path_of("a"), 1750, entries=2)}
    assert [ledger.active_ms(path_of("a"), attempt) for attempt in (1, 2)] == [1750, 0]


async def test_a_call_that_waits_for_nobody_is_a_fault() -> None:
    held = await held_log(TaskStarted())
    assert held.state.current
    with pytest.raises(PenstockError, match="without a question"):
        park(held, held.state.current, answered=0)
