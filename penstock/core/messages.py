"""Messages between the runtime and a model, usage, and slash commands in messages."""

from typing import Any

from msgspec import Struct

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.json_values.json_text import parse_json


class UserMessage(Struct, frozen=True, gc=False):
    """The message of a person."""

    content: str


class AssistantMessage(Struct, frozen=True, gc=False):
    """The reply of a model, with the calls that it requests."""

    content: str
    calls: tuple[ToolCall, ...] = ()


class ToolMessage(Struct, frozen=True, gc=False):
    """The outcome of one call, as text."""

    call_id: CallId
    name: str
    content: str
    ok: bool = True


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens, calls and money that were used.

    Example:
        >>> from penstock.core.messages import Usage
        >>> Usage(input_tokens=12, output_tokens=3).to_wire()["inputTokens"]
        12
    """

    input_tokens: int = 0
    """Tokens that models read."""
    output_tokens: int = 0
    """Tokens that models wrote."""
    model_calls: int = 0
    """Requests to models."""
    tool_calls: int = 0
    """Calls of tools, including those inside other calls."""
    cost_usd: float | None = None
    """None if one of the models has no price."""

    def to_wire(self) -> dict[str, Any]:
        """Return the usage in the form of the wire."""
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "modelCalls": self.model_calls,
            "toolCalls": self.tool_calls,
            "costUsd": self.cost_usd,
        }


NOTHING_SPENT = Usage()


NEW = "new"
"""The command that discards the history; its argument is a message to the model."""

INFORMATIONAL = ("call", "web")
"""Commands that only show information if they have no argument."""


class MissingArguments(Struct, frozen=True, kw_only=True):
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
    return content.startswith("/") and not content.startswith("//")


def begins_afresh(content: str) -> bool:
    """Whether a message discards the history."""
    return is_command(content) and command_parts(content)[0] == NEW


def is_informational(content: str) -> bool:
    """Whether a message only asks for information, so it need not wait for open questions."""
    return is_command(content) and command_parts(content) in {(name, "") for name in INFORMATIONAL}


def is_answered_by_model(content: str) -> bool:
    """Whether a model reads the message, or a part of it."""
    return not is_command(content) or (begins_afresh(content) and bool(command_parts(content)[1]))


def command_parts(content: str) -> tuple[str, str]:
    """Return the name of a command, and its argument."""
    name, *rest = content[1:].split(maxsplit=1) if content[1:2].strip() else ["", content[1:]]
    return name, rest[0].strip() if rest else ""


def text_for_model(content: str) -> str:
    """Return the part of a message that a model reads."""
    if content.startswith("//"):
        return content[1:]
    if begins_afresh(content) and (request := command_parts(content)[1]):
        return request
    return content
