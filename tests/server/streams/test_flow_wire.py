"""Events of a run as frames: every row of the table of frames, ids, and resuming."""

from typing import Any

import pytest

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import (
    CallSettled,
    Event,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.events.flow_events import (
    AgentStarted,
    FlowNotified,
    FlowStarted,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.core.ids import CallId, LogId, MessageId, ProfileId, QuestionId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import Option, Question, QuestionKind, QuestionStatus, TaskStatus
from penstock.engine.bus import Delta, DeltaKind, LiveReply
from penstock.server.streams.flow_wire import RunFrames
from penstock.server.streams.frame import Position

RUN = TaskId("task_1")
FLOW = """\
name: demo
description: d
steps:
  - {id: look, agent: scout}
  - {id: pick, question: "Go on?", branches: {Go: build, Stop: look}}
  - {id: build, command: make}
"""
LOOK, PICK, BUILD = "task_1/look/1", "task_1/pick/1", "task_1/build/1"
FILE = CallId("tc_1")
Happened = tuple[Event, str]


def started(step_id: str = "look", agent: str = "scout") -> StepStarted:
    return StepStarted(step_id=step_id, visit=1, agent=agent)


def began(agent: str = "scout", model: str | None = "m1") -> AgentStarted:
    return AgentStarted(agent=agent, message="Task: x", system="", model=model)


def reply(**more: Any) -> ReplyReceived:
    result: dict[str, Any] = {
        "iteration": 1,
        "base": 0,
        "text": "",
        "message_id": MessageId(""),
    } | more
    return ReplyReceived(usage=Usage(input_tokens=3, output_tokens=2), **result)


def settled(step_id: str = "look", outcome: Outcome = Outcome.SUCCESS, **more: Any) -> StepSettled:
    result = more.pop("result", StepResult(summary="seen"))
    return StepSettled(step_id=step_id, visit=1, outcome=outcome, result=result, **more)


def begin(*, autonomous: bool = False) -> list[Happened]:
    flow = FlowStarted(file="f.yaml", texts={"f.yaml": FLOW}, task="t", autonomous=autonomous)
    return [(flow, RUN)]


def items(happened: list[Happened]) -> list[Record]:
    return [
        Record(LogId(RUN), seq, Moment(1000 * seq), RUN, CallPath(path), event)
        for seq, (event, path) in enumerate(happened, 1)
    ]


def frames_of(happened: list[Happened], last: str = "0") -> list[tuple[str, dict[str, Any]]]:
    frames = RunFrames(RUN, "demo", Position.parse(last))
    return [(str(place), frame) for place, frame in frames.feed(items(happened))]


def shown(*happened: Happened, autonomous: bool = False) -> list[dict[str, Any]]:
    """Return the frames of events, without the members that every frame has."""
    always = ("runId", "seq", "at")
    return [
        {key: value for key, value in frame.items() if key not in always}
        for _, frame in frames_of([*begin(autonomous=autonomous), *happened])
    ]


CALL = {"agentName": "scout", "id": FILE, "toolName": "read", "input": {"path": "a"}}
AT_LOOK = {"stepId": "look", "visit": 1, "path": "look/1"}
AT_PICK = {"stepId": "pick", "visit": 1, "path": "pick/1"}
WORK: list[Happened] = [(started(), LOOK), (began(), LOOK)]
ASKS = Question(
    question_id=QuestionId("q_1"),
    kind=QuestionKind.FORK,
    text="Go on?",
    path=CallPath(PICK),
    options=(Option(label="Go", value="Go"),),
    form={"type": "select", "allowNotes": True, "stepId": "pick"},
)
CALLED = reply(calls=(ToolCall(FILE, "read", {"path": "a"}),))
ERROR = {"text": "boom", "source": "agent_finish_error"}
TOLD: list[tuple[FlowNotified, str, dict[str, Any]]] = [
    (FlowNotified(kind="flow_started", body={"flowName": "demo", "steps": []}), RUN, {}),
    (
        FlowNotified(kind="flow_jump", body={"from": "pick", "to": ["look"], "why": "branch"}),
        RUN,
        {},
    ),
    (FlowNotified(kind="flow_step_skipped", body={"stepId": "build", "reason": "x"}), RUN, {}),
    (FlowNotified(kind="flow_warning", body={"message": "odd", "reference": "r"}), LOOK, AT_LOOK),
    (FlowNotified(kind="flow_auto_decision", body={"forkId": "pick"}), PICK, AT_PICK),
    (
        FlowNotified(kind="flow_loop_iteration", body={"iteration": 2, "forced": True}),
        LOOK,
        AT_LOOK,
    ),
]


@pytest.mark.parametrize(("notice", "path", "more"), TOLD, ids=[each.kind for each, _, _ in TOLD])
def test_every_notice_is_a_frame(notice: FlowNotified, path: str, more: dict[str, Any]) -> None:
    """`flow_started`, `flow_jump`, `flow_step_skipped`, `flow_warning`."""
    *_, frame = shown(*WORK, (started("pick", ""), PICK), (notice, path))
    assert frame == {"type": notice.kind, **notice.body, **more}


def test_a_visit_of_an_agent_starts_with_its_model() -> None:
    """`flow_agent_started`: `agentName, nodeKind, resolvedModel?`."""
    fields = {"agentName": "scout", "nodeKind": "agent", "resolvedModel": "m1"}
    assert shown(*WORK) == [{"type": "flow_agent_started", **AT_LOOK, **fields}]


@pytest.mark.parametrize(
    ("step_id", "path", "name", "kind"),
    [("build", BUILD, "build", "shell"), ("pick", PICK, "fork", "fork")],
)
def test_a_visit_without_an_agent_has_the_name_of_its_step(
    step_id: str, path: str, name: str, kind: str
) -> None:
    """Agent name of shell and code: the step id; of a fork a person answers: `fork`."""
    (frame,) = shown((started(step_id, ""), path))
    assert (frame["agentName"], frame["nodeKind"], frame["stepId"]) == (name, kind, step_id)


def test_an_unanswered_fork_has_the_name_of_its_decider() -> None:
    happened: list[Happened] = [(started("pick", ""), PICK), (began("flow-decision"), PICK)]
    (frame,) = shown(*happened, autonomous=True)
    assert (frame["agentName"], frame["nodeKind"]) == ("flow-decision", "fork")


def test_reasoning_text_and_calls_of_an_agent_are_frames() -> None:
    """`flow_thinking_text`, `flow_assistant_text`, `flow_tool_call`: one event, three frames."""
    result = reply(text="I look.", reasoning="Hm.", calls=CALLED.calls)
    _, *frames = shown(*WORK, (result, LOOK))
    assert frames == [
        {"type": "flow_thinking_text", **AT_LOOK, "agentName": "scout", "text": "Hm."},
        {"type": "flow_assistant_text", **AT_LOOK, "agentName": "scout", "text": "I look."},
        {"type": "flow_tool_call", **AT_LOOK, **CALL},
    ]


@pytest.mark.parametrize(
    ("envelope", "context", "output", "is_error"),
    [
        (Envelope.success("a"), "a", "a", False),
        (Envelope(Status.FAILED, None, ErrorDetail(code="X", message="no")), None, "no", True),
    ],
)
def test_the_outcome_of_a_call_is_a_frame(
    envelope: Envelope, context: str | None, output: str, is_error: object
) -> None:
    """`flow_tool_result`: `agentName, id, toolName, input` and `output, isError`."""
    done = CallSettled(tool_id="read", envelope=envelope, call_id=FILE, context=context)
    inner = CallSettled(tool_id="other", envelope=envelope, call_id=None)
    below = f"{LOOK}/1/read#1"
    happened: list[Happened] = [(CALLED, LOOK), (inner, f"{below}/other#1"), (done, below)]
    *_, frame = shown(*WORK, *happened)
    more = {"output": output, "isError": is_error}
    assert frame == {"type": "flow_tool_result", **AT_LOOK, **CALL, **more}


def test_a_question_and_its_answer_are_frames() -> None:
    """`flow_question`: `questionId, kind, question, options?, …`; `flow_question_answered`."""
    answer = QuestionAnswered(
        question_id=ASKS.question_id,
        status=QuestionStatus.ANSWERED,
        answer={"value": "Go"},
        by=ProfileId("ann"),
    )
    began_, asked, answered = shown(
        (started("pick", ""), PICK), (QuestionAsked(question=ASKS), PICK), (answer, "")
    )
    assert began_["type"] == "flow_agent_started"
    assert asked == {
        "type": "flow_question",
        **AT_PICK,
        "questionId": "q_1",
        "kind": "fork",
        "question": "Go on?",
        "options": [{"label": "Go", "value": "Go"}],
        "form": {"type": "select", "allowNotes": True, "stepId": "pick"},
    }
    assert answered == {
        "type": "flow_question_answered",
        **AT_PICK,
        "questionId": "q_1",
        "status": "answered",
        "answer": {"value": "Go"},
        "by": "ann",
    }


def test_a_question_outside_of_steps_has_no_step() -> None:
    alone = Question(
        question_id=QuestionId("q_2"), kind=QuestionKind.TASK, text="What?", path=CallPath(RUN)
    )
    answer = QuestionAnswered(question_id=QuestionId("q_2"), status=QuestionStatus.CANCELLED)
    asked, answered = shown((QuestionAsked(question=alone), RUN), (answer, ""))
    assert (asked["kind"], "stepId" in asked) == ("task", False)
    assert (answered["status"], answered["by"], "stepId" in answered) == ("cancelled", None, False)


def test_a_settled_step_is_a_frame() -> None:
    """`flow_agent_complete`: `agentName, nodeKind, result, duration, usage`."""
    *_, frame = shown(*WORK, (CALLED, LOOK), (settled(), LOOK))
    assert frame.pop("result")["summary"] == "seen"
    assert frame == {
        "type": "flow_agent_complete",
        **AT_LOOK,
        "agentName": "scout",
        "nodeKind": "agent",
        "duration": 3000,
        "usage": {"inputTokens": 3, "outputTokens": 2},
    }


@pytest.mark.parametrize(
    ("outcome", "again", "types"),
    [
        (Outcome.SUCCESS, False, ["flow_agent_complete"]),
        (Outcome.SOFT, False, ["flow_agent_error", "flow_agent_complete"]),
        (Outcome.SOFT, True, ["flow_agent_error"]),
        (Outcome.HARD, False, ["flow_agent_error", "flow_agent_complete"]),
        (Outcome.ABORTED, False, ["flow_agent_complete"]),
    ],
)
def test_a_failure_comes_before_the_end(outcome: Outcome, again: object, types: list[str]) -> None:
    """`flow_agent_error`: `agentName, text, severity, source, willRetry`."""
    end = settled(outcome=outcome, will_retry=bool(again), **ERROR)
    _, *frames = shown(*WORK, (end, LOOK))
    assert [each["type"] for each in frames] == types
    if types[0] == "flow_agent_error":
        fields = {"agentName": "scout", "severity": outcome.value, "willRetry": again}
        assert frames[0] == {"type": "flow_agent_error", **AT_LOOK, **ERROR, **fields}


def test_an_interrupted_visit_is_complete_as_aborted() -> None:
    cut = FlowNotified(kind="flow_step_aborted", body={"stepId": "look"})
    *_, frame = shown(*WORK, (cut, RUN))
    assert (frame["type"], frame["result"]["status"]) == ("flow_agent_complete", "aborted")


def test_an_unknown_agent_has_a_start_before_its_end() -> None:
    frames = shown((started(), LOOK), (settled(outcome=Outcome.SOFT, **ERROR), LOOK))
    kinds = ["flow_agent_started", "flow_agent_error", "flow_agent_complete"]
    assert [each["type"] for each in frames] == kinds


def test_the_time_that_a_step_waits_for_people_does_not_count() -> None:
    answer = QuestionAnswered(question_id=ASKS.question_id, status=QuestionStatus.ANSWERED)
    happened: list[Happened] = [(started("pick", ""), PICK), (QuestionAsked(question=ASKS), PICK)]
    *_, frame = shown(*happened, (began(), LOOK), (answer, ""), (settled("pick"), PICK))
    assert frame["duration"] == 2000


def test_a_subagent_has_frames_under_its_own_name() -> None:
    inner = f"{LOOK}/1/subagent#1/agent"
    text_frame = (reply(text="I help."), inner)
    *_, frame = shown(*WORK, (began("aide"), inner), text_frame)
    assert (frame["agentName"], frame["text"], frame["stepId"]) == ("aide", "I help.", "look")


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (TaskEnded(status=TaskStatus.CANCELLED), "aborted"),
        (TaskEnded(status=TaskStatus.FAILED), "error"),
        (
            TaskEnded(
                status=TaskStatus.SUCCEEDED,
                envelope=Envelope.success({"runId": RUN, "status": "success"}),
            ),
            "success",
        ),
    ],
)
def test_the_last_frame_is_the_result(ended: TaskEnded, status: str) -> None:
    """`flow_complete`: the FlowResult; exactly once."""
    frames = RunFrames(RUN, "demo", Position(0))
    assert frames.is_at_work
    (_, frame) = frames.feed(items([*begin(), (ended, "")]))[-1]
    assert (frame["type"], frame["runId"], frame["status"]) == ("flow_complete", RUN, status)
    assert (frames.is_over, frames.task_id) == (True, RUN)


def test_every_frame_has_its_run_its_path_and_its_time() -> None:
    """Events carry `runId`, `seq`, `at`, and from steps `stepId`, `visit`, `path`."""
    ((place, frame),) = frames_of([*begin(), *WORK])
    assert (place, frame["runId"], frame["seq"]) == ("3", RUN, 3)
    assert frame["at"] == "1970-01-01T00:00:03.000Z"


def test_a_reader_that_resumes_gets_the_later_frames() -> None:
    result = reply(text="I look.", reasoning="Hm.", calls=CALLED.calls)
    happened = [*begin(), *WORK, (result, LOOK), (settled(), LOOK)]
    whole = frames_of(happened)
    assert [place for place, _ in whole] == ["3", "3.1000000001", "3.1000000002", "4", "5"]
    for number, (place, _) in enumerate(whole, 1):
        assert frames_of(happened, place) == whole[number:]


def test_live_text_is_shown_at_once() -> None:
    """`flow_text_delta`: `agentName, delta`; live only."""
    live = LiveReply(log_id=LogId(RUN), task_id=RUN, base=3, iteration=1, path=CallPath(LOOK))
    other = LiveReply(log_id=LogId(RUN), task_id=TaskId("task_2"), base=3, iteration=1)
    frames = RunFrames(RUN, "demo", Position(3))
    frames.feed(items([*begin(), *WORK]))
    deltas = [
        Delta(live, DeltaKind.TEXT, "I ", 2),
        Delta(live, DeltaKind.REASONING, "Hm", 4),
        Delta(other, DeltaKind.TEXT, "not this", 2),
        Delta(live, DeltaKind.TEXT, "look", 8),
    ]
    result = frames.feed(deltas)
    assert [(str(place), each["delta"]) for place, each in result] == [
        ("3.2", "I "),
        ("3.6", "look"),
    ]
    again = RunFrames(RUN, "demo", Position(3, 6))
    again.feed(items([*begin(), *WORK]))
    ((place, _),) = again.feed([Delta(live, DeltaKind.TEXT, "more", 12)])
    assert str(place) == "3.10"


def test_a_step_inside_another_flow_has_the_whole_path() -> None:
    inner = FlowStarted(file="f.yaml", texts={"f.yaml": FLOW}, task="t")
    ref = "task_1/sub/1"
    first: list[Happened] = [(started("sub", ""), ref), (inner, ref), (started(), f"{ref}/look/1")]
    *_, frame = shown(*first, (began(), f"{ref}/look/1"))
    assert (frame["path"], frame["nodeKind"]) == ("sub/1/look/1", "agent")


def test_the_output_of_a_blocked_agent_is_a_result() -> None:
    result = StepResult(status=StepStatus.BLOCKED, summary="no key")
    *_, frame = shown(*WORK, (settled(outcome=Outcome.SOFT, result=result), LOOK))
    assert frame["result"]["status"] == "blocked"


def test_events_of_other_tasks_are_no_frames() -> None:
    foreign = Record(LogId(RUN), 9, Moment(0), TaskId("task_2"), None, began())
    assert RunFrames(RUN, "demo", Position(0)).feed([foreign]) == []
