"""What a model reads and writes."""

from typing import Any

from msgspec import Struct

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.json_values.json_text import parse_json


class UserMessage(Struct, frozen=True, gc=False):
    """What a person wrote."""

    content: str


class AssistantMessage(Struct, frozen=True, gc=False):
    """What the model wrote, and the calls it asked for."""

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
    """What was spent: tokens, calls, money.

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
    """Calls of tools, those inside of calls included."""
    cost_usd: float | None = None
    """None when some model has no price."""

    def to_wire(self) -> dict[str, Any]:
        """Return the usage as it stands on the wire."""
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "modelCalls": self.model_calls,
            "toolCalls": self.tool_calls,
            "costUsd": self.cost_usd,
        }


NOTHING_SPENT = Usage()


NEW = "new"
"""The command that begins afresh, and may say something to the model besides."""

INFORMATIONAL = ("call", "web")
"""Commands that, with nothing behind them, only tell something."""


class MissingArguments(Struct, frozen=True, kw_only=True):
    """What a command needs to begin, and who wrote it did not say."""

    question: str
    is_text: bool = True
    """Else an answer is JSON, where it is some."""

    def value_of(self, said: str) -> Any:
        """Return what an answer means; what is no JSON is a text, and refused as such."""
        if self.is_text:
            return said
        try:
            return parse_json(said)
        except (ValueError, RecursionError):
            return said


def is_command(content: str) -> bool:
    """Whether a message is meant for the runtime; two slashes are text that begins with one."""
    return content.startswith("/") and not content.startswith("//")


def begins_afresh(content: str) -> bool:
    """Whether nothing that was said before a message counts any more."""
    return is_command(content) and command_parts(content)[0] == NEW


def is_informational(content: str) -> bool:
    """Whether a message is a command that begins nothing: it need not wait for what is open."""
    return is_command(content) and command_parts(content) in {(name, "") for name in INFORMATIONAL}


def is_answered_by_model(content: str) -> bool:
    """Whether a model gets to read a message, at least a part of it."""
    return not is_command(content) or (begins_afresh(content) and bool(command_parts(content)[1]))


def command_parts(content: str) -> tuple[str, str]:
    """Return the name of a command, and what follows it."""
    name, *rest = content[1:].split(maxsplit=1) if content[1:2].strip() else ["", content[1:]]
    return name, rest[0].strip() if rest else ""


def text_for_model(content: str) -> str:
    """Return what a model reads of a message."""
    if content.startswith("//"):
        return content[1:]
    if begins_afresh(content) and (request := command_parts(content)[1]):
        return request
    return content
