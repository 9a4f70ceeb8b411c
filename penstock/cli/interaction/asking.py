"""Prompts for the answer to one question and turns the typed line into the body of an answer."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import convert
from rich.console import Console

from penstock.chat.representations import question_record
from penstock.cli.interaction.answers import how_to_answer
from penstock.cli.interaction.tab import answer_completer
from penstock.cli.terminal.keyboard import Complete, IsOver, never, nothing, read_line
from penstock.cli.terminal.output import note
from penstock.cli.terminal.plain import clean, compact
from penstock.cli.terminal.render import Screen
from penstock.core.json_values.json_text import parse_json
from penstock.core.task import Option, QuestionKind, QuestionRecord
from penstock.core.text import one_line
from penstock.engine.answers import answer_in_words


class Read(Protocol):
    """Shows a prompt and returns the typed line. Raises EOFError at Ctrl-D."""

    def __call__(self, prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        """Return the typed line, which starts with the draft; `complete` serves the Tab key."""
        ...


YES = {"y", "yes", "approve"}
NO = {"n", "no", "reject"}
EDIT = {"e", "edit"}
DECIDE, CANCEL = "/decide", "/cancel"
_WAYS = {DECIDE: "decide", CANCEL: "cancel"}
"""Commands at a fork, in place of an answer: let its agent decide, or end the run."""


def ask(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    """Return the body of an answer. The caller has shown the question.

    Raises EOFError if the person answers later.
    """
    if question["kind"] == QuestionKind.APPROVAL:
        return _approval(question, read)
    ways = [each for each in _WAYS if _is_allowed(question, each)]
    line = read(_prompt(question, ways), complete=answer_completer(question, ways))
    if (way := line.strip().lower()) in ways:
        return {_WAYS[way]: True}
    body = text_answer(question, line)
    if question["kind"] == QuestionKind.USER_MESSAGE and question.get("schema") is not None:
        return body | _payload(read)
    return body


def ask_here(question: Mapping[str, Any], is_over: IsOver = never) -> dict[str, Any] | None:
    """Prompt for the answer to a question; None if the person answers later.

    Raises QuestionClosed once `is_over` returns True.
    """
    try:
        return ask(question, partial(read_line, is_over=is_over))
    except EOFError:
        note("")
        return None


def show_question(question: Mapping[str, Any]) -> None:
    """Show a question on stderr, because programs read stdout."""
    Screen(Console(highlight=False, stderr=True)).question(question)


def show_waiting(waiting: Sequence[QuestionRecord], how: str | None = None) -> None:
    """Show open questions on stderr, and how to answer them: `how`, or `penstock answer`."""
    for record in waiting:
        show_question(question_record(record))
        if how is None:
            note(how_to_answer(record))
    if how is not None:
        note(how)


def text_answer(question: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Parse a line as an answer: the number or name of an option, yes, no, or a text."""
    return answer_in_words(
        text.strip(),
        kind=QuestionKind(question["kind"]),
        options=convert(question.get("options", ()), tuple[Option, ...]),
        form=question.get("form"),
        has_schema=question.get("schema") is not None,
    )


def _prompt(question: Mapping[str, Any], ways: Sequence[str]) -> str:
    """Return the prompt: the default for Enter, and the other ways to answer."""
    form = question.get("form") or {}
    if form.get("type") == "confirm":
        return "[y]es or [n]o> "
    if (default := form.get("defaultValue")) is not None:
        return f"answer [{one_line(clean(default))}]> "
    if question.get("options") and not (form or question.get("schema")):
        return "an option, or a text of your own> "
    return f"answer, or {' or '.join(ways)}> " if ways else "answer> "


def _is_allowed(question: Mapping[str, Any], way: str) -> bool:
    is_fork = question["kind"] == QuestionKind.FORK
    return is_fork and (way != DECIDE or bool((question.get("form") or {}).get("allowDecide")))


def _approval(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    complete = answer_completer(question)
    while True:
        prompt = "[y]es, [n]o, [e]dit its input, Ctrl-D to answer later> "
        word = read(prompt, complete=complete).strip().lower()
        if word in YES:
            return {"decision": "approve"}
        if word in NO:
            reason = read("reason (Enter for none)> ").strip()
            return {"decision": "reject"} | ({"note": reason} if reason else {})
        if word in EDIT:
            given = question.get("arguments", {})
            return {"decision": "approve", "input": _edited(read, given)}


def _payload(read: Read) -> dict[str, Any]:
    """Prompt for data to send with the text; empty if the person gives none."""
    while line := read("data to send with it, as JSON (Enter for none)> ").strip():
        try:
            return {"resume_payload": parse_json(line)}
        except ValueError as error:
            read(f"not valid JSON: {error}. Press Enter to try again> ")
    return {}


def _edited(read: Read, given: Any) -> Any:
    """Return the edited input. An empty line keeps it unchanged."""
    text = compact(given)
    while True:
        text = read("input, as JSON> ", draft=text).strip() or text
        try:
            return parse_json(text)
        except ValueError as error:
            read(f"not valid JSON: {error}. Press Enter to try again> ")
