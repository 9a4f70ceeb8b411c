"""The events that a program reads of a task: one table from events of the log to public events.

How: RunEvents is fed the events and live text of one task from its beginning, and returns public
events. It yields each piece of a reply once, whether it arrives live, again after a reader was cut,
or from the stored reply: a position counts the characters of a reply from its start. `table`
names the frames of the chat stream for each event (`server/streams/wire`), so that the two views
of one log can be compared; docs/events.md shows it.

Relies on: `Delta.units` and `ReplyReceived.order` count reasoning and text in the order in which
the model produced them. Shown by tests/chat/python/test_run_events.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from penstock.chat.python.public_events import (
    Answered,
    Asked,
    Ended,
    Event,
    HandedOff,
    Notice,
    OutputDelta,
    StepEnded,
    StepStarted,
    Text,
    Thinking,
    ToolCalled,
    ToolReturned,
)
from penstock.chat.python.recorded_task import ended_call
from penstock.chat.requests import public_question
from penstock.core.call import ToolCall as RequestedCall
from penstock.core.events import events as log
from penstock.core.events import flow_events as flow_log
from penstock.core.reply import Question, ReplyStatus
from penstock.core.task import Question as AskedQuestion
from penstock.core.task import TaskStatus, blocked
from penstock.engine.bus import Delta, DeltaKind, Live, OutputSoFar

RESTARTED = "REPLY_RESTARTED"
"""The code of the Notice that a reply starts again."""


Place = tuple[int, tuple[str, ...]]
"""The depth and the path of an event."""
TOP: Place = (0, ())


def place_of(path: str) -> Place:
    """Return the tools and steps on a path, without the task and the numbers between them."""
    _, _, below = path.partition("/")
    parts = (part.partition("#")[0] for part in below.split("/"))
    names = tuple(part for part in parts if part and not part.isdigit())
    return len(names), names


ENDS: Mapping[TaskStatus, ReplyStatus] = {
    TaskStatus.SUCCEEDED: "succeeded",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "cancelled",
}


class Row(Struct, frozen=True):
    """The events and frames that readers get for one kind of event in the log."""

    make: Callable[..., Iterable[Event]] | None = None
    """Returns its public events; None if it has none by itself."""
    public: tuple[type, ...] = ()
    """The kinds of public events that a Run yields for it."""
    frames: tuple[str, ...] = ()
    """The types of frames that the chat stream sends for it."""


class _Shown(Struct):
    """How much of a reply was yielded."""

    base: int
    units: int = 0


def _said(kind: DeltaKind, text: str, frame: str) -> Event:
    depth, path = place_of(frame) if frame else TOP
    return (Text if kind is DeltaKind.TEXT else Thinking)(text, depth, path)


class RunEvents:
    """Converts the events of one task to public events, each once."""

    __slots__ = ("_asked", "_called", "_replied", "_said", "_shown", "_steps")

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}
        """The reply that each agent gives; the key is the agent's frame."""
        self._called: dict[str, RequestedCall] = {}
        """Calls of models by id, until they settle."""
        self._asked: dict[str, Asked] = {}
        self._steps: dict[str, str] = {}
        self._replied = False
        self._said = ""
        """The text of the newest reply: beside an output, it is the answer."""
        """Whether the last reply of the main agent was an answer."""

    def feed(self, item: Live) -> Iterable[Event]:
        """Return the public events of an event of the log, or of live text."""
        if type(item) is Delta:
            reply = item.reply
            frame = reply.path or ""
            text = self._unseen(frame, reply.base, item.text, item.units)
            return (_said(item.kind, text, frame),) if text else ()
        if isinstance(item, log.Record) and (row := self.table.get(type(item.event))) and row.make:
            return row.make(self, item, item.event)
        if type(item) is OutputSoFar:
            return (OutputDelta(item.partial, *place_of(item.reply.path or "")),)
        return ()

    def asks(self, question: Question) -> Asked | None:
        """Return the event of a question that another log has asked; None if it was returned."""
        if question.id in self._asked:
            return None
        asked = self._asked[question.id] = Asked(question)
        return asked

    def _unseen(self, frame: str, base: int, text: str, end: int) -> str:
        """Return the part of a piece that was not yielded; `end` is its last character."""
        shown = self._shown.get(frame)
        if shown is None or shown.base < base:
            shown = self._shown[frame] = _Shown(base)
        unseen = end - shown.units if shown.base == base else 0
        if unseen <= 0:
            return ""
        shown.units = end
        return text if unseen >= len(text) else text[-unseen:]

    def _reply(self, record: log.Record, reply: log.ReplyReceived) -> Iterator[Event]:
        frame = record.path or ""
        whole = {DeltaKind.REASONING: reply.reasoning, DeltaKind.TEXT: reply.text}
        taken = dict.fromkeys(whole, 0)
        kind, end = DeltaKind.REASONING, 0
        for length in reply.order or (len(reply.reasoning), len(reply.text)):
            start = taken[kind]
            taken[kind] = start + length
            end += length
            if text := self._unseen(frame, reply.base, whole[kind][start : start + length], end):
                yield _said(kind, text, frame)
            kind = DeltaKind.TEXT if kind is DeltaKind.REASONING else DeltaKind.REASONING
        depth, path = place_of(frame) if frame else TOP
        for call in reply.calls:
            self._called[call.call_id] = call
            yield ToolCalled(call.call_id, call.name, call.arguments, depth, path)
        if not frame:
            self._said = reply.text.strip()
            self._replied = bool(self._said) and not reply.calls

    def _restarted(self, record: log.Record, event: log.ReplyRestarted) -> Iterator[Event]:
        depth, path = place_of(record.path or "")
        said = "the reply starts again: discard what it said so far"
        yield Notice(RESTARTED, said, "warning", None, depth, path)

    def _settled(self, record: log.Record, event: log.CallSettled) -> Iterator[Event]:
        depth, path = place_of((record.path or "").rpartition("/")[0])
        call = self._called.pop(event.call_id or "", None)
        call_id = event.call_id or record.path or ""
        if call is None:
            yield ToolCalled(call_id, event.tool_id, {}, depth, path)
        returned = ended_call(call_id, {} if call is None else call.arguments, event)
        yield ToolReturned(returned, depth, path)

    def _noted(self, record: log.Record, event: log.NoteEmitted) -> Iterator[Event]:
        message = event.message or event.title or ""
        depth, path = place_of(record.path or "")
        yield Notice(event.event_type, message, event.level, event.payload, depth, path)

    def _question(self, record: log.Record, event: log.QuestionAsked) -> Iterator[Event]:
        asked: AskedQuestion = event.question
        depth, path = place_of(asked.path.rpartition("/")[0])
        question = public_question(asked, record.task_id or "")
        self._asked[question.id] = Asked(question, depth, path)
        yield self._asked[question.id]

    def _answer(self, record: log.Record, event: log.QuestionAnswered) -> Iterator[Event]:
        asked = self._asked.get(event.question_id)
        if asked is not None:
            yield Answered(asked.question, event.status.value, asked.depth, asked.path)

    def _blocked(self, record: log.Record, event: log.TaskBlocked) -> Iterator[Event]:
        yield Notice("BLOCKED", blocked(event.blocked_on), "warning")

    def _began(self, record: log.Record, event: flow_log.StepStarted) -> Iterator[Event]:
        depth, path = place_of(record.path or "")
        yield StepStarted(event.step_id, max(depth - 1, 0), path[:-1])

    def _ended_step(self, record: log.Record, event: flow_log.StepSettled) -> Iterator[Event]:
        if not event.will_retry:
            depth, path = place_of(record.path or "")
            yield StepEnded(event.step_id, event.outcome.value, max(depth - 1, 0), path[:-1])

    def _ended(self, record: log.Record, event: log.TaskEnded) -> Iterator[Event]:
        is_said = self._replied or event.content in {"", self._said}
        if event.status is TaskStatus.SUCCEEDED and not is_said:
            yield Text(event.content)  # no model wrote it: a command, or the end of a budget
        if event.output is not None:
            yield OutputDelta(event.output.value)
        yield Ended(ENDS[event.status])

    def _handed_off(self, record: log.Record, event: flow_log.HandedOff) -> Iterator[Event]:
        yield HandedOff(event.agent)

    table: ClassVar[Mapping[type, Row]] = {
        log.TaskStarted: Row(frames=("message_start",)),
        flow_log.HandedOff: Row(_handed_off, (HandedOff,), ("handed_off",)),
        flow_log.HandedBack: Row(frames=("handed_back",)),
        log.ReplyReceived: Row(
            _reply,
            (Thinking, Text, OutputDelta, ToolCalled),
            ("thinking", "content_delta", "output_delta", "tool_call"),
        ),
        log.ReplyRestarted: Row(_restarted, (Notice,), ("content_reset",)),
        log.CallSettled: Row(_settled, (ToolReturned,), ("tool_result",)),
        log.NoteEmitted: Row(_noted, (Notice,), ("note",)),
        log.QuestionAsked: Row(_question, (Asked,), ("question",)),
        log.QuestionAnswered: Row(_answer, (Answered,), ("question_answered",)),
        log.TaskSuspended: Row(None, (Ended,), ("suspended",)),
        log.TaskBlocked: Row(_blocked, (Notice, Ended), ("suspended",)),
        log.TaskEnded: Row(
            _ended, (Text, OutputDelta, Ended), ("content_delta", "message_complete", "error")
        ),
        flow_log.StepStarted: Row(_began, (StepStarted,)),
        flow_log.StepSettled: Row(_ended_step, (StepEnded,)),
    }
    """For each kind of event in the log, what a Run yields and what the chat stream sends, for it
    or for the live pieces before it. Only the last OutputDelta follows from the log. A Run
    yields the Ended of a suspended task only if nothing else runs and its questions are open."""
