"""Frames, events, envelopes and findings as text."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.terminal.output import BAR
from penstock.cli.terminal.render import Screen, envelope_text, event_line, print_table, when
from penstock.core.call import CallPath
from penstock.core.call_errors import ToolNotFound
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import (
    CallSettled,
    Event,
    MessageReceived,
    NoteEmitted,
    Record,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import BlobId, LogId, MessageId, TaskId
from penstock.core.messages import StoredFile
from penstock.core.task import TaskStatus

USAGE = {"inputTokens": 30, "outputTokens": 12, "toolCalls": 1}


def shown(*frames: dict[str, Any]) -> str:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=80))
    for frame in frames:
        screen.show(frame)
    screen.end_line()
    return output.getvalue()


def test_a_conversation_is_shown_as_it_happens() -> None:
    result = {"type": "tool_result", "name": "hello"}
    assert shown(
        {"type": "message_start", "conversationId": "conv_1"},
        {"type": "thinking", "iteration": 1, "maxIterations": 8},
        {"type": "thinking", "iteration": 1, "delta": "Hm, "},
        {"type": "thinking", "iteration": 1, "delta": "greet."},
        {"type": "tool_call", "name": "hello", "arguments": {"name": "Ann"}},
        result | {"success": True, "resultPreview": "greeting: Hello"},
        result | {"success": False, "code": "TOOL_FAILED", "error": "no more"},
        {"type": "content_delta", "delta": "Hel"},
        {"type": "content_reset", "iteration": 1},
        {"type": "content_delta", "delta": "Hello"},
        {"type": "content_delta", "delta": ", Ann!"},
        {"type": "message_complete", "finishReason": "stop", "usage": USAGE},
    ).splitlines() == [
        "Hm, greet.",
        '→ hello {"name": "Ann"}',
        "✓ hello: greeting: Hello",
        "✗ hello: TOOL_FAILED: no more",
        "Hel",
        "the answer starts again",
        "Hello, Ann!",
        "1 call, 42 tokens",
    ]


def test_an_end_that_the_model_did_not_choose_is_named() -> None:
    ended = {"type": "message_complete", "finishReason": "loop_detected", "usage": USAGE}
    assert shown(ended) == "ended by loop_detected, 1 call, 42 tokens\n"
    error = {"type": "error", "code": "MODEL_UNAVAILABLE", "message": "try again later"}
    assert shown(error) == "✗ MODEL_UNAVAILABLE: try again later\n"


def test_an_approval_shows_exactly_what_would_run() -> None:
    question = {
        "type": "question",
        "kind": "approval",
        "text": "Send it?",
        "toolName": "send",
        "arguments": {"to": "ann"},
        "context": "The second try.",
    }
    assert shown(question) == '? Send it?\n  │ The second try.\n  send {"to": "ann"}\n'
    long = question | {"arguments": {"text": "x" * 200}}
    assert f'{{\n  "text": "{"x" * 200}"\n}}' in shown(long)


HOSTILE_QUESTION = {
    "type": "question",
    "kind": "approval",
    "text": "Send it?\n  1. Yes\r\n✓ sent\x1b[2J",
    "context": 'To:\n  send {"to": "ann"}',
    "toolName": "send\nmore",
    "arguments": {"to": "eve\n? Sure?"},
    "options": [{"label": "Go\n  2. Stop", "value": "go"}],
}


def test_foreign_text_cannot_pass_for_a_line_of_penstock() -> None:
    """A newline in the question of a flow was printed unchanged."""
    assert shown(HOSTILE_QUESTION) == (
        "? Send it?\n  │   1. Yes\n  │ ✓ sent\ufffd[2J\n"
        '  │ To:\n  │   send {"to": "ann"}\n'
        '  send more {"to": "eve\\n? Sure?"}\n'
        "  1. Go 2. Stop\n"
    )
    error = {"type": "error", "code": "X", "message": "no\n✓ refund: paid"}
    assert shown(error) == "✗ X: no\n  │ ✓ refund: paid\n"


def test_a_wrapped_question_stays_behind_its_bar() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=True, width=20, color_system=None))
    screen.question({"kind": "ask_user", "text": "Which one?" + " " * 14 + "✓ paid 10 euros back"})
    rows = out.getvalue().splitlines()
    assert rows[0].startswith("? Which one?")
    assert all(each.startswith("  │ ") for each in rows[1:])
    assert max(map(len, rows)) <= 20


def test_options_are_numbered() -> None:
    options = [{"label": "Yes", "value": "y"}, {"label": "No", "value": "n"}]
    asked = {"type": "question", "kind": "ask_user", "text": "Go on?", "options": options}
    assert shown(asked) == "? Go on?\n  1. Yes\n  2. No\n"


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "a\rb", "\x9b31m"])
def test_text_of_a_model_cannot_control_the_terminal(text: str) -> None:
    result = shown({"type": "tool_call", "name": text, "arguments": {"a": text}})
    assert not {"\x1b", "\r", "\x9b"} & set(result)


def test_markup_of_a_model_is_text() -> None:
    assert shown({"type": "content_delta", "delta": "[bold]x[/bold] :smile:"}) == (
        "[bold]x[/bold] :smile:\n"
    )


PICTURE = StoredFile(
    blob_id=BlobId("b"), mime_type="image/png", size=1, is_image=True, name="a.png"
)
GOOD = Envelope.success(1)
EVENTS: list[tuple[Event, str]] = [
    (MessageReceived(message_id=MessageId("m"), content="Hi\nyou"), "message_received  Hi you"),
    (
        MessageReceived(message_id=MessageId("m"), content="Hi", attachments=(PICTURE,)),
        "message_received  Hi [a.png]",
    ),
    (TaskStarted(), "task_started"),
    (
        CallSettled(tool_id="t", envelope=Envelope.success(1), preview="1"),
        "call_settled  success 1",
    ),
    (NoteEmitted(event_type="step", message="\x1b[1m"), "note_emitted  step \ufffd[1m"),
    (TaskEnded(status=TaskStatus.SUCCEEDED, content="Bye"), "task_ended  Bye"),
    (TaskEnded(status=TaskStatus.CANCELLED), "task_ended  cancelled"),
]


@pytest.mark.parametrize(("event", "message"), EVENTS)
def test_an_event_is_a_line(event: Event, message: str) -> None:
    record = Record(LogId("conv_1"), 3, Moment(0), TaskId("task_1"), None, event)
    assert event_line(record).rstrip() == f"    3  1970-01-01T00:00:00.000Z  {message}"


def test_an_event_of_a_call_names_its_tools() -> None:
    path = CallPath("task_1/1/outer#00ff/inner#11aa.2")
    record = Record(LogId("c"), 3, Moment(0), TaskId("task_1"), path, NoteEmitted(event_type="x"))
    assert event_line(record).rstrip().endswith("note_emitted outer/inner  x")


def test_an_envelope_is_its_output_or_its_error() -> None:
    assert envelope_text(Envelope.success("plain")) == "plain"
    assert envelope_text(Envelope.success({"a": [1]})) == '{\n  "a": [\n    1\n  ]\n}'
    refused = ToolNotFound("There is no tool 'x'.", suggestion="Use y.").envelope()
    assert envelope_text(refused) == "failed: TOOL_NOT_FOUND: There is no tool 'x'.\n  Use y."


def test_rows_are_aligned_with_their_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["id", "what"], [["a", None], ["b", "[x]\x1b" + "y" * 200]])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "id  what",
        "a",
        "b   [x]\ufffd" + "y" * 200,
    ]


TASKS = [
    ("task_01m82xsfjz63rhpc9pnsnqbvw4", "succeeded", "2026-11-23 00:44:42", "Two words more here"),
    ("task_01m82xsfjz63rhpc9pnsnqbvw5", "failed", "2026-11-23 00:44:43", ""),
]


@pytest.mark.parametrize("columns", [42, 60, 79, 100, 200])
def test_no_word_of_a_table_is_broken_at_any_width(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids are there to be copied; each cell is under its heading, or behind it."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(["task", "status", "created", "title"], TASKS)
    lines = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()
    words = " ".join(lines).split()
    for cells in TASKS:
        assert set(" ".join(cells).split()) <= set(words)
    assert {"task", "status", "created", "title"} <= set(words)
    if columns < 100:
        assert lines[1].split() == ["status", "succeeded"]
        assert lines[4].split()[1] == TASKS[1][0]
    assert max(map(len, lines)) <= columns


def test_a_moment_is_read_in_utc() -> None:
    assert when(Moment(0)) == "1970-01-01 00:00:00"
    assert when(None) is None


@pytest.mark.parametrize("is_read", [True, False])
def test_a_question_wraps_between_words_at_a_terminal(*, is_read: bool) -> None:
    out = io.StringIO()
    words = "Which of the colors that the shop has in stock should the bicycle be painted in?"
    console = Console(file=out, width=32, force_terminal=is_read, color_system=None)
    Screen(console).question({"text": words, "kind": "ask_user"})
    lines = [each.removeprefix(BAR).rstrip() for each in out.getvalue().splitlines()]
    assert " ".join(lines) == f"? {words}"
    assert (max(map(len, lines)) <= 32) is is_read
