"""The frames of one reply, whole or on its way, seen or not."""

from penstock.core.call import ToolCall
from penstock.core.events.events import ReplyReceived
from penstock.core.ids import CallId, MessageId
from penstock.engine.bus import DeltaKind, ReplyStarted
from penstock.server.streams.frame import Position
from tests.kit.stories import Story, frames_of, kinds, no_tools, tool_call


def test_coming_back_in_the_middle_of_a_word() -> None:
    story = no_tools()
    frames = frames_of(story, [*story.stored], Position(3, 9))
    assert frames[0] == (
        Position(3, 17),
        {"type": "content_delta", "iteration": 1, "delta": "am here."},
    )


def test_coming_back_while_the_reply_is_on_its_way() -> None:
    story = Story(1, "msg_01", "msg_02")
    story.begin(1)
    story.say("Hello", ", I")
    frames = frames_of(story, last=Position(3, 7))
    assert frames == [(Position(3, 8), {"type": "content_delta", "iteration": 1, "delta": "I"})]


def test_reasoning_and_text_take_turns() -> None:
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


def test_a_thought_is_a_thinking_with_a_delta() -> None:
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
