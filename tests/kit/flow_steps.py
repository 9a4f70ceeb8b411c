"""Events of the steps of a run, as records that are a second apart."""

from typing import Any

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Event, QuestionAnswered, QuestionAsked, Record
from penstock.core.events.events import ReplyReceived as Reply
from penstock.core.events.flow_events import (
    FlowNotified,
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import CallId, LogId, MessageId, QuestionId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import Question, QuestionKind, QuestionStatus
from penstock.engine.bus import Delta, DeltaKind, LiveReply

RUN = TaskId("task_1")
LOOK = "task_1/look/1"
Happened = tuple[Event, str]


def records(*happened: Happened) -> list[Record]:
    """Return events as records, a second apart."""
    return [
        Record(LogId(RUN), number + 1, Moment(1000 * number), RUN, CallPath(path), event)
        for number, (event, path) in enumerate(happened)
    ]


def starts(step_id: str = "look", agent: str = "scout", visit: int = 1) -> Happened:
    """A visit starts."""
    started = StepStarted(step_id=step_id, visit=visit, agent=agent)
    return started, f"{RUN}/{step_id}/{visit}"


def says(text: str = "", *tools: str, path: str = LOOK) -> Happened:
    """An agent writes text and requests calls of tools."""
    calls = tuple(ToolCall(CallId(f"tc_{name}"), name, {"path": "a.md"}) for name in tools)
    usage = Usage(input_tokens=3, output_tokens=2)
    reply = Reply(
        iteration=1, base=0, text=text, message_id=MessageId(""), usage=usage, calls=calls
    )
    return reply, path


def called(tool_id: str, envelope: Envelope | None = None) -> Happened:
    """A call is settled."""
    outcome = envelope or Envelope.success(1)
    return CallSettled(tool_id=tool_id, envelope=outcome), f"{LOOK}/1/{tool_id}#1"


def ends(step_id: str = "look", outcome: Outcome = Outcome.SUCCESS, **more: Any) -> Happened:
    """A visit ends."""
    visit = more.pop("visit", 1)
    result = more.pop("result", StepResult(summary="seen\nall"))
    event = StepSettled(step_id=step_id, visit=visit, outcome=outcome, result=result, **more)
    return event, f"{RUN}/{step_id}/{visit}"


def tells(kind: str, **body: Any) -> Happened:
    """The flow publishes a notice."""
    return FlowNotified(kind=kind, body=body), str(RUN)


def asks(number: int = 1, path: str = LOOK) -> Happened:
    """A question is asked."""
    question = Question(
        question_id=QuestionId(f"q_{number}"),
        kind=QuestionKind.FORK,
        text="Go on?",
        path=CallPath(path),
    )
    return QuestionAsked(question=question), path


def answers(number: int = 1) -> Happened:
    """A question is answered."""
    event = QuestionAnswered(
        question_id=QuestionId(f"q_{number}"), status=QuestionStatus.ANSWERED, answer={}
    )
    return event, ""


def piece(text: str, kind: DeltaKind = DeltaKind.TEXT, path: str = LOOK) -> Delta:
    """Return a piece of a reply."""
    reply = LiveReply(LogId(RUN), RUN, 1, 1, path=CallPath(path))
    return Delta(reply, kind, text, len(text))
