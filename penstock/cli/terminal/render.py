"""Renders frames, events, envelopes, questions and tables as text for a terminal."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal.output import BAR, clean, compact, hanging, pretty
from penstock.core.call import tools_on
from penstock.core.clock import Moment, to_iso
from penstock.core.envelope import Envelope
from penstock.core.events.codec import kind_of
from penstock.core.events.events import (
    CallSettled,
    Event,
    MessageReceived,
    NoteEmitted,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    TaskEnded,
)
from penstock.core.events.flow_events import HandedBack, HandedOff
from penstock.core.task import Question, QuestionKind, standing
from penstock.core.text import cut, one_line

_MAX_ARGUMENTS = 160
_MAX_PREVIEW = 300
_MAX_EVENT = 120
_CONSOLE = "script.console"
_NOTE_STYLES = {"warning": "yellow", "error": "red"}
_GAP = 2
"""Spaces between columns."""
_LAST_COLUMN = 20
"""The last column may wrap, but not below this width."""
_WIDE = 1000

Frame = Mapping[str, Any]


class Screen:
    """Shows the frames of a conversation: thinking, calls, results, and the answer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._waiting: Status | None = None
        self._is_mid_line = False
        self._kind = ""
        self._has_answered = False
        self._agent: str | None = None
        """The agent that a conversation was handed off to."""
        self._first: str | None = None
        """The agent that it was handed back to."""
        self._shows: dict[str, Callable[[Frame], None]] = {
            "message_start": self._start,
            "handed_off": self._hand_off,
            "handed_back": self._hand_back,
            "thinking": self._thinking,
            "content_delta": lambda frame: self._piece("answer", frame["delta"], ""),
            "content_reset": lambda _: self.line("the answer starts again", "dim"),
            "tool_call": self._call,
            "tool_result": self._result,
            "question": self.question,
            "note": self._note,
            "suspended": self._suspended,
            "message_complete": self._complete,
            "error": lambda frame: self.line(f"✗ {frame['code']}: {frame['message']}", "bold red"),
        }

    def show(self, frame: Frame) -> None:
        """Show one frame of the chat stream."""
        self._stop_waiting()
        if show := self._shows.get(frame["type"]):
            show(frame)

    def question(self, question: Frame) -> None:
        """Show a question with its options."""
        self._paragraph("? ", question["text"], "bold yellow")
        if question.get("context"):
            self._paragraph(BAR, question["context"], "dim")
        if question["kind"] == "approval":
            arguments = _whole(question.get("arguments", {}))
            self._print(f"  {one_line(question.get('toolName', ''))} {arguments}", "yellow")
        for number, option in enumerate(question.get("options", ()), 1):
            self.line(f"  {number}. {one_line(option['label'])}", "yellow")

    def line(self, text: str, style: str = "") -> None:
        """Print text on its own line; further lines of it start with a bar."""
        self._print(hanging(text), style)

    def _print(self, text: str, style: str) -> None:
        self.end_line()
        self._console.print(Text(clean(text), style=style), soft_wrap=True)
        self._kind = ""

    def _paragraph(self, mark: str, text: str, style: str) -> None:
        """Print text that penstock did not write. A terminal wraps it at words, after the bar."""
        self.end_line()
        room = max(self._console.width - len(BAR), 1)
        for line in clean(text).split("\n"):
            whole = Text(line, style=style)
            rows = whole.wrap(self._console, room) if self._console.is_terminal else [whole]
            for row in rows or [whole]:
                self._console.print(Text(mark, style=style).append_text(row), soft_wrap=True)
                mark = BAR
        self._kind = ""

    def end_line(self) -> None:
        """End the current line and stop the spinner."""
        self._stop_waiting()
        if self._is_mid_line:
            self._console.print()
            self._is_mid_line = False

    def _start(self, frame: Frame) -> None:
        self._has_answered = False
        self._meet(frame.get("agentId") or self._first)

    def _hand_off(self, frame: Frame) -> None:
        self._first = None
        self._meet(frame["agentId"])

    def _hand_back(self, frame: Frame) -> None:
        # Frames do not name the agent that a conversation started with; this one does.
        self._first = frame["agentId"]
        self._meet(self._first)

    def _meet(self, agent: str | None) -> None:
        if agent != self._agent:
            name = agent or "The agent that this conversation started with"
            self.line(f"⇢ {name} answers from here on", "magenta")
        self._agent = agent

    def _thinking(self, frame: Frame) -> None:
        if "delta" in frame:
            self._piece("thinking", frame["delta"], "dim italic")
        else:
            self._wait("thinking")

    def _call(self, frame: Frame) -> None:
        arguments = cut(compact(frame["arguments"]), _MAX_ARGUMENTS)
        self.line(f"→ {frame['name']} {arguments}", "cyan")
        self._wait(frame["name"])

    def _piece(self, kind: str, text: str, style: str) -> None:
        self._has_answered = self._has_answered or kind == "answer"
        if kind != self._kind:
            self.end_line()
            self._kind = kind
        self._console.print(Text(clean(text), style=style), end="", soft_wrap=True)
        self._is_mid_line = not text.endswith("\n")

    def _result(self, frame: Frame) -> None:
        if frame["success"]:
            preview = cut(frame.get("resultPreview", ""), _MAX_PREVIEW)
            self.line(f"✓ {frame['name']}: {preview}", "green")
        else:
            self.line(f"✗ {frame['name']}: {frame['code']}: {frame['error']}", "red")

    def _note(self, frame: Frame) -> None:
        self.line(note_line(frame), _NOTE_STYLES.get(frame["level"], "dim"))

    def _suspended(self, frame: Frame) -> None:
        if frame.get("blockedOn"):
            self.line(f"■ {frame['message']}", "yellow")

    def _complete(self, frame: Frame) -> None:
        if not self._has_answered and frame.get("content"):
            self._piece("answer", frame["content"], "")
        self.end_line()
        reason, usage = frame["finishReason"], frame["usage"]
        why = "" if reason == "stop" else f"ended by {reason}, "
        tokens = usage["inputTokens"] + usage["outputTokens"]
        calls = usage["toolCalls"]
        spent = f"{calls} {'call' if calls == 1 else 'calls'}, {tokens} tokens"
        self.line(f"{why}{spent}", "dim")

    def _wait(self, what: str) -> None:
        if self._console.is_terminal:
            self.end_line()
            self._waiting = self._console.status(Text(f"{clean(what)} …", style="dim"))
            self._waiting.start()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None


def event_line(record: Record) -> str:
    """Return one event of a log as a line: number, time, kind, path and content."""
    path = f" {'/'.join(tools_on(record.path))}" if record.path else ""
    return clean(
        f"{record.seq:>5}  {to_iso(record.at)}  {kind_of(record.event)}{path}{_what(record.event)}"
    )


def envelope_text(envelope: Envelope) -> str:
    """Return the outcome of a call for a person."""
    error = envelope.error
    if error is None:
        output = envelope.output
        return output if isinstance(output, str) else pretty(output)
    hint = f"\n  {hanging(error.suggestion)}" if error.suggestion else ""
    return f"{envelope.status.value}: {error.code}: {hanging(error.message)}{hint}"


def note_line(note: Frame) -> str:
    """Return an event or a console line of a tool as one line."""
    event, level, payload = note["event"], note["level"], note.get("payload")
    if event == _CONSOLE and isinstance(payload, Mapping) and "text" in payload:
        return f"{payload.get('level', level)}: {payload['text']}"
    shown = "" if payload is None else cut(compact(payload), _MAX_PREVIEW)
    parts = (event, note.get("title"), note.get("message"), shown)
    return f"[{level}] " + " · ".join(each for each in parts if each)


def question_line(question: Question) -> str:
    """Return a question as one line; an approval shows the input that would run."""
    return cut(f"? {question.question_id} {question_words(question)}", _MAX_PREVIEW)


def question_words(question: Question) -> str:
    """Return the text of a question; an approval also shows the tool and its input."""
    words = one_line(question.text)
    if question.kind is not QuestionKind.APPROVAL:
        return words
    return f"{words} · {question.tool_id} {compact(dict(question.input or {}))}"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table; in a file or a pipe, each row is one line of any length.

    If a terminal is too narrow for the columns, each row is a block of `heading: cell` lines,
    because a table would break words and ids that a person wants to copy.
    """
    console = Console(width=width())
    cells = [[_cell(each) for each in row] for row in rows]
    if not _fits(columns, cells, console.width):
        _print_blocks(console, columns, cells)
        return
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, no_wrap=number < len(columns) - 1, overflow="fold")
    for row in cells:
        made.add_row(*map(Text, row))
    console.print(made)


def _cell(value: Any) -> str:
    """Return a value as one line, because a further line would look like a row."""
    return clean("" if value is None else str(value)).replace("\n", " ")


def _fits(columns: Sequence[str], cells: Sequence[Sequence[str]], most: int) -> bool:
    """Whether all columns except the last fit, and the last has its minimum width."""
    widest = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    *fixed, last = widest
    return sum(fixed) + _GAP * len(fixed) + min(last, _LAST_COLUMN) <= most


def _print_blocks(console: Console, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    wide = max(map(len, columns))
    for row in cells:
        for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if cell:
                indent = "  " if number else ""
                head = f"{indent}{column}".ljust(wide + 2)
                console.print(Text().append(head, "bold").append(f"  {cell}"), soft_wrap=True)


def width() -> int:
    """Return the width of stdout in characters."""
    return Console().width if sys.stdout.isatty() else _WIDE


def when(moment: Moment | None) -> str | None:
    """Return a moment as text for people, in UTC."""
    return None if moment is None else to_iso(moment)[:19].replace("T", " ")


def _whole(value: Any) -> str:
    """Return a complete value as JSON, on one line if it is short."""
    short = compact(value)
    return short if len(short) <= _MAX_ARGUMENTS else pretty(value)


def _what(event: Event) -> str:
    match event:
        case MessageReceived(content=content, attachments=files):
            line = " ".join([content, *(f"[{each.name or each.mime_type}]" for each in files)])
        case TaskEnded(content=content) if content:
            line = content
        case ReplyReceived(text=text, calls=calls):
            line = text or ", ".join(call.name for call in calls)
        case CallSettled(envelope=envelope, preview=preview):
            error = envelope.error
            line = f"{envelope.status.value} " + (error.message if error else preview or "")
        case QuestionAsked(question=question):
            line = f"{question.question_id} {question.text}"
        case QuestionAnswered(question_id=question_id, status=status, answer=answer):
            line = f"{question_id} {standing(status, answer)}"
        case TaskEnded(status=status, error=error):
            line = f"{status.value} {error.message if error else ''}"
        case HandedOff(agent=agent) | HandedBack(agent=agent):
            line = agent
        case NoteEmitted(event_type=event_type, message=message):
            line = f"{event_type} {message or ''}"
        case _:
            return ""
    return f"  {cut(one_line(line), _MAX_EVENT)}"
