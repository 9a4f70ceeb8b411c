"""What a body does that leaves out the optional functions."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.errors import OutOfResources
from penstock.core.events.events import (
    QuestionAnswered,
    QuestionAsked,
    Record,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
)
from penstock.core.task import Missing, MissingKind, QuestionStatus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_body import MissingParts, Need, have_nothing, ignore_end, lack_nothing
from penstock.engine.task_state import TaskState
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.activations import ActiveLog, finish, no_end
from tests.kit.events import LOG, ONE, TWO, held_log, path_of, question


async def test_a_task_lacks_nothing_and_its_end_is_ignored() -> None:
    held = await held_log()
    task = held.state.next_task()
    assert task
    assert lack_nothing(held.state, task) is None
    assert not have_nothing(LOG, MissingParts((Need(Missing(MissingKind.AGENT, "clerk")),)))
    before = held.state.tick
    await ignore_end(held, task)
    assert held.state.tick == before


async def test_each_task_of_an_activation_is_checked_for_what_is_missing() -> None:
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


async def test_a_lack_of_threads_gives_the_log_back_and_is_no_crash() -> None:
    active = ActiveLog(finish, log=Scarce(FakeClock()))
    await active.say()
    with pytest.raises(OutOfResources):
        await active.run()
    await active.run()
    assert active.worked == [ONE]
    assert not any(isinstance(each, TaskResumed) for each in await active.events())
