"""The events of five conversations, as the log and the bus report them."""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import (
    CallSettled,
    CallStarted,
    Event,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    SessionOpened,
    TaskEnded,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import CallId, LogId, MessageId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.messages import Usage
from penstock.core.task import Question, QuestionKind, QuestionStatus, TaskStatus
from penstock.engine.bus import Delta, DeltaKind, Live, LiveReply, ReplyStarted
from penstock.server.streams.frame import Frame, Position
from penstock.server.streams.wire import ChatFrames, StreamView

START = Position(0)


class Story:
    """Tells what happens in one task, numbered as the log numbers it."""

    def __init__(self, number: int, user: str, assistant: str) -> None:
        self.log_id = LogId(f"conv_0{number}")
        self.task_id = TaskId(f"task_0{number}")
        self.items: list[Live] = []
        self.seq = 0
        self._assistant = MessageId(assistant)
        self._reply: LiveReply | None = None
        self.add(SessionOpened(profile_id=ProfileId("local"), agent="assistant", title="t"))
        self.add(MessageReceived(message_id=MessageId(user), content="?"))
        self.add(TaskStarted(model="offline"))

    @property
    def stored(self) -> list[Record]:
        """What of it is in the log."""
        return [each for each in self.items if isinstance(each, Record)]

    def add(self, event: Event) -> None:
        """Append an event."""
        self.seq += 1
        record = Record(self.log_id, self.seq, Moment(0), self.task_id, None, event)
        self.items.append(record)

    def begin(self, iteration: int, *, closing: bool = False) -> None:
        """Ask the model."""
        self._reply = LiveReply(self.log_id, self.task_id, self.seq, iteration, closing)
        self.items.append(ReplyStarted(self._reply))

    def say(self, *pieces: str, kind: DeltaKind = DeltaKind.TEXT) -> None:
        """Pass pieces of the reply on."""
        reply = self._reply
        assert reply is not None
        for text in pieces:
            reply.units += len(text)
            reply.pieces.append((kind, text))
            self.items.append(Delta(reply, kind, text, reply.units))

    def whole(self, *calls: ToolCall) -> None:
        """Append the reply."""
        reply = self._reply
        assert reply is not None
        message = {
            kind: "".join(text for each, text in reply.pieces if each is kind) for kind in DeltaKind
        }
        event = ReplyReceived(
            iteration=reply.iteration,
            base=reply.base,
            text=message[DeltaKind.TEXT],
            reasoning=message[DeltaKind.REASONING],
            message_id=self._assistant,
            calls=calls,
            closing=reply.closing,
        )
        self.add(event)

    def ask(self, iteration: int, *calls: ToolCall) -> None:
        """Let the model request calls without text."""
        self.begin(iteration)
        self.whole(*calls)

    def settle(self, call: ToolCall, output: Any, preview: str) -> None:
        """Append a success."""
        envelope = Envelope.success(output)
        self.add(
            CallSettled(tool_id=call.name, envelope=envelope, call_id=call.call_id, preview=preview)
        )

    def refuse(self, call: ToolCall, error: ErrorDetail, detector: str | None = None) -> None:
        """Append a failure."""
        envelope = Envelope(Status.FAILED, None, error)
        self.add(
            CallSettled(
                tool_id=call.name, envelope=envelope, call_id=call.call_id, detector=detector
            )
        )

    def end(self, content: str, iterations: int, usage: Usage, reason: str = "stop") -> None:
        """Append the end of a task that succeeded."""
        event = TaskEnded(
            status=TaskStatus.SUCCEEDED,
            message_id=self._assistant,
            content=content,
            finish_reason=reason,
            iterations=iterations,
            usage=usage,
        )
        self.add(event)


def tool_call(number: int, name: str, **arguments: Any) -> ToolCall:
    """Return a call as a model asks for it."""
    return ToolCall(CallId(f"tc_{number}"), name, arguments)


def spent(read: int, written: int, models: int, tools: int) -> Usage:
    """Return a usage."""
    return Usage(input_tokens=read, output_tokens=written, model_calls=models, tool_calls=tools)


def no_tools() -> Story:
    """Answer at once."""
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Hello", ", I am here.")
    story.whole()
    story.end("Hello, I am here.", 1, spent(38, 6, 1, 0))
    return story


def two_parallel_tools() -> Story:
    """Call two tools, of which the second settles first."""
    url = "https://example.com/react-guide"
    story = Story(2, "msg_03", "msg_04")
    browse = tool_call(1, "browse_url", url=url)
    find = tool_call(2, "search_knowledge", query="React")
    story.ask(1, browse, find)
    story.settle(find, {"results": []}, "Found 0 results")
    page = {"url": url, "finalUrl": url, "status": 200, "contentType": "text/html"}
    page |= {"title": "Guide", "content": "Hooks let you …"}
    story.settle(browse, page, "Guide (15 characters)")
    story.begin(2)
    story.say("The guide covers hooks.")
    story.whole()
    story.end("The guide covers hooks.", 2, spent(611, 47, 2, 2))
    return story


def a_failing_tool() -> Story:
    """Continue after an error."""
    story = Story(3, "msg_05", "msg_06")
    browse = tool_call(3, "browse_url", url="http://169.254.169.254/latest")
    story.ask(1, browse)
    error = ErrorDetail(
        code="EGRESS_DENIED",
        message="169.254.169.254 is not a public address; it was not contacted.",
        suggestion="Use a public http or https URL.",
    )
    story.refuse(browse, error)
    story.begin(2)
    story.say("That address is not public, so I cannot open it.")
    story.whole()
    story.end("That address is not public, so I cannot open it.", 2, spent(540, 39, 2, 1))
    return story


def loop_detected() -> Story:
    """Repeat a call until it is blocked twice, then close."""
    story = Story(4, "msg_07", "msg_08")
    error = ErrorDetail(
        code="LOOP_DETECTED",
        message="search_knowledge was called with these arguments 2 times already; "
        "it was not run again.",
        suggestion="Use the results you have, change the arguments, or answer now.",
    )
    for iteration in (1, 2, 3, 4):
        call = tool_call(iteration + 3, "search_knowledge", query="x")
        story.ask(iteration, call)
        if iteration <= 2:
            story.settle(call, {"results": []}, "Found 0 results")
        else:
            story.refuse(call, error, "identical")
    story.begin(4, closing=True)
    story.say("Nothing is known of x.")
    story.whole()
    story.end("Nothing is known of x.", 4, spent(1630, 84, 5, 2), "loop_detected")
    return story


def approval() -> Story:
    """Ask a person, and continue after the answer."""
    story = Story(5, "msg_09", "msg_10")
    mail = tool_call(8, "send_email", to="ann@example.com", subject="Summary", body="All is well.")
    story.ask(1, mail)
    question = Question(
        question_id=QuestionId("q_1"),
        kind=QuestionKind.APPROVAL,
        text='Send an e-mail to ann@example.com with the subject "Summary"?',
        path=CallPath("task_05/1/send_email#0123456789abcdef"),
        call_id=mail.call_id,
        tool_id=mail.name,
        input=mail.arguments,
        input_schema={"type": "object"},
    )
    story.add(QuestionAsked(question=question))
    story.add(TaskSuspended(questions=(QuestionId("q_1"),)))
    answered = QuestionAnswered(
        question_id=QuestionId("q_1"),
        status=QuestionStatus.ANSWERED,
        answer={"decision": "approve"},
        by=ProfileId("local"),
    )
    story.add(answered)
    story.add(CallStarted(tool_id=mail.name, idempotency_key="k1"))
    sent = {"messageId": "<k1@example.org>", "accepted": ["ann@example.com"], "rejected": []}
    story.settle(mail, sent, "E-mail sent to ann@example.com")
    story.begin(2)
    story.say("Done: Ann has the mail", ".")
    story.whole()
    story.end("Done: Ann has the mail.", 2, spent(702, 58, 2, 1))
    return story


def joined(frames: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the frames with neighbouring pieces of one reply as one."""
    whole: list[dict[str, Any]] = []
    for frame in frames:
        before = whole[-1] if whole else {}
        same = {key: each for key, each in frame.items() if key != "delta"}
        if "delta" in frame and same == {k: v for k, v in before.items() if k != "delta"}:
            whole[-1] = before | {"delta": before.get("delta", "") + frame["delta"]}
        else:
            whole.append(frame)
    return whole


NumberedFrame = tuple[Position, dict[str, Any]]


def frames_of(
    story: Story, items: list[Live] | None = None, last: Position = START
) -> list[NumberedFrame]:
    """Return the frames with an id of what happened, or of these items of it."""
    view = StreamView(
        session_id=SessionId(story.log_id),
        link_to=lambda stored: f"/api/blobs/{stored.blob_id}",
        max_iterations=8,
    )
    frames = ChatFrames(view, last).feed(story.items if items is None else items)
    return [(position, frame) for position, frame in frames if position is not None]


def kinds(frames: Sequence[Frame]) -> list[str]:
    """Return the id and type of each frame."""
    return [f"{position} {frame['type']}" for position, frame in frames]
