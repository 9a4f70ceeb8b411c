"""The possible answers to a question, as words of a command."""

from collections.abc import Sequence

from penstock.cli.terminal.plain import is_plain, pasted
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
