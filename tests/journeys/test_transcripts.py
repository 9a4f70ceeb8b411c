"""Complete transcripts of the chat stream: byte by byte, in order, resumed at any position."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.json_values.json_text import compact
from tests.kit.conversation_events import (
    Story,
    a_failing_tool,
    approval,
    frames_of,
    joined,
    kinds,
    loop_detected,
    no_tools,
    two_parallel_tools,
)

ASSETS = Path(__file__).parents[1] / "assets" / "stream"
TELL = [no_tools, two_parallel_tools, a_failing_tool, loop_detected, approval]


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_the_frames_equal_the_transcript(tell: Callable[[], Story]) -> None:
    """The frames of a conversation equal its transcript byte by byte."""
    result = "".join(f"{position} {compact(frame)}\n" for position, frame in frames_of(tell()))
    assert result == (ASSETS / f"{tell.__name__}.txt").read_text()


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_a_later_reader_gets_the_same_frames(tell: Callable[[], Story]) -> None:
    story = tell()
    live, later = frames_of(story), frames_of(story, [*story.stored])
    assert joined(frame for _, frame in live) == joined(frame for _, frame in later)
    assert {position for position, _ in later} <= {position for position, _ in live}


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_a_reader_can_resume_after_any_frame(tell: Callable[[], Story]) -> None:
    """Frames up to id X, then the stream opened with X, are together the uninterrupted stream."""
    story = tell()
    whole = frames_of(story)
    for number, (position, _) in enumerate(whole, 1):
        rest = frames_of(story, [*story.stored], position)
        both = joined(frame for _, frame in whole[:number] + rest)
        assert both == joined(frame for _, frame in whole), position
        assert all(after > position for after, _ in rest)


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_ids_rise_strictly(tell: Callable[[], Story]) -> None:
    """Order rule 9: by `seq`, then `n`."""
    positions = [position for position, _ in frames_of(tell())]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_a_task_has_one_start_and_one_end(tell: Callable[[], Story]) -> None:
    """Order rules 1 and 6: a task has one `message_start`, first, and one last frame."""
    types = [frame["type"] for _, frame in frames_of(tell())]
    assert types.count("message_start") == 1
    assert types[0] == "message_start"
    assert [types.index(kind) for kind in types if kind in {"message_complete", "error"}] == [
        len(types) - 1
    ]


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_iterations_are_opened_one_by_one(tell: Callable[[], Story]) -> None:
    """Order rule 2: iterations are 1, 2, 3 …, each opened by exactly one bare `thinking`."""
    frames = [frame for _, frame in frames_of(tell())]
    opened = [each["iteration"] for each in frames if "maxIterations" in each]
    assert opened == list(range(1, frames[-1]["iterations"] + 1))


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_frames_of_an_iteration_are_in_order(tell: Callable[[], Story]) -> None:
    """Order rules 3 and 4: deltas, then calls, then one result each, before the next iteration."""
    order = {"thinking": 0, "content_delta": 1, "tool_call": 2, "tool_result": 4}
    order |= {"question": 3, "suspended": 3, "question_answered": 3}
    waiting: set[str] = set()
    before = 0
    for _, frame in frames_of(tell())[1:-1]:
        if "maxIterations" in frame or frame.get("closing"):
            assert not waiting
            before = 0
        assert order[frame["type"]] >= before
        before = order[frame["type"]]
        if frame["type"] == "tool_call":
            waiting.add(frame["id"])
        if frame["type"] == "tool_result":
            waiting.remove(frame["toolCallId"])


def test_a_question_is_between_its_call_and_its_result() -> None:
    """Order rules 5 and 7."""
    assert kinds(frames_of(approval()))[2:7] == [
        "4 tool_call",
        "5 question",
        "6 suspended",
        "7 question_answered",
        "9 tool_result",
    ]


def test_closing_pieces_come_last_and_without_thinking() -> None:
    """Order rule 8."""
    assert kinds(frames_of(loop_detected()))[-3:] == [
        "11 tool_result",
        "11.22 content_delta",
        "13 message_complete",
    ]


@pytest.mark.parametrize("tell", TELL, ids=lambda tell: tell.__name__)
def test_the_pieces_of_the_last_reply_are_the_content(tell: Callable[[], Story]) -> None:
    """Order rule 10."""
    frames = [frame for _, frame in frames_of(tell())]
    pieces = [each["delta"] for each in frames if each["type"] == "content_delta"]
    assert "".join(pieces) == frames[-1]["content"]
