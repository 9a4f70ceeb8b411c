"""The words that a person can type: answers as arguments of a command, and Tab at prompts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.cli.terminal.keyboard import Complete
from penstock.cli.terminal.output import is_plain, pasted
from penstock.core.task import QuestionKind, QuestionRecord

ANY_TEXT = "TEXT"
"""Placeholder for an answer as free text."""
_MOST_LINES = 6
"""Answers that are listed as commands; the question itself shows all options."""


def how_to_answer(record: QuestionRecord) -> str:
    """Return a command for each answer to a question, quoted for a shell."""
    answers = answers_to(record)
    command = ("penstock", "answer", record.question.question_id)
    lines = [pasted(*command, each) for each in answers[:_MOST_LINES]]
    left = len(answers) - len(lines)
    more = f"\n       or one of {left} more, by name or number" if left else ""
    return "answer it: " + "\n       or: ".join(lines) + more


def answers_to(record: QuestionRecord) -> Sequence[str]:
    """Return the possible answers. An option that is not one printable line has its number."""
    question = record.question
    if question.kind is QuestionKind.APPROVAL:
        return ("approve", "reject")
    if (question.form or {}).get("type") == "confirm":
        return ("yes", "no")
    values = [each.value for each in question.options]
    return [_as_word(number, each) for number, each in enumerate(values, 1)] or (ANY_TEXT,)


def _as_word(number: int, value: str) -> str:
    """Return an option's value, or its number if the value cannot be an argument."""
    return value if is_plain(value) and not value.startswith("-") else str(number)


Words = Mapping[str, Callable[[], Iterable[str]]]
"""By command, such as `/call`: a function that returns the words that may follow it."""


def command_completer(words: Words) -> Complete:
    """Complete a command, or the word after it."""

    def complete(line: str) -> Sequence[str]:
        command, space, rest = line.partition(" ")
        if not line.startswith("/") or " " in rest:
            return ()
        if not space:
            return _beginning(line, (f"{each} " for each in sorted(words)))
        known = sorted(words.get(command, tuple)())
        return _beginning(line, (f"{command} {each} " for each in known))

    return complete


def answer_completer(question: Mapping[str, Any], ways: Sequence[str] = ()) -> Complete:
    """Complete an answer: yes or no, an option, or one of the other ways to answer.

    Labels of options come first, because the question shows them, then their values. An option that
    is not one printable line is left out; its number is also an answer.
    """
    form = question.get("form") or {}
    if question["kind"] == QuestionKind.APPROVAL:
        return lambda line: _beginning(line, ("yes", "no", "edit"))
    if form.get("type") == "confirm":
        return lambda line: _beginning(line, ("yes", "no"))
    options = question.get("options", ())
    labels, values = (
        [each[name] for each in options if is_plain(each[name])] for name in ("label", "value")
    )

    def complete(line: str) -> Sequence[str]:
        before, last = _split(line) if form.get("multiSelect") else ("", line)
        matches = _beginning(last, labels) or _beginning(last, values)
        return [f"{before}{each}" for each in matches] + _beginning(line, ways)

    return complete


def _split(line: str) -> tuple[str, str]:
    """Split a list of options into the complete ones and the last, partial one."""
    last = line.rpartition(",")[2].lstrip()
    return line[: len(line) - len(last)], last


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    """Return the words that start like this, ignoring case."""
    return [each for each in words if each.lower().startswith(start.lower())]
