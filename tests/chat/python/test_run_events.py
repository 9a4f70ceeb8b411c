"""The table from events of the log to public events, beside the frames of the chat stream."""

from typing import Any, get_args

import pytest

from penstock.chat.python.public_events import (
    Ended,
    Event,
    HandedOff,
    Notice,
    OutputDelta,
    StepEnded,
    StepStarted,
    Text,
    Thinking,
)
from penstock.chat.python.run_events import RunEvents, place_of
from penstock.core.call import CallPath, Effect
from penstock.core.clock import Moment
from penstock.core.events.events import Record, ReplyReceived, ReplyRestarted, TaskEnded
from penstock.core.ids import LogId, MessageId, SessionId, TaskId
from penstock.core.task import TaskStatus
from penstock.engine.bus import Delta, DeltaKind, LiveReply, ReplyStarted
from penstock.models.scripted import ScriptedModel, call, say, think
from penstock.server.streams.frame import Position
from penstock.server.streams.wire import ChatFrames, StreamView
from penstock.testing.runtime import memory_runtime
from tests.kit.tools import Act, echo


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ()),
        ("task_1", ()),
        ("task_1/1/outer#ab12", ("outer",)),
        ("task_1/1/outer#ab12/inner#cd.2", ("outer", "inner")),
        ("task_1/plan/1", ("plan",)),
        ("task_1/plan/1/2/look#ab", ("plan", "look")),
    ],
)
def test_a_path_names_the_tools_and_steps_around_an_event(
    path: str, expected: tuple[str, ...]
) -> None:
    assert place_of(path) == (len(expected), expected)


def test_the_table_leads_to_every_kind_of_public_event() -> None:
    public = {kind for row in RunEvents.table.values() for kind in row.public}
    assert public == set(get_args(Event))


async def test_the_events_of_a_conversation_have_the_frames_of_the_table() -> None:
    """Each event of a real log has only public events and frames that its row names."""
    send = Act("send", echo, requires_approval=True, effect=Effect.WRITE)
    model = ScriptedModel([think("Hm.") + say("I go. ") + call("send", to="Ann"), say("Sent.")])
    async with memory_runtime(model=model, tools=[send]) as runtime:
        reply = await runtime.approve(await runtime.chat("Go"))
        records = await runtime.parts.storage.log.read(LogId(reply.session))
    view = StreamView(SessionId(reply.session), lambda file: file.blob_id, 8)
    frames, events = ChatFrames(view, Position(0)), RunEvents()
    seen = set[str]()
    for record in records:
        row = RunEvents.table.get(type(record.event))
        shown = {frame["type"] for _, frame in frames.feed([record])}
        public = {type(event) for event in events.feed(record)}
        assert shown <= set(row.frames if row else ()), record
        assert public <= set(row.public if row else ()), record
        seen |= shown
    assert {"message_start", "tool_call", "tool_result", "question", "message_complete"} <= seen


TASK, DONE = TaskId("task_1"), TaskStatus.SUCCEEDED


def delta(reply: LiveReply, text: str, kind: DeltaKind = DeltaKind.TEXT) -> Delta:
    reply.units += len(text)
    return Delta(reply, kind, text, reply.units)


def stored(base: int, text: str, *, seq: int, reasoning: str = "", path: Any = None) -> Record:
    reply = ReplyReceived(
        iteration=1, base=base, text=text, reasoning=reasoning, message_id=MessageId("msg_1")
    )
    return Record(LogId("conv_1"), seq, Moment(0), TASK, path, reply)


def fed(*items: Any) -> list[Event]:
    events = RunEvents()
    return [event for item in items for event in events.feed(item)]


def test_a_reply_is_yielded_once_however_it_arrives() -> None:
    reply = LiveReply(LogId("conv_1"), TASK, 3, 1)
    first = delta(reply, "Hm.", DeltaKind.REASONING)
    second = delta(reply, "One, ")
    third = delta(reply, "two.")
    whole = stored(3, "One, two.", reasoning="Hm.", seq=4)
    expected = [Thinking("Hm."), Text("One, "), Text("two.")]
    assert fed(first, second, third, whole) == expected
    assert fed(first, second, first, second, third, whole) == expected
    assert fed(first, second, whole) == expected
    assert fed(whole) == [Thinking("Hm."), Text("One, two.")]


LOG = LogId("conv_1")
AGAIN = stored(5, "Hello", seq=6)
RESTARTED = Record(LOG, 5, Moment(0), TASK, None, ReplyRestarted(iteration=1))
ENDED = Record(LOG, 9, Moment(0), TASK, None, TaskEnded(status=DONE, content="Hello"))
WHOLE = stored(2, "Hello", seq=3)
NESTED = stored(2, "no", seq=3, path=CallPath("a/b#c"))


def live(base: int, *pieces: str) -> list[Any]:
    """Return the start of a reply that streams."""
    reply = LiveReply(LOG, TASK, base, 1)
    return [ReplyStarted(reply), *(delta(reply, text) for text in pieces)]


@pytest.mark.parametrize(
    ("items", "pieces"),
    [
        ([WHOLE, ENDED], ["Hello"]),
        ([*live(2, "He", "l"), WHOLE, ENDED], ["He", "l", "lo"]),
        ([*live(2, "He", "l"), *live(2, "Hell"), WHOLE], ["He", "l", "l", "o"]),
        ([*live(2, "He", "l"), RESTARTED, *live(5, "He"), AGAIN], ["He", "l", "He", "llo"]),
        ([NESTED, WHOLE], ["Hello"]),
        ([ENDED], ["Hello"]),
    ],
)
def test_text_arrives_once_from_every_source(items: list[Any], pieces: list[str]) -> None:
    """Sources: live, from the log, live after a reconnect, restarted, or of a nested agent."""
    said = [event for event in fed(*items) if isinstance(event, Text) and not event.depth]
    assert [event.text for event in said] == pieces


def test_an_older_reply_after_a_newer_one_is_not_yielded() -> None:
    older, newer = LiveReply(LogId("conv_1"), TASK, 3, 1), LiveReply(LogId("conv_1"), TASK, 5, 1)
    assert fed(delta(newer, "New."), delta(older, "Old.")) == [Text("New.")]


def test_the_text_of_a_nested_agent_has_its_path() -> None:
    reply = LiveReply(LogId("conv_1"), TASK, 3, 1, path=CallPath("task_1/1/subagent#ab"))
    assert fed(delta(reply, "Hi.")) == [Text("Hi.", 1, ("subagent",))]


def test_kinds_without_a_source_have_their_fields() -> None:
    kinds: list[Event] = [
        OutputDelta({}),
        HandedOff("b"),
        StepStarted("s"),
        StepEnded("s"),
        Notice("c", "m"),
    ]
    assert all(each.depth == 0 for each in [*kinds, Notice("c", "m"), Ended("failed")])
