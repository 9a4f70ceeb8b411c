"""The adapter for all other providers, through Pydantic AI: Anthropic, Google and the rest.

Guarantees the contract of `Model` on top of a library with other habits: no retries of its own (the
SDK's are switched off), our HTTP client with our timeouts, a key only to the configured address,
errors without the key, and a reply that was cut off is never taken for a complete one. The library
is slow to import, so this file is loaded late. Proof: tests/models/wires/test_pydantic_ai.py and
tests/contracts/test_model.py.
"""

import inspect
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

import httpx2
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    StreamedResponse,
    infer_model,
)
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.tools import ToolDefinition

from penstock.core.errors import ConfigError, ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import (
    AssistantMessage,
    Message,
    Part,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
)
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
    spent,
)
from penstock.models.names import OFF
from penstock.models.providers import CONNECT_SECONDS, PROVIDERS, ModelConfig
from penstock.models.wires.parts import label_of
from penstock.models.wires.sse import error_text, without_key
from penstock.models.wires.wire_names import WireNames

_FAILURES = (AssertionError, RuntimeError, ValueError, httpx2.HTTPError)
"""The exceptions of the library and its SDKs. The library's own are RuntimeErrors."""
_NO_KEY = "none"
_CUT_OFF = "the model's reply was cut off before its end"
_LEVELS: dict[str, ThinkingEffort] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}
_COUNTS_THOUGHTS = {"anthropic", "bedrock"}
"""Providers whose limit of output tokens includes reasoning."""
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
        self._key: str | None = None
        """The key, to remove from errors. The library may have found it in the environment."""
        self._client = httpx2.AsyncClient(
            trust_env=False,
            timeout=httpx2.Timeout(limits.model_silence_seconds, connect=CONNECT_SECONDS),
        )
        try:
            self._model = self._made()
        except (exceptions.UserError, ImportError, ValueError) as error:
            raise ConfigError(f"the model {config.name!r} cannot be used: {error}") from error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        reading, names = _Reading(), WireNames(request)
        try:
            async with model_request_stream(
                self._model,
                list(_history(request, names)),
                model_settings=self._settings(request),
                model_request_parameters=ModelRequestParameters(
                    function_tools=_tools(request, names)
                ),
            ) as response:
                async for event in response:
                    for converted in reading.read(event):
                        yield names.meant(converted)
                finished = self._finished(response, request, reading)
        except _FAILURES as error:
            raise self._model_error(error) from error
        yield finished

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

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

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings()
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.thinking is not None and not self._has_begun(request):
            self._think(settings, request.thinking)
        extra = {**self._config.extra, **request.extra}
        if request.closing:
            extra.pop("tool_choice", None)
            if _offers_tools(request):
                settings["tool_choice"] = "none"
        if extra:
            settings["extra_body"] = extra
        return settings

    def _has_begun(self, request: ModelRequest) -> bool:
        """Whether the request continues a turn, at a provider that requires its earlier reasoning.

        Reasoning before the calls of a turn is signed and we do not keep it. With thinking enabled
        such a provider refuses to continue without it, so thinking is left out.
        """
        is_within = bool(request.messages) and isinstance(request.messages[-1], ToolMessage)
        return is_within and self._config.provider in _COUNTS_THOUGHTS

    def _think(self, settings: ModelSettings, level: str) -> None:
        """Set the level of thinking. The library drops it for models that do not support one."""
        settings["thinking"] = False if level == OFF else _LEVELS[level]
        if level == OFF or not self._model.profile.get("supports_thinking", False):
            return
        settings.pop("temperature", None)
        if self._config.provider in _COUNTS_THOUGHTS and "max_tokens" in settings:
            settings["max_tokens"] += ANTHROPIC_THINKING_BUDGET_MAP[_LEVELS[level]]

    def _finished(
        self, response: StreamedResponse, request: ModelRequest, reading: "_Reading"
    ) -> Finished:
        reply = response.get()
        # The library fills in a reason for a stream that just ended. Only the details hold the
        # provider's own.
        is_reported = "finish_reason" in (reply.provider_details or {})
        if not is_reported and reply.finish_reason in {None, "stop", "tool_call"}:
            raise exceptions.UnexpectedModelBehavior(_CUT_OFF)
        reason = _REASONS.get(reply.finish_reason or "") or "stop"
        if reason == "stop" and reading.calls:
            reason = "tool_calls"
        return Finished(reason, self._usage(reply, request, reading.chars))

    def _usage(self, reply: messages.ModelResponse, request: ModelRequest, chars: int) -> Usage:
        counted = reply.usage
        if not (counted.input_tokens or counted.output_tokens):
            return estimate(self.card, request, chars)
        usage = spent(self.card, counted.input_tokens, counted.output_tokens)
        if usage.cost_usd is not None:
            return usage
        return Usage(
            input_tokens=counted.input_tokens,
            output_tokens=counted.output_tokens,
            cost_usd=_price(reply),
        )

    def _model_error(self, error: Exception) -> ModelError:
        """Return the ModelError for an exception of the library, without the key."""
        body = getattr(error, "body", None)
        message = error_text(body) if body else str(error) or type(error).__name__
        message = without_key(cut(message, ERROR_CHARS), self._key)
        text = f"the model {self.card.model_id!r}: {message}"
        if isinstance(error, exceptions.ModelHTTPError) and (
            advice := self._config.advice(error.status_code)
        ):
            text += f"; {advice}"
        match error:
            case exceptions.ModelQuotaExceededError() | exceptions.ModelRequestRejectedError():
                return ModelRefused(text)
            case exceptions.ModelHTTPError():
                return failure(error.status_code, text, error.retry_after)
            case exceptions.ModelAPIError():
                return ModelUnavailable(text, retry_after=error.retry_after)
            case exceptions.ContentFilterError() | exceptions.UserError():
                return ModelRefused(text)
            case _:
                return ModelUnavailable(text)


class _Reading:
    """Converts the library's events to ours."""

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}
        """Maps the index of a part to the index of its call."""
        self.chars = 0

    def read(self, event: Any) -> Iterator[ModelEvent]:
        match event:
            case messages.PartStartEvent(part=messages.TextPart(content=text)) if text:
                yield self._text(text)
            case messages.PartStartEvent(part=messages.ThinkingPart(content=text)) if text:
                yield self._thought(text)
            case messages.PartStartEvent(index=index, part=messages.ToolCallPart() as call):
                self.calls[index] = len(self.calls)
                yield self._call(index, call.tool_name, call.args)
            case messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text)) if text:
                yield self._text(text)
            case messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=str(text))):
                yield self._thought(text)
            case messages.PartDeltaEvent(index=index, delta=messages.ToolCallPartDelta() as delta):
                yield self._call(index, "", delta.args_delta)

    def _text(self, text: str) -> TextDelta:
        self.chars += len(text)
        return TextDelta(text)

    def _thought(self, text: str) -> ReasoningDelta:
        self.chars += len(text)
        return ReasoningDelta(text)

    def _call(self, index: int, name: str, arguments: str | dict[str, Any] | None) -> CallDelta:
        text = json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""
        self.chars += len(name) + len(text)
        return CallDelta(self.calls[index], name, text)


def _history(request: ModelRequest, names: WireNames) -> Iterator[messages.ModelMessage]:
    """Yield the conversation as the library's messages. Consecutive inputs form one request."""
    parts: list[messages.ModelRequestPart] = []
    shown: list[messages.ModelRequestPart] = []
    """Images of results: they follow all results of a reply."""
    if request.system:
        parts.append(messages.SystemPromptPart(request.system))
    for message in request.messages:
        if not isinstance(message, ToolMessage):
            parts, shown = parts + shown, []
        match message:
            case UserMessage():
                parts.append(_prompt(message))
            case ToolMessage():
                parts.append(
                    messages.ToolReturnPart(
                        names.sent(message.name), message.content, tool_call_id=message.call_id
                    )
                )
                shown += _images_of(message)
            case AssistantMessage():
                if parts:
                    yield messages.ModelRequest(parts)
                    parts = []
                if reply_parts := list(_reply_parts(message, names)):
                    yield messages.ModelResponse(reply_parts)
    parts += shown
    if parts:
        yield messages.ModelRequest(parts)


def _images_of(message: ToolMessage) -> list[messages.ModelRequestPart]:
    images = [_content(each) for each in message.parts if not isinstance(each, TextPart)]
    return [messages.UserPromptPart([label_of(message), *images])] if images else []


def _prompt(message: UserMessage) -> messages.UserPromptPart:
    return messages.UserPromptPart([_content(each) for each in message.parts] or message.content)


def _content(part: Part) -> messages.UserContent:
    if isinstance(part, TextPart):
        return part.text
    return messages.BinaryContent(part.content, media_type=part.mime_type)


def _reply_parts(
    message: AssistantMessage, names: WireNames
) -> Iterator[messages.ModelResponsePart]:
    if message.content:
        yield messages.TextPart(message.content)
    for call in message.calls:
        yield messages.ToolCallPart(
            names.sent(call.name), call.arguments, tool_call_id=call.call_id
        )


def _offers_tools(request: ModelRequest) -> bool:
    return bool(request.tools) and not (request.closing and not _has_calls(request.messages))


def _tools(request: ModelRequest, names: WireNames) -> list[ToolDefinition]:
    if not _offers_tools(request):
        return []
    return [
        ToolDefinition(
            name=names.sent(tool.name),
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
        )
        for tool in request.tools
    ]


def _has_calls(history: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) and message.calls for message in history)


def _price(reply: messages.ModelResponse) -> float | None:
    """Return the price of a reply from the library's price list, or None."""
    try:
        return float(reply.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None
