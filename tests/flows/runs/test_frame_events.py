"""What happened is found by its frame, as far as the task has come."""

from penstock.core.call import CallPath
from penstock.core.events.flow_events import (
    FlowEvent,
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import TaskId
from penstock.engine.task_state import TaskState
from penstock.flows.runs.frame_events import FrameEvents

RUN = CallPath("t")
TOLD = FlowNotified(kind="flow_started", body={})


def flow(file: str) -> FlowStarted:
    return FlowStarted(file=file, texts={}, task="")


def begins(step_id: str) -> StepStarted:
    return StepStarted(step_id=step_id, visit=1, agent="")


def ends(step_id: str) -> StepSettled:
    return StepSettled(step_id=step_id, visit=1, outcome=Outcome.SUCCESS, result=StepResult())


def task_of(*events: tuple[str | None, FlowEvent]) -> TaskState:
    task = TaskState(TaskId("t"), None)
    task.story += [(CallPath(path) if path else None, event) for path, event in events]
    return task


def test_a_run_has_its_own_steps_and_not_those_of_flows_inside() -> None:
    inside = ("t/ref/1/a/1", begins("a"))
    task = task_of(("t", flow("o")), (None, TOLD), ("t/ref/1", begins("ref")), inside)
    story = FrameEvents(task)
    assert story.steps(RUN) == (("t/ref/1", begins("ref")),)
    assert story.steps(CallPath("t/ref/1")) == (inside,)
    assert story.steps(CallPath("t/ref")) == ()


def test_a_step_has_its_one_flow_or_those_of_its_glob() -> None:
    one, first, second = ("t/a/1", flow("a")), ("t/b/1/1", flow("b")), ("t/b/1/2", flow("c"))
    story = FrameEvents(task_of(("t", flow("o")), one, first, second, ("t/a/2", flow("d"))))
    assert story.flows(CallPath("t/a/1")) == (one,)
    assert story.flows(CallPath("t/b/1")) == (first, second)
    assert story.flows(CallPath("t/b/1/2")) == (second,)
    assert story.flows(CallPath("t/c/1")) == ()


def test_later_events_are_found_too() -> None:
    task = task_of(("t/a/1", begins("a")))
    story = FrameEvents(task)
    assert len(story.steps(RUN)) == 1
    task.story.append((CallPath("t/a/1"), ends("a")))
    assert [event for _, event in story.steps(RUN)] == [begins("a"), ends("a")]


def test_visits_are_numbered_through_the_whole_task() -> None:
    inside = ("t/ref/1/a/1", begins("a"))
    task = task_of(("t/ref/1", begins("ref")), inside, ("t/b/1", begins("b")))
    frame_events = FrameEvents(task)
    frames = [CallPath(path) for path in ("t/ref/1", "t/ref/1/a/1", "t/b/1")]
    assert [frame_events.number(each) for each in frames] == [1, 2, 3]
    assert frame_events.starts == 3
