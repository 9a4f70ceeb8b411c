"""The messages of a run. The tests of the server cover every row of the table of frames."""

import pytest

from penstock.app.run_feed import RunFeed, run_result
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import ErrorDetail
from penstock.core.events.events import Event, Record, TaskEnded
from penstock.core.events.flow_events import (
    AgentStarted,
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import TaskStatus

RUN = TaskId("task_1")
FLOW = "name: demo\ndescription: d\nsteps:\n  - {id: build, command: make}\n"


def test_a_run_that_ended_before_its_flow_started_has_a_result() -> None:
    error = ErrorDetail(code="CANCELLED", message="nobody wants it")
    made = run_result(RUN, "demo", TaskEnded(status=TaskStatus.CANCELLED, error=error))
    assert (made["status"], made["reason"], made["results"]) == ("aborted", "nobody wants it", {})


def happened(event: Event, seq: int, path: str = RUN) -> Record:
    return Record(LogId(RUN), seq, Moment(0), RUN, CallPath(path), event)


def test_a_message_names_its_run_and_its_place_in_the_log() -> None:
    """Events carry `runId`, `seq`, `at`, and from steps `stepId`, `visit`, `path`."""
    story = RunFeed(RUN, "demo")
    first = FlowStarted(file="f.yaml", texts={"f.yaml": FLOW}, task="t")
    assert story.messages_of(happened(first, 2)) == []
    [message] = story.messages_of(
        happened(StepStarted(step_id="build", visit=1), 3, "task_1/build/1")
    )
    assert message == {
        "type": "flow_agent_started",
        "runId": RUN,
        "seq": 3,
        "at": "1970-01-01T00:00:00.000Z",
        "stepId": "build",
        "visit": 1,
        "path": "build/1",
        "agentName": "build",
        "nodeKind": "shell",
    }
    assert not story.is_over
    story.messages_of(happened(TaskEnded(status=TaskStatus.SUCCEEDED), 4))
    assert story.is_over


def test_the_end_of_a_step_has_its_usage() -> None:
    """`flow_agent_complete`: `agentName, nodeKind, result, duration, usage`."""
    story = RunFeed(RUN, "demo")
    story.messages_of(happened(FlowStarted(file="f.yaml", texts={"f.yaml": FLOW}, task="t"), 1))
    frame = "task_1/build/1"
    story.messages_of(happened(StepStarted(step_id="build", visit=1), 2, frame))
    waits = {"stepId": "build", "waits": True, "activeMs": 1}
    assert (
        story.messages_of(happened(FlowNotified(kind="flow_step_waits", body=waits), 3, frame))
        == []
    )
    end = StepSettled(
        step_id="build",
        visit=1,
        outcome=Outcome.SUCCESS,
        result=StepResult(),
        duration_ms=70,
        usage=Usage(input_tokens=5, output_tokens=2),
    )
    [message] = story.messages_of(happened(end, 4, frame))
    assert message["duration"] == 70
    assert message["usage"] == {"inputTokens": 5, "outputTokens": 2}


def first(step: str) -> RunFeed:
    """Return the feed of a run with one step."""
    story = RunFeed(RUN, "demo")
    text = f"name: demo\ndescription: d\nsteps:\n  - {{{step}}}\n"
    story.messages_of(happened(FlowStarted(file="f.yaml", texts={"f.yaml": text}, task="t"), 1))
    return story


@pytest.mark.parametrize(
    ("step", "target"),
    [
        ('id: s, path: "parts/*.yaml"', "parts/*.yaml"),
        ("id: s, type: code, target: lib/sum.ts", "lib/sum.ts"),
        ("id: s, type: code", None),
        ("id: s, command: make", None),
    ],
)
def test_a_visit_names_the_path_that_it_writes(step: str, target: str | None) -> None:
    """`flow_agent_started`: `agentName, nodeKind, resolvedModel?, target?`."""
    started = StepStarted(step_id="s", visit=1)
    [message] = first(step).messages_of(happened(started, 2, "task_1/s/1"))
    assert message.get("target") == target


def test_a_round_is_reported_before_the_judge_without_announcing_it() -> None:
    story = first("id: s, agent: a, task: t, loop_target: s, exit_target: s, max_iterations: 2")
    frame = "task_1/s/1"
    assert story.messages_of(happened(StepStarted(step_id="s", visit=1, agent="a"), 2, frame)) == []
    notice = FlowNotified(kind="flow_loop_iteration", body={"stepId": "s", "iteration": 1})
    began = AgentStarted(agent="a", message="m", system="s", model="m1")
    frames = [
        *story.messages_of(happened(notice, 3, frame)),
        *story.messages_of(happened(began, 4, frame)),
    ]
    assert [each["type"] for each in frames] == ["flow_loop_iteration", "flow_agent_started"]
    assert frames[1]["resolvedModel"] == "m1"


SUB = (
    "name: sub\ndescription: d\nsteps:\n  - {id: pick, command: make}\n  - {id: rest, command: x}\n"
)


@pytest.mark.parametrize(("frame", "place"), [("s/1", "s/1"), ("s/1/2", "s/1/2")])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("flow_step_skipped", {"stepId": "rest", "reason": "not_on_branch"}),
        ("flow_jump", {"from": "pick", "to": ["rest"], "why": "branch"}),
    ],
)
def test_a_notice_of_a_nested_flow_names_its_own_steps(
    frame: str, place: str, kind: str, body: dict[str, object]
) -> None:
    """A nested flow runs in the frame of its step, or below that frame for a glob."""
    feed = first('id: s, path: "parts/*.yaml"')
    feed.messages_of(happened(StepStarted(step_id="s", visit=1), 2, "task_1/s/1"))
    inside = FlowStarted(file="s.yaml", texts={"s.yaml": SUB}, task="t")
    feed.messages_of(happened(inside, 3, f"task_1/{frame}"))
    [message] = feed.messages_of(happened(FlowNotified(kind=kind, body=body), 4, f"task_1/{frame}"))
    always = {"type": kind, "runId": RUN, "seq": 4, "at": message["at"]}
    assert message == {**always, **body, "path": place}


@pytest.mark.parametrize("frame", ["s/1", "s/1/2"])
def test_other_events_of_a_nested_flow_name_their_step(frame: str) -> None:
    feed = first('id: s, path: "parts/*.yaml"')
    feed.messages_of(happened(StepStarted(step_id="s", visit=1), 2, "task_1/s/1"))
    feed.messages_of(
        happened(FlowStarted(file="s.yaml", texts={"s.yaml": SUB}, task="t"), 3, f"task_1/{frame}")
    )
    visit = f"task_1/{frame}/pick/1"
    warned = FlowNotified(kind="flow_warning", body={"message": "m", "stepId": "pick"})
    around = FlowNotified(kind="flow_loop_iteration", body={"stepId": "pick", "iteration": 1})
    settled = StepSettled(
        step_id="pick", visit=1, outcome=Outcome.SOFT, result=StepResult(), source="x"
    )
    aborted = FlowNotified(kind="flow_step_aborted", body={"stepId": "pick"})
    events: list[tuple[Event, str]] = [
        (StepStarted(step_id="pick", visit=1), visit),
        (warned, visit),
        (around, visit),
        (settled, visit),
        (aborted, f"task_1/{frame}"),
    ]
    messages = [
        each
        for number, (event, path) in enumerate(events, 4)
        for each in feed.messages_of(happened(event, number, path))
    ]
    assert [each["type"] for each in messages] == [
        "flow_agent_started",
        "flow_warning",
        "flow_loop_iteration",
        "flow_agent_error",
        "flow_agent_complete",
        "flow_agent_complete",
    ]
    assert {each["stepId"] for each in messages} == {"pick"}
    assert {each["path"] for each in messages} == {f"{frame}/pick/1"}
