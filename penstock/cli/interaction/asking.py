"""Puts a question to the person at the terminal."""

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
from penstock.core.question import Option, QuestionKind, QuestionRecord
from penstock.core.text import one_line
from penstock.engine.answers import answer_in_words


class Read(Protocol):
    """Shows a prompt and returns the line that the person types. Raises EOFError."""

    def __call__(self, prompt: str, *, complete: Complete = nothing, draft: str = "") -> str:
        """Return the line; `complete` is for Tab, and the line begins with the draft."""
        ...


YES = {"y", "yes", "approve"}
NO = {"n", "no", "reject"}
EDIT = {"e", "edit"}
DECIDE, CANCEL = "/decide", "/cancel"
_WAYS = {DECIDE: "decide", CANCEL: "cancel"}
"""What may be said at a fork besides an answer: let its agent decide, end the run."""


def ask(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    """Return the body of an answer; the question itself has been shown already.

    Raises EOFError when the person answers later.
    """
    if question["kind"] == QuestionKind.APPROVAL:
        return _approval(question, read)
    ways = [each for each in _WAYS if _may(question, each)]
    said = read(_prompt(question, ways), complete=answer_completer(question, ways))
    if (way := said.strip().lower()) in ways:
        return {_WAYS[way]: True}
    body = text_answer(question, said)
    if question["kind"] == QuestionKind.USER_MESSAGE and question.get("schema") is not None:
        return body | _payload(read)
    return body


def ask_here(question: Mapping[str, Any], is_over: IsOver = never) -> dict[str, Any] | None:
    """Put a question to the person at the terminal; None when the person answers later.

    Raises QuestionClosed once `is_over` says that nobody waits for the answer.
    """
    try:
        return ask(question, partial(read_line, is_over=is_over))
    except EOFError:
        note("")
        return None


def show_question(question: Mapping[str, Any]) -> None:
    """Show a question on stderr: stdout has what programs read."""
    Screen(Console(highlight=False, stderr=True)).question(question)


def show_waiting(waiting: Sequence[QuestionRecord], how: str | None = None) -> None:
    """Show on stderr what is waited for, and how to answer: by `penstock answer`, unless said."""
    for record in waiting:
        show_question(question_record(record))
        if how is None:
            note(how_to_answer(record))
    if how is not None:
        note(how)


def text_answer(question: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the answer that a line means: the number or name of an option, yes, no, or a text."""
    return answer_in_words(
        text.strip(),
        kind=QuestionKind(question["kind"]),
        options=convert(question.get("options", ()), tuple[Option, ...]),
        form=question.get("form"),
        has_schema=question.get("schema") is not None,
    )


def _prompt(question: Mapping[str, Any], ways: Sequence[str]) -> str:
    """Return what stands before the line: what Enter means, and how else it may be answered."""
    form = question.get("form") or {}
    if form.get("type") == "confirm":
        return "[y]es or [n]o> "
    if (usual := form.get("defaultValue")) is not None:
        return f"answer [{one_line(clean(usual))}]> "
    if question.get("options") and not (form or question.get("schema")):
        return "an option, or words of your own> "
    return f"answer, or {' or '.join(ways)}> " if ways else "answer> "


def _may(question: Mapping[str, Any], way: str) -> bool:
    is_fork = question["kind"] == QuestionKind.FORK
    return is_fork and (way != DECIDE or bool((question.get("form") or {}).get("allowDecide")))


def _approval(question: Mapping[str, Any], read: Read) -> dict[str, Any]:
    complete = answer_completer(question)
    while True:
        prompt = "[y]es, [n]o, [e]dit its input, Ctrl-D to answer later> "
        said = read(prompt, complete=complete).strip().lower()
        if said in YES:
            return {"decision": "approve"}
        if said in NO:
            reason = read("why not? (Enter for no reason)> ").strip()
            return {"decision": "reject"} | ({"note": reason} if reason else {})
        if said in EDIT:
            given = question.get("arguments", {})
            return {"decision": "approve", "input": _edited(read, given)}


def _payload(read: Read) -> dict[str, Any]:
    """Return what goes with the words, if the person wants something to."""
    while said := read("what goes with it, as JSON (Enter for nothing)> ").strip():
        try:
            return {"resume_payload": parse_json(said)}
        except ValueError as error:
            read(f"that is not JSON: {error}. Enter to try again> ")
    return {}


def _edited(read: Read, given: Any) -> Any:
    """Return the input as the person changed it; an empty line leaves it as it is."""
    said = compact(given)
    while True:
        said = read("its input, as JSON> ", draft=said).strip() or said
        try:
            return parse_json(said)
        except ValueError as error:
            read(f"that is not JSON: {error}. Enter to try again> ")
