"""Settings of requests to a model, merged from those of project, model, agent and message."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from penstock.core.json_values.json_text import as_stored
from penstock.core.messages import ToolMessage, UserMessage
from penstock.models.model import ModelRequest
from penstock.models.names import THINKING

MAX_STOPS, MAX_STOP_CHARS = 16, 200
MAX_TOKENS = 1_000_000
MAX_TIMEOUT_SECONDS = 86_400
CACHE_TTLS = ("5m", "1h")
_FREE = ("auto", "none")
"""The choices that force no call."""
_MERGED = (
    *("temperature", "top_p", "max_tokens", "seed", "thinking", "parallel_calls", "tool_choice"),
    *("timeout", "cache_ttl"),
)
RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "max_tokens": (1, MAX_TOKENS),
    "seed": (-(2**63), 2**63 - 1),
    "timeout": (0.001, MAX_TIMEOUT_SECONDS),
}
"""The least and the greatest value of each number."""
_WHOLE = ("max_tokens", "seed")


class ModelSettings(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Settings of requests to a model. None leaves a setting to the next level, or to the provider.

    Settings of a message win over those of its agent, then come those of the model
    (`[models.NAME]`) and of the project (`[model_settings]`). What a model cannot do is left out.

    Raises:
        ValueError: A value is out of range.

    Example:
        >>> from penstock import Agent, ModelSettings
        >>> careful = ModelSettings(temperature=0.2, thinking="high")
        >>> Agent("clerk", model_settings=careful).model_settings.thinking
        'high'
    """

    temperature: float | None = None
    """The sampling temperature, from 0 to 2."""
    top_p: float | None = None
    """The share of the probability mass that sampling considers, from 0 to 1."""
    max_tokens: int | None = None
    """The longest reply, in tokens, without the room that a level of thinking adds."""
    stop: tuple[str, ...] | None = None
    """Texts that end the reply; at most 16."""
    seed: int | None = None
    """A seed for sampling."""
    thinking: str | None = None
    """`off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`."""
    parallel_calls: bool | None = None
    """Whether one reply may ask for several calls."""
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the id of the tool to call. The last two hold until the model
    has called: it must be able to answer."""
    timeout: float | None = None
    """How many seconds one reply may take, without the wait for a free slot."""
    cache_ttl: str | None = None
    """How long the provider keeps the beginning of a request: `5m` or `1h`."""
    extra: Mapping[str, Any] | None = None
    """Members to add to the body of a request; null removes one. Merged with those below."""

    def __post_init__(self) -> None:
        """Check each value."""
        for problem in _problems(self):
            raise ValueError(problem)

    def over(self, other: "ModelSettings") -> "ModelSettings":
        """Return these settings, completed with others.

        Args:
            other: The settings of the level below.

        Returns:
            Each setting of this level, or else of the other one.
        """
        if self == NOTHING_SET:
            return other
        mine = {name: value for name, value in asdict(self).items() if value is not None}
        if other.extra is not None:
            mine["extra"] = {**other.extra, **(self.extra or {})}
        return replace(other, **mine)


def _problems(settings: ModelSettings) -> Iterator[str]:
    for name, (low, high) in RANGES.items():
        value = getattr(settings, name)
        is_number = isinstance(value, int if name in _WHOLE else int | float)
        if value is None or (is_number and type(value) is not bool and low <= value <= high):
            continue
        whole = "a whole number " if name in _WHOLE else ""
        yield f"{name} must be {whole}from {low:,} to {high:,}, found {value!r}"
    for name, words in (("thinking", THINKING), ("cache_ttl", CACHE_TTLS)):
        if (word := getattr(settings, name)) is not None and word not in words:
            yield f"{name} must be {', '.join(words[:-1])} or {words[-1]}, found {word!r}"
    stop: Any = settings.stop or ()
    is_list = isinstance(stop, list | tuple) and len(stop) <= MAX_STOPS
    if not is_list or not all(map(_is_stop, stop)):
        yield f"stop must be at most {MAX_STOPS} texts of 1 to {MAX_STOP_CHARS} characters"
    choice: Any = settings.tool_choice
    if choice is not None and not (isinstance(choice, str) and choice):
        yield f"tool_choice must be auto, none, required or the id of a tool, found {choice!r}"
    if not isinstance(settings.parallel_calls, bool | None):
        yield f"parallel_calls must be True or False, found {settings.parallel_calls!r}"
    if not isinstance(settings.extra, dict | None):
        yield f"extra must be a dict of members of a request, found {settings.extra!r:.80}"
    try:
        msgspec.json.encode(settings.extra)  # refuses lone surrogates, and accepts dates and bytes
        as_stored(settings.extra)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"extra must be JSON: {error}"


def _is_stop(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MAX_STOP_CHARS


NOTHING_SET = ModelSettings()


def stored_settings(settings: ModelSettings) -> dict[str, Any] | None:
    """Return settings as the log of a conversation has them; None if nothing is set."""
    values: dict[str, Any] = as_stored(to_builtins(settings))
    return values or None


def completed(request: ModelRequest, settings: ModelSettings) -> ModelRequest:
    """Return the request with these settings where it has none."""
    if settings is NOTHING_SET:
        return request
    given = _given(settings, request)
    changes = {name: value for name, value in given if getattr(request, name) is None}
    if settings.stop and not request.stop:
        changes["stop"] = settings.stop
    if settings.extra:
        changes["extra"] = {**settings.extra, **request.extra}
    return replace(request, **changes)


def overridden(request: ModelRequest, settings: ModelSettings) -> ModelRequest:
    """Return the request with these settings in place of its own."""
    changes = dict(_given(settings, request))
    if settings.stop is not None:
        changes["stop"] = settings.stop
    if settings.extra:
        changes["extra"] = {**request.extra, **settings.extra}
    return replace(request, **changes)


def _given(settings: ModelSettings, request: ModelRequest) -> Iterator[tuple[str, Any]]:
    for name in _MERGED:
        if (value := getattr(settings, name)) is None:
            continue
        # A model that must call a tool in each request would never answer.
        if name == "tool_choice" and value not in _FREE and _has_results(request):
            continue
        yield name, value


def _has_results(request: ModelRequest) -> bool:
    """Whether the request follows calls; reminders of the runtime may follow them."""
    for message in reversed(request.messages):
        if not (type(message) is UserMessage and message.is_note):
            return type(message) is ToolMessage
    return False
