"""One question to a model, answered in pieces."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.messages import Message, Usage


class ToolDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """What a model is told about a tool."""

    name: str
    description: str
    parameters: Json
    """A JSON Schema of type object."""
    is_builtin: bool = False
    """It comes with the runtime; no provider is told."""


class ModelRequest(Struct, frozen=True, kw_only=True, gc=False):
    """All that a model gets to see."""

    system: str
    messages: Sequence[Message]
    """Oldest first. Valid until the stream ends; not to be kept or changed."""
    tools: Sequence[ToolDefinition] = ()
    closing: bool = False
    """The model must answer with text, whatever tools the messages speak of."""
    temperature: float = 0.7
    max_tokens: int = 2048
    thinking: str | None = None
    """How much to think, a word of THINKING; None is as the model does by itself."""


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of what the model thinks."""

    text: str


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of what the model says."""

    text: str


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of call `index`: `name` comes once, `arguments` is JSON in pieces."""

    index: int
    name: str = ""
    arguments: str = ""


class Finished(Struct, frozen=True, gc=False):
    """The reply is whole; always the last event."""

    reason: str
    """`stop`, `tool_calls`, `length` or `content_filter`."""
    usage: Usage
    """Of this reply alone: tokens, and their price in USD if one is known; the counts of calls are
    left to the caller."""


ModelEvent = ReasoningDelta | TextDelta | CallDelta | Finished


class ModelCard(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about a model before it is asked."""

    model_id: str
    """`provider:model`, or a name of penstock.toml."""
    name: str
    provider: str
    context_tokens: int | None = None
    input_price: float | None = None
    """USD per million tokens."""
    output_price: float | None = None
    tools: bool = True
    """It can call tools."""


@runtime_checkable
class Model(Protocol):
    """Answers messages, in pieces.

    Contract: one attempt and no retries (`models/retry.py` says when to try again); raises
    ModelUnavailable (retryable) or ModelRefused. Closing the iterator closes the connection. The
    last event is Finished; a stream that ends without it raises ModelUnavailable. No SDK is
    imported before the first request.
    """

    @property
    def card(self) -> ModelCard:
        """What is known about the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply as it comes; to be closed (`aclosing`) by who leaves it early."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...
