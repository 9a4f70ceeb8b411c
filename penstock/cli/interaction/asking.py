"""Puts a question to the person at the terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from msgspec import convert
from rich.console import Console

from penstock.app.runtime import Runtime
from penstock.chat.parts import question_record
from penstock.cli.interaction.answers import how_to_answer
from penstock.cli.terminal.keyboard import forget_typed, never, read_line
from penstock.cli.terminal.output import note
from penstock.cli.terminal.plain import clean, compact
from penstock.cli.terminal.render import Screen
from penstock.core.ids import TaskId
from penstock.core.json_text import parse_json
from penstock.core.late import late
from penstock.core.question import Option, QuestionKind, QuestionRecord
from penstock.core.task import TaskStatus
from penstock.core.text import one_line
from penstock.engine.answers import answer_in_words

Read = Callable[[str], str]
"""Shows a prompt and returns the line that the person wrote. Raises EOFError."""

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
        return _approval(read, question.get("arguments", {}))
    said = read(_prompt(question))
    if (body := _way(question, said)) is not None:
        return body
    body = text_answer(question, said)
    if question["kind"] == QuestionKind.USER_MESSAGE and question.get("schema") is not None:
        return body | _payload(read)
    return body


def ask_here(record: QuestionRecord, is_over: Callable[[], bool] = never) -> dict[str, Any] | None:
    """Put a question to the person at the terminal; None when the person answers later.

    It is shown on stderr: what a command prints stays what a program reads. What was typed before
    does not count. Raises QuestionClosed once `is_over` says that nobody waits for the answer.
    """
    part = question_record(record)
    forget_typed()
    Screen(Console(highlight=False, stderr=True)).question(part)
    try:
        return ask(part, partial(read_line, is_over=is_over))
    except EOFError:
        return None


async def asked_in(runtime: Runtime, runs: Sequence[str]) -> AsyncIterator[QuestionRecord]:
    """Yield what is asked next in runs that a task waits for; nothing, once one of them is over."""
    waits = [asyncio.ensure_future(runtime.wait(TaskId(each))) for each in runs]
    try:
        for each in asyncio.as_completed(waits):
            reply = await each
            if reply is None or reply.status is not TaskStatus.SUSPENDED:
                return
            if reply.questions:
                yield reply.questions[0]
                return
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def show_waiting(waiting: Sequence[QuestionRecord], how: str | None = None) -> None:
    """Show on stderr what is waited for, and how to answer: by `penstock answer`, unless said."""
    for record in waiting:
        Screen(Console(highlight=False, stderr=True)).question(question_record(record))
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


def _prompt(question: Mapping[str, Any]) -> str:
    """Return what stands before the line: what Enter means, and what else may be said at a fork."""
    form = question.get("form") or {}
    if form.get("type") == "confirm":
        return "[y]es or [n]o> "
    if (usual := form.get("defaultValue")) is not None:
        return f"answer [{one_line(clean(usual))}]> "
    ways = [each for each in _WAYS if _may(question, each)]
    return f"answer, or {' or '.join(ways)}> " if ways else "answer> "


def _way(question: Mapping[str, Any], said: str) -> dict[str, Any] | None:
    """Return what a line means that is no answer to a fork, but what becomes of it."""
    way = said.strip().lower()
    return {_WAYS[way]: True} if way in _WAYS and _may(question, way) else None


def _may(question: Mapping[str, Any], way: str) -> bool:
    is_fork = question["kind"] == QuestionKind.FORK
    return is_fork and (way != DECIDE or bool((question.get("form") or {}).get("allowDecide")))


def _approval(read: Read, given: Any) -> dict[str, Any]:
    while True:
        said = read("[y]es, [n]o, [e]dit its input, Ctrl-D to answer later> ").strip().lower()
        if said in YES:
            return {"decision": "approve"}
        if said in NO:
            note = read("why not? (Enter for no reason)> ").strip()
            return {"decision": "reject"} | ({"note": note} if note else {})
        if said in EDIT:
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
    """Return the input as the person changed it; a line that is empty leaves it as it is."""
    said = compact(given)
    while True:
        is_edited = read is input and sys.stdin.isatty()
        kept = "" if is_edited else f" (Enter keeps {said})"
        with late("penstock.cli.interaction.tab:offering")(said) if is_edited else nullcontext():
            said = read(f"its input, as JSON{kept}> ").strip() or said
        try:
            return parse_json(said)
        except ValueError as error:
            read(f"that is not JSON: {error}. Enter to try again> ")
