"""The port of a model: a request, and its reply as a stream of events."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.messages import Message, Usage


class ToolDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """A tool as a model sees it."""

    name: str
    """The id of the tool. Adapters replace characters that a provider refuses."""
    description: str
    """What the tool does, and when to use it."""
    parameters: Json
    """A JSON Schema of type object."""
    is_builtin: bool = False
    """Whether the tool comes with penstock. Not sent to providers."""


class ModelRequest(Struct, frozen=True, kw_only=True, gc=False):
    """One request to a model: all that the model sees.

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
    """The conversation, oldest message first. Do not change it or keep it after the stream."""
    tools: Sequence[ToolDefinition] = ()
    """The tools that the model may call."""
    closing: bool = False
    """The model must answer with text and call no tool, even if the messages contain calls."""
    temperature: float = 0.7
    """The sampling temperature."""
    max_tokens: int = 2048
    """The longest reply, in tokens."""
    thinking: str | None = None
    """The level of thinking, one of THINKING; None for the model's default."""


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning."""

    text: str


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the reply's text.

    Example:
        >>> from penstock.models.model import TextDelta
        >>> "".join(piece.text for piece in (TextDelta("Hel"), TextDelta("lo")))
        'Hello'
    """

    text: str
    """The piece. All pieces of a reply joined are its text."""


class CallDelta(Struct, frozen=True, gc=False):
    """A piece of the tool call `index`. `name` comes once; `arguments` is JSON in pieces."""

    index: int
    name: str = ""
    arguments: str = ""


class Finished(Struct, frozen=True, gc=False):
    """The last event of a complete reply.

    Example:
        >>> from penstock.core.messages import Usage
        >>> from penstock.models.model import Finished
        >>> Finished("stop", Usage(input_tokens=3, output_tokens=1)).reason
        'stop'
    """

    reason: str
    """`stop`, `tool_calls`, `length` or `content_filter`."""
    usage: Usage
    """Tokens of this reply, and their price in USD if known. The caller counts calls."""


ModelEvent = ReasoningDelta | TextDelta | CallDelta | Finished


class ModelCard(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about a model without a request.

    Example:
        >>> from penstock.models.model import ModelCard
        >>> ModelCard(model_id="mine:small", name="small", provider="mine").tools
        True
    """

    model_id: str
    """`provider:model`, or a name in penstock.toml."""
    name: str
    """The provider's name for the model."""
    provider: str
    """The name of the provider, such as `openai`; any word for a model of your own."""
    context_tokens: int | None = None
    """The size of the context window in tokens; None if unknown."""
    input_price: float | None = None
    """USD per million input tokens; None if unknown."""
    output_price: float | None = None
    """USD per million output tokens; None if unknown."""
    tools: bool = True
    """Whether the model can call tools."""


@runtime_checkable
class Model(Protocol):
    """A language model.

    Contract: `stream` makes one attempt and no retries (`models/retry.py` decides about retries).
    It raises ModelUnavailable, which may be retried, or ModelRefused. Closing the iterator closes
    the connection. The last event is Finished; if the provider ends the stream early, `stream`
    raises ModelUnavailable. No SDK is imported before the first request.
    """

    @property
    def card(self) -> ModelCard:
        """What is known about the model without a request."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive. Use `aclosing` if you may stop early."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
