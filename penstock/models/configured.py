"""A model with the settings and limits of its entry in penstock.toml.

Guarantees that a setting which a request does not have is that of the entry; that a setting which
the model cannot follow is left out, with one warning per model and setting, instead of refused;
and that a request is sent when the limits of the model admit it. Time in the queue is reported
with Waiting events, so that the caller does not count it as work. Proof:
tests/models/test_configured.py.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from penstock.core.clock import Clock
from penstock.core.errors import ModelUnavailable
from penstock.models.limiter import Limiter, Pass
from penstock.models.model import Finished, Model, ModelCard, ModelEvent, ModelRequest, Waiting
from penstock.models.names import OFF
from penstock.models.settings import ModelSettings, completed

log = logging.getLogger(__name__)

ANTHROPIC, OPENAI, RESPONSES = "anthropic", "openai", "openai-responses"
_NATIVE = (ANTHROPIC, OPENAI, RESPONSES)
_OFF_MODES = {"disabled", "between_tools"}
_FREE_CHOICES = (None, "auto", "none")


class ConfiguredModel:
    """A model behind its settings and limits."""

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        limiter: Limiter,
        clock: Clock,
        *,
        user_ids: bool = True,
    ) -> None:
        self.card = model.card
        self.model = model
        """The model itself."""
        self.limiter = limiter
        self._settings = settings
        self._clock = clock
        self._user_ids = user_ids
        self._warned: set[str] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive, and Waiting events before them."""
        request = self._prepared(request)
        tokens = request.estimated_tokens
        entered = self.limiter.try_enter(tokens)
        if entered is None:
            since = self._clock.monotonic()
            yield Waiting()
            entered = await self.limiter.enter(request.conversation or "", tokens)
            try:
                yield Waiting(self._clock.monotonic() - since)
            except BaseException:
                self.limiter.leave(entered, used=0)
                raise
        async with aclosing(self._sent(request, entered)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Close the connections."""
        await self.limiter.close()
        await self.model.close()

    async def _sent(self, request: ModelRequest, entered: Pass) -> AsyncGenerator[ModelEvent, None]:
        used: int | None = None
        try:
            async with aclosing(self.model.stream(request)) as events:
                seconds = request.timeout
                timed = events if seconds is None else _in_time(events, seconds, self.card)
                async for event in timed:
                    if type(event) is Finished:
                        used = event.usage.input_tokens + event.usage.output_tokens
                        self.limiter.succeed()
                        yield _without_usual_price(event, request)
                    else:
                        yield event
        except ModelUnavailable as error:
            if error.is_throttled:
                used = 0
                self.limiter.throttle(error.retry_after)
            raise
        finally:
            self.limiter.leave(entered, used=used)

    def _prepared(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the settings of the entry that are possible."""
        request = completed(request, self._settings)
        if request.user is not None and not self._user_ids:
            request = replace(request, user=None)
        left_out = dict(_impossible(request, self.card))
        for name, (_, why) in left_out.items():
            if name not in self._warned:
                self._warned.add(name)
                log.warning("the model %r %s: %s is left out", self.card.model_id, why, name)
        if request.thinking == OFF and OFF not in self._warned and _always_thinks(self.card):
            self._warned.add(OFF)
            log.warning(
                "the model %r cannot turn thinking off: it thinks little", self.card.model_id
            )
        if not left_out:
            return request
        changes: dict[str, Any] = {name: value for name, (value, _) in left_out.items()}
        return replace(request, **changes)


def _impossible(request: ModelRequest, card: ModelCard) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield each setting that the model cannot follow, what to send instead, and why.

    Only the wires of penstock's own know; the others decide by themselves.
    """
    if card.api not in _NATIVE:
        return
    if not card.sampling:
        for name in ("temperature", "top_p"):
            if getattr(request, name) is not None:
                yield name, (None, "accepts no sampling settings")
    if request.seed is not None and card.api != OPENAI:
        yield "seed", (None, "accepts no seed")
    if request.stop and card.api == RESPONSES:
        yield "stop", ((), "accepts no stop texts")
    if request.thinking not in {None, OFF} and not (card.thinking_modes or card.efforts):
        yield "thinking", (None, "has no levels of thinking")
    if request.tool_choice not in _FREE_CHOICES and not card.forced_tool_choice:
        yield "tool_choice", (None, "cannot be forced to call a tool")


def _always_thinks(card: ModelCard) -> bool:
    """Whether the lowest level of thinking of the model is not `off`."""
    if card.thinking_modes:
        return not _OFF_MODES & set(card.thinking_modes)
    return bool(card.efforts) and "none" not in card.efforts


def _without_usual_price(finished: Finished, request: ModelRequest) -> Finished:
    """Return the event without a cost if the request asked for a tier of its own."""
    if "service_tier" not in request.extra:
        return finished
    return replace(finished, usage=replace(finished.usage, cost_usd=None), is_usual=False)


async def _in_time(
    events: AsyncGenerator[ModelEvent, None], seconds: float, card: ModelCard
) -> AsyncGenerator[ModelEvent, None]:
    """Yield events until the time is up. Raises ModelUnavailable."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        # A timeout around a `yield` would cancel the reader, which works between two events.
        try:
            async with asyncio.timeout_at(end):
                event = await anext(events)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ModelUnavailable(
                f"the model {card.model_id!r} did not end its reply within {seconds:g} s, "
                "the timeout of its settings"
            ) from None
        yield event
