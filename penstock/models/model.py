"""One question to a model, answered in pieces."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.messages import Message, Usage


class ToolDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """What a model is told about a tool."""

    name: str
    """The tool's id, spelled as providers accept it."""
    description: str
    """What it does, and when to use it."""
    parameters: Json
    """A JSON Schema of type object."""
    is_builtin: bool = False
    """It comes with the runtime; no provider is told."""


class ModelRequest(Struct, frozen=True, kw_only=True, gc=False):
    """All that a model gets to see.

    Example:
        >>> from penstock.core.messages import UserMessage
        >>> from penstock.models.model import ModelRequest
        >>> request = ModelRequest(system="Be brief.", messages=[UserMessage("Hello")])
        >>> request.max_tokens
        2048
    """

    system: str
    """The system prompt."""
    messages: Sequence[Message]
    """Oldest first. Valid until the stream ends; not to be kept or changed."""
    tools: Sequence[ToolDefinition] = ()
    """What the model may call."""
    closing: bool = False
    """The model must answer with text, whatever tools the messages speak of."""
    temperature: float = 0.7
    """How freely the model chooses its words."""
    max_tokens: int = 2048
    """The longest reply, in tokens."""
    thinking: str | None = None
    """How much to think, a word of THINKING; None is as the model does by itself."""


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of what the model thinks."""

    text: str


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of what the model says.

    Example:
        >>> from penstock.models.model import TextDelta
        >>> "".join(piece.text for piece in (TextDelta("Hel"), TextDelta("lo")))
        'Hello'
    """

    text: str
    """The piece; all pieces of a reply together are its text."""


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of call `index`: `name` comes once, `arguments` is JSON in pieces."""

    index: int
    name: str = ""
    arguments: str = ""


class Finished(Struct, frozen=True, gc=False):
    """The reply is whole; always the last event.

    Example:
        >>> from penstock.core.messages import Usage
        >>> from penstock.models.model import Finished
        >>> Finished("stop", Usage(input_tokens=3, output_tokens=1)).reason
        'stop'
    """

    reason: str
    """`stop`, `tool_calls`, `length` or `content_filter`."""
    usage: Usage
    """Of this reply alone: tokens, and their price in USD if one is known; the counts of calls are
    left to the caller."""


ModelEvent = ReasoningDelta | TextDelta | CallDelta | Finished


class ModelCard(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about a model before it is asked.

    Example:
        >>> from penstock.models.model import ModelCard
        >>> ModelCard(model_id="mine:small", name="small", provider="mine").tools
        True
    """

    model_id: str
    """`provider:model`, or a name of penstock.toml."""
    name: str
    """The provider's name for it."""
    provider: str
    """Who answers, such as `openai`; one word of your own for a model of your own."""
    context_tokens: int | None = None
    """How much it can read; None is unknown."""
    input_price: float | None = None
    """USD per million tokens that it reads; None is unknown."""
    output_price: float | None = None
    """USD per million tokens that it writes; None is unknown."""
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
