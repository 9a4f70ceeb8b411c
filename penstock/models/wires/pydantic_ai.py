"""The adapter for all other providers, through Pydantic AI: Google, Bedrock and the rest.

Guarantees the contract of `Model` on top of a library with other habits: no retries of its own (the
SDK's are switched off), our HTTP client with our timeouts, a key only to the configured address,
errors without the key, and a reply that was cut off is never taken for a complete one. The library
is slow to import, so this file is loaded late. Proof: tests/models/wires/test_pydantic_ai.py and
tests/contracts/test_model.py.
"""

import inspect
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx2
from msgspec.structs import replace
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import (
    Model,
    StreamedResponse,
    infer_model,
)
from pydantic_ai.providers import Provider, infer_provider_class

from penstock.core.errors import (
    CarryRefused,
    ConfigError,
    ContextTooLarge,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.limits import Limits
from penstock.core.messages import Usage
from penstock.core.text import ERROR_CHARS, cut
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    estimate,
    failure,
    with_price,
)
from penstock.models.providers import CONNECT_SECONDS, PROVIDERS, ModelConfig
from penstock.models.wires.carries import has_carries, refuses_carry
from penstock.models.wires.http import WITH_CARRY, hinted, request_name
from penstock.models.wires.pydantic_ai_history import History, carry_of_reply
from penstock.models.wires.pydantic_ai_settings import SIGNED, LibrarySettings, offered_tools
from penstock.models.wires.sse import TOO_LARGE, error_text, refused, without_key
from penstock.models.wires.wire_names import WireNames

log = logging.getLogger(__name__)

_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError)
"""The exceptions of the library and its SDKs for replies whose members have other types."""
_FAILURES = (AssertionError, RuntimeError, ValueError, httpx2.HTTPError, *_MALFORMED)
"""The exceptions of the library and its SDKs. The library's own are RuntimeErrors."""
_NO_KEY = "none"
_CUT_OFF = "the model's reply was cut off before its end"
_REASONS = {"tool_call": "tool_calls", "length": "length", "content_filter": "content_filter"}


def provider_problem(provider: str) -> str | None:
    """Return what a provider lacks here, or an empty text; None for an unknown provider."""
    try:
        infer_provider_class(provider)
    except ImportError as error:
        return str(error)
    except ValueError:
        return None
    return ""


class PydanticAIModel:
    """A model of any provider that Pydantic AI knows."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        self.card = config.card
        self._config = config
        self._most = limits.reply_bytes
        self._key: str | None = None
        """The key, to remove from errors. The library may have found it in the environment."""
        self._client = httpx2.AsyncClient(
            trust_env=False,
            timeout=httpx2.Timeout(limits.model_silence_seconds, connect=CONNECT_SECONDS),
            event_hooks={"response": [self._heed]},
        )
        try:
            self._model = self._made()
        except (exceptions.UserError, ImportError, ValueError) as error:
            raise ConfigError(f"the model {config.name!r} cannot be used: {error}") from error
        host = urlsplit(self._model.base_url or "").netloc.rpartition("@")[2]
        self._asking = LibrarySettings(self._model, config)
        self._own = f"pydantic_ai:{config.provider}@{host}", config.family
        """The provider and family of carries that this model may read."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        reading, names = _Reading(self._most), WireNames(request)
        tools = offered_tools(request, names)
        binds = bool(self._model.profile.get("anthropic_binds_thinking_blocks", False))
        history = History(request, names, self._own, tools, binds=binds)
        try:
            async with model_request_stream(
                self._model,
                history.messages,
                model_settings=self._asking.settings(
                    request, names, lacks_thinking=history.lacks_thinking
                ),
                model_request_parameters=self._asking.parameters(request, tools),
            ) as response:
                async for event in response:
                    for converted in reading.read(event):
                        yield names.meant(converted)
                finished = self._finished(response, request, reading, history.prefix)
        except _FAILURES as error:
            raise self._model_error(error, has_carry=has_carries(request)) from error
        yield finished

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _heed(self, response: httpx2.Response) -> None:
        """Pass on what the headers of an answer report about limits, and bound its body."""
        if self._config.on_headers is not None:
            self._config.on_headers(response.headers)
        response.stream = _Bounded(response.stream, self._most)

    def _made(self) -> Model:
        name = f"{self._config.provider}:{self._config.model}"
        return infer_model(name, provider_factory=self._provider)

    def _provider(self, name: str) -> Provider[Any]:
        """Return the provider with our key, address and client, and without its retries."""
        kind: Any = infer_provider_class(name)
        takes_key = name not in PROVIDERS or PROVIDERS[name].needs_key
        is_elsewhere = self._config.base_url is not None and takes_key
        arguments = {
            # A placeholder: without a key the library sends the one that it finds in the
            # environment, also to an address that is not the provider's.
            "api_key": self._config.api_key or (_NO_KEY if is_elsewhere else None),
            "base_url": self._config.base_url,
            "http_client": self._client,
        }
        known = inspect.signature(kind).parameters
        if self._config.base_url and "base_url" not in known:
            raise exceptions.UserError(f"provider {name!r} takes no base_url: leave it out")
        provider: Provider[Any] = kind(
            **{key: value for key, value in arguments.items() if value and key in known}
        )
        used_key = getattr(provider.client, "api_key", None)
        self._key = self._config.api_key or (used_key if isinstance(used_key, str) else None)
        if hasattr(provider.client, "max_retries"):
            provider.client.max_retries = 0
        return provider

    def _finished(
        self,
        response: StreamedResponse,
        request: ModelRequest,
        reading: "_Reading",
        prefix: str,
    ) -> Finished:
        reply = response.get()
        if self._config.provider in SIGNED:
            reading.sign(reply)
        details = reply.provider_details or {}
        # The library fills in a reason for a stream that just ended. Only the details hold the
        # provider's own.
        is_reported = "finish_reason" in details
        if not is_reported and reply.finish_reason in {None, "stop", "tool_call"}:
            raise exceptions.UnexpectedModelBehavior(_CUT_OFF)
        reason = _REASONS.get(reply.finish_reason or "") or "stop"
        if reason == "stop" and reading.calls:
            reason = "tool_calls"
        return Finished(
            reason,
            self._usage(reply, request, reading.chars),
            carry=carry_of_reply(reply, self._own, prefix),
            response_id=reply.provider_response_id or "",
            raw_reason=str(details.get("finish_reason", "")),
        )

    def _usage(self, reply: messages.ModelResponse, request: ModelRequest, chars: int) -> Usage:
        counted = reply.usage
        if not (counted.input_tokens or counted.output_tokens):
            return estimate(self.card, request, chars)
        details = counted.details
        usage = with_price(
            self.card,
            Usage(
                input_tokens=counted.input_tokens,
                output_tokens=counted.output_tokens,
                cached_tokens=counted.cache_read_tokens,
                cache_write_tokens=counted.cache_write_tokens,
                reasoning_tokens=counted.output_reasoning_tokens
                or details.get("reasoning_tokens", 0)
                or details.get("thoughts_tokens", 0),
            ),
        )
        return usage if usage.cost_usd is not None else replace(usage, cost_usd=_price(reply))

    def _model_error(self, error: Exception, *, has_carry: bool) -> ModelError:
        """Return the ModelError for an exception of the library, without the key."""
        body = getattr(error, "body", None)
        words = error_text(body) if body else str(error) or type(error).__name__
        if isinstance(error, _MALFORMED):
            words = f"its reply cannot be read: {words}"
        text = f"the model {self.card.model_id!r}: "
        text += without_key(cut(words, ERROR_CHARS), self._key)
        if isinstance(error, exceptions.ModelHTTPError):
            advice = self._config.advice(error.status_code)
            text += f"; {advice}" if advice else ""
            text += request_name(error.headers or {})
            code = error.provider_error_code or error.provider_error_type or ""
            is_about_carry = error.status_code in WITH_CARRY and refuses_carry(f"{code} {words}")
            if has_carry and is_about_carry:
                return CarryRefused(text)
        converted = _converted(error, text)
        if not isinstance(error, exceptions.ModelHTTPError) or _is_unpaid(error):
            return converted
        hint, wait = error.provider_retry_hint, error.retry_after
        return hinted(converted, hint=hint, retry_after=wait)


class _Bounded(httpx2.AsyncByteStream):
    """A body of at most so many bytes, also if the library waits for an event that never ends."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._stream:
            self._left -= len(block)
            if self._left < 0:
                raise ModelRefused(TOO_LARGE)
            yield block

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()


class _Reading:
    """Converts the library's events to ours. Raises ModelRefused for a reply of too much text."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.calls: dict[int, int] = {}
        """Maps the index of a part to the index of its call."""
        self.signatures: dict[int, str] = {}
        """The signature of each thinking part. The library keeps its last piece alone."""
        self.chars = 0

    def read(self, event: Any) -> Iterator[ModelEvent]:
        match event:
            case messages.PartStartEvent(part=messages.TextPart(content=text)) if text:
                yield self._text(text)
            case messages.PartStartEvent(index=index, part=messages.ThinkingPart() as part):
                self.signatures[index] = part.signature or ""
                if part.content:
                    yield self._thought(part.content)
            case messages.PartStartEvent(index=index, part=messages.ToolCallPart() as call):
                self.calls[index] = len(self.calls)
                yield self._call(index, call.tool_name, call.args)
            case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)) if text:
                yield self._text(text)
            case messages.PartDeltaEvent(index=index, delta=messages.ThinkingPartDelta() as delta):
                before = self.signatures.get(index, "")
                self.signatures[index] = before + (delta.signature_delta or "")
                if delta.content_delta is not None:
                    yield self._thought(delta.content_delta)
            case messages.PartDeltaEvent(index=index, delta=messages.ToolCallPartDelta() as delta):
                yield self._call(index, "", delta.args_delta)

    def sign(self, reply: messages.ModelResponse) -> None:
        """Give the thinking of a reply its whole signatures, which may arrive in pieces."""
        parts = (part for part in reply.parts if isinstance(part, messages.ThinkingPart))
        whole = (self.signatures[index] for index in sorted(self.signatures))
        for part, signature in zip(parts, whole, strict=False):
            part.signature = signature or None

    def _text(self, text: str) -> TextDelta:
        self._count(text)
        return TextDelta(text)

    def _thought(self, text: str) -> ReasoningDelta:
        self._count(text)
        return ReasoningDelta(text)

    def _call(self, index: int, name: str, arguments: str | dict[str, Any] | None) -> CallDelta:
        text = json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""
        self._count(name + text)
        return CallDelta(self.calls[index], name, text)

    def _count(self, text: str) -> None:
        self.chars += len(text)
        if self.chars > self._most:  # a compressed body may be much longer than its bytes
            raise ModelRefused(TOO_LARGE)


def _is_unpaid(error: Exception) -> bool:
    return isinstance(error, exceptions.ModelQuotaExceededError)


def _converted(error: Exception, text: str) -> ModelError:
    match error:
        case exceptions.ModelContextWindowExceededError():
            return ContextTooLarge(text)
        case exceptions.ModelQuotaExceededError() | exceptions.ModelRequestRejectedError():
            return refused(text)
        case exceptions.ModelRateLimitError():
            return failure(HTTPStatus.TOO_MANY_REQUESTS, text, error.retry_after)
        case exceptions.ModelHTTPError():
            return failure(error.status_code, text, error.retry_after)
        case exceptions.ContentFilterError() | exceptions.UserError():
            return ModelRefused(text)
        case _:
            return ModelUnavailable(text, retry_after=getattr(error, "retry_after", None))


def _price(reply: messages.ModelResponse) -> float | None:
    """Return the price of a reply from the library's price list, or None."""
    try:
        return float(reply.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
