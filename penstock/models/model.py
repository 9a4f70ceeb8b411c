"""The port of a model: a request, and its reply as a stream of events.

Beside it what all models share: the tokens and price of a reply, and which failures are retried.
"""

import json
import logging
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import RetryPolicy
from penstock.core.envelope import Json
from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import (
    IMAGE_TOKENS,
    AssistantMessage,
    Carry,
    Message,
    TextPart,
    Usage,
    UserMessage,
)
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.models.prices import UNKNOWN, Prices

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 30
"""The longest Retry-After that is honoured."""
WAITS = RetryPolicy(initial_backoff_ms=1000, multiplier=4)
"""One second, then four. `Limits.model_tries` is the number of attempts."""
_RETRYABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}


class ToolDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """A tool as a model sees it."""

    name: str
    """The id of the tool. Adapters replace characters that a provider refuses."""
    description: str
    """The purpose of the tool, and when to use it."""
    parameters: Json
    """A JSON Schema of type object."""
    is_builtin: bool = False
    """Whether the tool comes with penstock. Not sent to providers."""


class OutputFormat(Struct, frozen=True, kw_only=True, gc=False):
    """The JSON Schema that the text of a reply must match."""

    name: str
    """Letters, digits, `_` and `-`, at most 64 of them."""
    schema: Json
    """In the dialect of the model's provider: `Fitted.schema` of `models.structured`."""


class ModelRequest(Struct, frozen=True, kw_only=True, gc=False):
    """One request to a model: all that the model sees.

    A setting that is None is not sent: the provider's default applies.

    Example:
        >>> from penstock import ModelRequest
        >>> request = ModelRequest(system="Be brief.", messages=[])
        >>> request.max_tokens is None
        True
    """

    system: str
    """The system prompt."""
    messages: Sequence[Message]
    """The conversation, oldest message first. Do not change it or keep it after the stream."""
    tools: Sequence[ToolDefinition] = ()
    """The tools that the model may call."""
    closing: bool = False
    """The model must answer with text and call no tool, even if the messages contain calls."""
    temperature: float | None = None
    """The sampling temperature."""
    max_tokens: int | None = None
    """The longest reply, in tokens, without the room that a level of thinking adds."""
    thinking: str | None = None
    """The level of thinking, one of THINKING; None for the model's default."""
    top_p: float | None = None
    """The share of the probability mass that sampling considers."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply."""
    seed: int | None = None
    """A seed for sampling, for models that take one."""
    parallel_calls: bool | None = None
    """Whether one reply may ask for several calls."""
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the id of the tool to call."""
    output: OutputFormat | None = None
    """The form of the reply's text."""
    conversation: str | None = None
    """Names the agent and the conversation; equal for requests that share a prefix."""
    cache_ttl: str | None = None
    """How long the provider keeps the prefix: `5m` or `1h`."""
    user: str | None = None
    """An opaque id of the person, for the provider's abuse checks; None for the local profile."""
    timeout: float | None = None
    """The seconds that the reply may take."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members to add to the body of the request; null removes one."""
    estimated_tokens: int = 0
    """An estimate of the tokens of the request and its reply, for limits per minute."""
    loop_start: int = 0
    """The index of the user message that started the current task."""
    has_previews: bool = False
    """Results of the current task are previews: some models must not think until it ends."""

    @property
    def cache_key(self) -> str | None:
        """A key for the provider's cache: a hash of `conversation`, because caches show no ids."""
        if self.conversation is None:
            return None
        return sha256(self.conversation.encode()).hexdigest()[:32]


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning."""

    text: str


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the reply's text.

    Example:
        >>> from penstock import TextDelta
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
        >>> from penstock import Finished, Usage
        >>> Finished("stop", Usage(input_tokens=3, output_tokens=1)).reason
        'stop'
    """

    reason: str
    """`stop`, `tool_calls`, `length` or `content_filter`."""
    usage: Usage
    """Tokens of this reply, and their price in USD if known. The caller counts calls."""
    carry: Carry | None = None
    """Parts to send back with this reply in later requests."""
    response_id: str = ""
    """The provider's id of the reply."""
    refusal: str | None = None
    """The reason of a provider that refused to answer."""
    raw_reason: str = ""
    """The provider's own word for the reason."""
    model: str = ""
    """The `model_id` of the model that answered, if it is one of several."""
    is_usual: bool = True
    """Whether the prices of the card hold for this reply; False for another tier of service."""


class Waiting(Struct, frozen=True, gc=False):
    """The request waits for the limits of the model, or for the next attempt of a Fallback."""

    seconds: float | None = None
    """How long it waited; None while it waits."""


ModelEvent = ReasoningDelta | TextDelta | CallDelta | Waiting | Finished


class ModelCard(Struct, frozen=True, kw_only=True, gc=False):
    """Properties of a model that are known without a request.

    Example:
        >>> from penstock import ModelCard
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
    prices: Prices = UNKNOWN
    """USD per million tokens."""
    tools: bool = True
    """Whether the model can call tools."""
    family: str = ""
    """The models that may read each other's carries."""
    api: str = ""
    """The wire: `openai`, `anthropic`, or `pydantic_ai`."""
    images: bool = False
    """Whether messages may contain images."""
    pdf: bool = False
    """Whether messages may contain PDF files."""
    audio: bool = False
    """Whether messages may contain audio."""
    tool_images: bool = False
    """Whether results of tools may contain images."""
    json_schema: bool = False
    """Whether the provider can hold the reply's text to a JSON Schema."""
    forced_tool_choice: bool = False
    """Whether a request can force a call."""
    binds_thinking: bool = False
    """Whether signed thinking is valid only after the exact request that it followed."""
    thinking_modes: tuple[str, ...] = ()
    """`adaptive`, `enabled`, and the words that turn thinking off: `disabled`, `between_tools`."""
    thinks_by_default: bool = False
    """Whether the model thinks if the request does not mention it."""
    efforts: tuple[str, ...] = ()
    """The levels of effort that the model accepts, lowest first."""
    max_output: int | None = None
    """The most output tokens of one reply."""
    sampling: bool = False
    """Whether the model accepts a temperature and `top_p`."""
    reply_tokens: int | None = None
    """The longest reply if a request does not say, as the operator sets it."""
    cache_ttl: str | None = None
    """How long the provider keeps a request that does not say, as the operator sets it."""


@runtime_checkable
class Model(Protocol):
    """A language model. Any object with these members is one.

    Contract: `stream` makes one attempt and no retries (`models/model.py` decides about retries).
    It raises ModelUnavailable, which may be retried, or ModelRefused. Closing the iterator closes
    the connection. The last event is Finished; if the provider ends the stream early, `stream`
    raises ModelUnavailable. No SDK is imported before the first request.

    Example:
        >>> from penstock import Model
        >>> from penstock.testing import ScriptedModel, say
        >>> isinstance(ScriptedModel([say("Hello")]), Model)
        True
    """

    @property
    def card(self) -> ModelCard:
        """Properties of the model that are known without a request."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive. Use `aclosing` if you may stop early.

        Args:
            request: All that the model sees.

        Yields:
            Deltas of reasoning, text and calls, then Finished.

        Raises:
            ModelUnavailable: The request may be repeated.
            ModelRefused: The provider refused the request.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def of_people(request: ModelRequest) -> Sequence[Message]:
    """Return the messages; without the runtime's reminders and notes if one of them is newest."""
    messages = request.messages
    newest = next((each for each in reversed(messages) if isinstance(each, UserMessage)), None)
    if newest is None or not newest.is_note:
        return messages
    return [each for each in messages if not (isinstance(each, UserMessage) and each.is_note)]


def without_carries(request: ModelRequest) -> ModelRequest:
    """Return the request with no carry in any of its messages."""
    messages = [
        replace(message, carry=None) if isinstance(message, AssistantMessage) else message
        for message in request.messages
    ]
    return replace(request, messages=messages)


def with_price(card: ModelCard, usage: Usage) -> Usage:
    """Return the usage with its price, if the model has one."""
    if card.prices is UNKNOWN:
        return usage
    return replace(usage, cost_usd=card.prices.cost(usage))


def usage_of(card: ModelCard, finished: Finished) -> Usage:
    """Return the usage of a reply, with the price of the card if the model gave none.

    Raises ModelError for one that is not a price: no budget would hold with it.
    """
    usage = finished.usage
    if (cost := usage.cost_usd) is not None:
        if not 0 <= cost < math.inf:
            raise ModelError(
                f"the model {card.model_id!r} reported a cost of {cost} USD: cost_usd is a number "
                "of 0 or more, or None if it is unknown"
            )
        return usage
    if card.prices is UNKNOWN or not finished.is_usual:
        return usage
    return replace(usage, cost_usd=card.prices.cost(usage))


def spent(card: ModelCard, input_tokens: int, output_tokens: int) -> Usage:
    """Return the usage of one reply, with its price if the model has one."""
    return with_price(card, Usage(input_tokens=input_tokens, output_tokens=output_tokens))


def estimate(card: ModelCard, request: ModelRequest, output_chars: int) -> Usage:
    """Estimate the usage of a reply whose provider reports none."""
    chars = len(request.system) + _chars(request.messages)
    chars += sum(map(_tool_chars, request.tools))
    return spent(card, _tokens(chars), _tokens(output_chars))


def tool_tokens(tool: ToolDefinition) -> int:
    """Estimate the tokens that a tool adds to every request."""
    return _tokens(_tool_chars(tool))


def _tool_chars(tool: ToolDefinition) -> int:
    schema = json.dumps(dict(tool.parameters), separators=(",", ":"))
    return len(tool.name) + len(tool.description) + len(schema)


def _chars(messages: Sequence[Message]) -> int:
    total = 0
    for message in messages:
        total += len(message.content)
        if isinstance(message, AssistantMessage):
            total += sum(len(str(call.arguments)) for call in message.calls)
        elif message.parts:
            files = (each for each in message.parts if not isinstance(each, TextPart))
            total += sum(IMAGE_TOKENS * CHARACTERS_PER_TOKEN for _ in files)
    return total


def _tokens(chars: int) -> int:
    return math.ceil(chars / CHARACTERS_PER_TOKEN)


def wait_seconds(attempt: int, error: ModelError, limits: Limits) -> float | None:
    """Return how long to wait after this attempt (the first is 1), or None to give up."""
    if not isinstance(error, ModelUnavailable) or attempt >= limits.model_tries:
        return None
    asked = min(error.retry_after or 0.0, RETRY_AFTER_SECONDS)
    return max(WAITS.backoff_ms(attempt) / 1000, asked)


def failure_of(card: ModelCard, error: Exception) -> ModelError:
    """Return the error for an exception of a model class that is not of penstock; log its stack.

    Models of programs are foreign code: the task ends with the type of the error.
    """
    log.error("the model %r failed", card.model_id, exc_info=error)
    return ModelError(
        f"the model {card.model_id!r} raised {type(error).__name__}: {error}. A model that cannot "
        "answer raises ModelUnavailable or ModelRefused"
    )


def failure(status: int, message: str, retry_after: float | None = None) -> ModelError:
    """Return the error for an HTTP status other than 200."""
    if status in _RETRYABLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        error = ModelUnavailable(message, retry_after=retry_after)
        error.is_throttled = status == HTTPStatus.TOO_MANY_REQUESTS
        return error
    return ModelRefused(message)
