"""What may be said to a question, as one writes it in a command."""

from collections.abc import Sequence

from penstock.cli.terminal.plain import is_plain, pasted
from penstock.core.question import QuestionKind, QuestionRecord

ANY_TEXT = "TEXT"
"""What stands for an answer in words of one's own."""
_MOST_LINES = 6
"""Answers that are written out; the question itself shows all."""


def how_to_answer(record: QuestionRecord) -> str:
    """Return a line for each answer to a question; a shell takes each as it is."""
    answers = answers_to(record)
    given = ("penstock", "answer", record.question.question_id)
    lines = [pasted(*given, each) for each in answers[:_MOST_LINES]]
    left = len(answers) - len(lines)
    more = f"\n       or one of {left} more: their names or numbers" if left else ""
    return "answer it: " + "\n       or: ".join(lines) + more


def answers_to(record: QuestionRecord) -> Sequence[str]:
    """Return what may be said to a question; an option that no line can hold is its number."""
    question = record.question
    if question.kind is QuestionKind.APPROVAL:
        return ("approve", "reject")
    if (question.form or {}).get("type") == "confirm":
        return ("yes", "no")
    values = [each.value for each in question.options]
    return [_as_word(number, each) for number, each in enumerate(values, 1)] or (ANY_TEXT,)


def _as_word(number: int, value: str) -> str:
    """Return what names an option in a command: its number if its value cannot stand there."""
    return value if is_plain(value) and not value.startswith("-") else str(number)
