"""Tab completion at prompts: commands of a conversation, and answers to a question."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.cli.terminal.keyboard import Complete
from penstock.cli.terminal.plain import is_plain
from penstock.core.task import QuestionKind

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
        found = _beginning(last, labels) or _beginning(last, values)
        return [f"{before}{each}" for each in found] + _beginning(line, ways)

    return complete


def _split(line: str) -> tuple[str, str]:
    """Split a list of options into the complete ones and the last, partial one."""
    last = line.rpartition(",")[2].lstrip()
    return line[: len(line) - len(last)], last


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    """Return the words that start like this, ignoring case."""
    return [each for each in words if each.lower().startswith(start.lower())]
