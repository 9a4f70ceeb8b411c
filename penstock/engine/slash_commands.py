"""Slash commands in messages: their names, their arguments, and what a model reads of them."""

from typing import Any

from msgspec import Struct

from penstock.core.json_values.json_text import parse_json

SLASH = "/"
"""The first character of every command."""
NEW = "new"
"""The command that discards the history; its argument is a message to the model."""

INFORMATIONAL = ("call", "web")
"""Commands that only show information if they have no argument."""


class MissingArgument(Struct, frozen=True, kw_only=True):
    """The question for a required argument that a command lacks."""

    question: str
    is_text: bool = True
    """Whether the answer is text; else it is JSON, or text if it is not valid JSON."""

    def value_of(self, answer: str) -> Any:
        """Return the value of an answer; the schema refuses text if it needs JSON."""
        if self.is_text:
            return answer
        try:
            return parse_json(answer)
        except (ValueError, RecursionError):
            return answer


def is_command(content: str) -> bool:
    """Whether a message is a command; `//` at the start escapes one slash of plain text."""
    return content.startswith(SLASH) and not content.startswith("//")


def clears_history(content: str) -> bool:
    """Whether a message discards the history."""
    return is_command(content) and command_parts(content)[0] == NEW


def is_informational(content: str) -> bool:
    """Whether a message only asks for information, so it need not wait for open questions."""
    return is_command(content) and command_parts(content) in {(name, "") for name in INFORMATIONAL}


def is_answered_by_model(content: str) -> bool:
    """Whether a model reads the message, or a part of it."""
    if not is_command(content):
        return True
    name, request = command_parts(content)
    return name == NEW and bool(request)


def command_parts(content: str) -> tuple[str, str]:
    """Return the name of a command, and its argument."""
    name, *rest = content[1:].split(maxsplit=1) if content[1:2].strip() else ["", content[1:]]
    return name, rest[0].strip() if rest else ""


def text_for_model(content: str) -> str:
    """Return the part of a message that a model reads."""
    if not content.startswith("/"):
        return content
    if content.startswith("//"):
        return content[1:]
    name, request = command_parts(content)
    return request if name == NEW and request else content
