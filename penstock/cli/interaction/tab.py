"""What the Tab key completes: commands of a conversation, and the answers to a question."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.cli.terminal.keyboard import Complete
from penstock.cli.terminal.plain import is_plain
from penstock.core.question import QuestionKind

Words = Mapping[str, Callable[[], Iterable[str]]]
"""What may follow each command, such as `/call`; the callable runs when Tab needs it."""


def command_completer(words: Words) -> Complete:
    """Complete a command, or the word behind one."""

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

    An option is completed by its label, which the question shows, else by its value. One that no
    line can hold is left out: its number answers, too.
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
        said, last = _split(line) if form.get("multiSelect") else ("", line)
        found = _beginning(last, labels) or _beginning(last, values)
        return [f"{said}{each}" for each in found] + _beginning(line, ways)

    return complete


def _split(line: str) -> tuple[str, str]:
    """Return what precedes the last of several options, and what is typed of it."""
    last = line.rpartition(",")[2].lstrip()
    return line[: len(line) - len(last)], last


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin so, whatever the case of their letters."""
    return [each for each in words if each.lower().startswith(start.lower())]
