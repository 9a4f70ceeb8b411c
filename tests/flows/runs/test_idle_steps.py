"""Why a run pauses: people come first, then what this process lacks."""

import pytest

from penstock.core.errors import Blocked, Suspend
from penstock.core.ids import QuestionId, TaskId
from penstock.core.task import Missing, MissingKind
from penstock.engine.task_state import TaskState
from penstock.flows.runs.idle_steps import IdleSteps

AGENT, MODEL = Missing(MissingKind.AGENT, "writer"), Missing(MissingKind.MODEL, "small")
ASKED = Suspend(QuestionId("q_1"))


def test_a_step_that_waits_for_a_person_comes_before_one_that_is_blocked() -> None:
    pause = IdleSteps({"ask": ASKED}, {"write": (AGENT,)}).pause()
    assert isinstance(pause, Suspend)
    assert pause.awaited == ("q_1",)


def test_all_that_blocked_steps_lack_is_named_once() -> None:
    pause = IdleSteps(blocked={"write": (AGENT, MODEL), "judge": (MODEL,)}).pause()
    assert isinstance(pause, Blocked)
    assert pause.blocked_on == (AGENT, MODEL)


@pytest.mark.parametrize(("is_open", "taken"), [(True, []), (False, ["ask"])])
def test_a_step_is_idle_until_all_that_it_waits_for_has_come(
    *, is_open: bool, taken: list[str]
) -> None:
    task = TaskState(TaskId("task_1"), None)
    task.awaited = {TaskId("q_1"): None} if is_open else {}
    idle = IdleSteps({"ask": ASKED})
    assert idle.take_answered(task) == taken
    assert list(idle.waiting) == ([] if taken else ["ask"])
