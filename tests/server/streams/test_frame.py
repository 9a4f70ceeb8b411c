"""Positions of frames, seen frames, and the frames of a reply."""

import pytest

from penstock.core.call import ToolCall
from penstock.core.errors import BadLastEventId
from penstock.core.events.events import ReplyReceived
from penstock.core.ids import CallId, MessageId
from penstock.engine.bus import DeltaKind, ReplyStarted
from penstock.server.streams.frame import Position, UnseenFrames
from tests.kit.conversation_events import Story, frames_of, kinds, no_tools, tool_call


@pytest.mark.parametrize(
    ("text", "position"),
    [("6", Position(6)), ("6.0", Position(6, 0)), ("3.17", Position(3, 17))],
)
def test_frame_ids_are_parsed(text: str, position: Position) -> None:
    assert Position.parse(text) == position
    assert str(position) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "1.", ".5", "1.2.3", "01", "1.02", " 1", "1\n", "\u0661", "9" * 19, "1.-1"],
)
def test_an_invalid_frame_id_is_refused(text: str) -> None:
    with pytest.raises(BadLastEventId):
        Position.parse(text)


def test_positions_are_ordered() -> None:
    """`3.5` comes before `3.17`, and `6` before `6.0`."""
    texts = ["3", "3.0", "3.5", "3.17", "6", "6.0"]
    assert [str(each) for each in sorted(map(Position.parse, reversed(texts)))] == texts


def test_seen_frames_are_skipped_and_others_are_taken_once() -> None:
    unseen = UnseenFrames(Position(3, 5))
    for place in (Position(3), Position(3, 5), Position(3, 9), Position(3, 7), Position(4)):
        unseen.add(place, {"at": str(place)})
    assert [frame["at"] for _, frame in unseen.take()] == ["3.9", "4"]
    assert unseen.take() == []
    assert unseen.last == Position(4)


def test_a_reader_resumes_in_the_middle_of_a_word() -> None:
    story = no_tools()
    frames = frames_of(story, [*story.stored], Position(3, 9))
    assert frames[0] == (
        Position(3, 17),
        {"type": "content_delta", "iteration": 1, "delta": "am here."},
    )


def test_a_reader_resumes_while_the_reply_arrives() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Hello", ", I")
    frames = frames_of(story, last=Position(3, 7))
    assert frames == [(Position(3, 8), {"type": "content_delta", "iteration": 1, "delta": "I"})]


def test_reasoning_and_text_alternate() -> None:
    story = Story(1, "msg_01", "msg_02")
    reply = ReplyReceived(
        iteration=1,
        base=3,
        text="ABcd",
        reasoning="xyz",
        order=(1, 2, 2, 2),
        message_id=MessageId("msg_02"),
    )
    story.add(reply)
    assert [(str(position), frame["type"], frame["delta"]) for position, frame in
            frames_of(story)[2:]] == [
        ("3.1", "thinking", "x"),
        ("3.3", "content_delta", "AB"),
        ("3.5", "thinking", "yz"),
        ("3.7", "content_delta", "cd"),
    ]  # fmt: skip


def test_a_silent_retry_shows_one_thinking() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.begin(1)
    assert kinds(frames_of(story)) == ["3 message_start", "3.0 thinking"]


def test_arguments_that_are_no_object_are_shown_as_text() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.ask(1, ToolCall(CallId("tc_1"), "add", {}, "x" * 3000))
    frame = frames_of(story)[-1][1]
    assert frame["arguments"] == {}
    assert len(frame["argumentsText"]) == 2000


def test_reasoning_is_a_thinking_frame_with_a_delta() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("hm", kind=DeltaKind.REASONING)
    assert frames_of(story)[-1][1] == {"type": "thinking", "iteration": 1, "delta": "hm"}
    assert isinstance(story.items[3], ReplyStarted)


def test_calls_count_as_units() -> None:
    """A unit per character and per `tool_call`; the last one has the reply's own number."""
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Let me", kind=DeltaKind.REASONING)
    story.say(" see.")
    story.whole(tool_call(1, "a"), tool_call(2, "b"), tool_call(3, "c"))
    assert kinds(frames_of(story))[4:] == ["3.12 tool_call", "3.13 tool_call", "4 tool_call"]
    assert kinds(frames_of(story, [*story.stored], Position(3, 12))) == [
        "3.13 tool_call",
        "4 tool_call",
    ]
