"""Messages between the runtime and a model, and the usage of models and tools."""

from typing import Any

from msgspec import Struct

from penstock.core.call import ToolCall
from penstock.core.ids import CallId


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
