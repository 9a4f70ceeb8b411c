"""Several models as one: the next one is asked when a model fails.

Guarantees that a reply comes from one model: the next one is asked only before the first piece of
text or reasoning was passed on. Pieces of calls are held back until then, because they are not
shown before the reply is whole. The reply names the model that answered. A carry is sent to the
provider and family that wrote it and to no other, so the next model reads text and calls only, and
the first one reads its own thinking again when it is back. Proof: tests/models/test_fallback.py.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import (
    CarryRefused,
    ConfigError,
    ContextTooLarge,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    PenstockError,
)
from penstock.core.messages import Usage
from penstock.models.limiter import MAX_HOLD_SECONDS
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelCard,
    ModelEvent,
    ModelRequest,
    Waiting,
    failure_of,
    usage_of,
)
from penstock.models.prices import UNKNOWN, Prices
from penstock.models.providers import ModelConfig

log = logging.getLogger(__name__)

MovesOn = type[ModelError] | tuple[type[ModelError], ...] | Callable[[ModelError], bool]
Around = Callable[[Model], Model]
_ERRORS = {each.__name__: each for each in (ContextTooLarge, ModelRefused)}
"""The errors that `on` of an entry may name."""
_ALL = ("tools", "json_schema", "forced_tool_choice")
_ANY = ("images", "pdf", "audio", "tool_images")
_MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


class Fallback:
    """A model that asks the next of several when one fails.

    The next model is asked if one cannot be reached, or refuses for its rate of requests for longer
    than 30 seconds or twice. `on` adds other errors. Nothing of the reply has been shown then.

    Args:
        *models: Models, or their names, the preferred one first.
        on: Errors after which the next model is asked, too: classes, or a function of the error.
        clock: The clock of the wait after a 429.

    Raises:
        ValueError: There are fewer than two models.
        ConfigError: One is neither a model nor a name.

    Example:
        >>> from penstock import Agent, Fallback
        >>> model = Fallback("openai:gpt-5", "anthropic:claude-sonnet-5")
        >>> Agent("guide", model=model).model.card.model_id
        'openai:gpt-5 | anthropic:claude-sonnet-5'
    """

    def __init__(self, *models: str | Model, on: MovesOn = (), clock: Clock | None = None) -> None:
        if len(models) < len(("first", "second")):
            raise ValueError(f"Fallback needs two models or more, found {len(models)}")
        for each in models:
            if not isinstance(each, str) and not isinstance(getattr(each, "card", 0), ModelCard):
                raise ConfigError(f"Fallback takes models or their names, found {each!r}")
        self.models = models
        """The models, as they were given."""
        self._on = on
        self._clock = clock or SystemClock()
        ids = [each if isinstance(each, str) else each.card.model_id for each in models]
        self.card = ModelCard(model_id=" | ".join(ids), name=ids[0], provider="fallback")
        """The id of all of them; what they can do is known in a project."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the first reply that succeeds.

        Args:
            request: All that the model sees.

        Yields:
            The events of one model.

        Raises:
            ConfigError: A model is a name. Names are looked up by the runtime that has the agent.
            ModelError: The last model failed, or one after its first piece.
        """
        return self.bound(_unnamed).stream(request)

    async def close(self) -> None:
        """Do nothing: each model is closed by its owner."""

    def bound(self, find: Callable[[str], Model], name: str = "") -> "BoundFallback":
        """Return the model whose names are looked up with `find`.

        Args:
            find: Returns a model by its name.
            name: The id of the model, if it has one of its own.

        Returns:
            A model that knows what all of them can do.
        """
        card = replace(self.card, model_id=name, name=name) if name else self.card
        return BoundFallback(self, card, find)

    def moves_on(self, error: ModelError) -> bool:
        """Return whether the next model is asked after an error.

        Args:
            error: The error of a model.

        Returns:
            False for a carry that its provider refuses: the same model is asked without it.
        """
        if isinstance(error, CarryRefused):
            return False
        if isinstance(error, ModelUnavailable):
            return True
        on = self._on
        return isinstance(error, on) if isinstance(on, type | tuple) else on(error)

    @property
    def clock(self) -> Clock:
        """The clock of its waits."""
        return self._clock


class BoundFallback:
    """The models of a Fallback in one project."""

    def __init__(
        self, fallback: Fallback, card: ModelCard, find: Callable[[str], Model], *around: Around
    ) -> None:
        self._fallback = fallback
        self._card = card
        self._find = find
        self._around = around

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models. Raises ConfigError for a name that does not exist."""
        given = self._fallback.models
        models = [self._find(each) if isinstance(each, str) else each for each in given]
        for wrap in self._around:
            models = [wrap(each) for each in models]
        return tuple(models)

    @cached_property
    def card(self) -> ModelCard:
        """The abilities of its models."""
        return common_card(self._card, [model.card for model in self.models])

    def with_each(self, wrap: Around) -> "BoundFallback":
        """Return the same with a wrapper around each model."""
        return BoundFallback(self._fallback, self._card, self._find, *self._around, wrap)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the first reply that succeeds."""
        *others, last = self.models
        for model in others:
            reply = _Reply(model)
            try:
                async with aclosing(self._waited(reply, request)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if reply.is_shown or not self._fallback.moves_on(error):
                    raise
                log.warning("the model %r failed: %s; the next one is asked", reply.name, error)
            else:
                return
        async with aclosing(_Reply(last).events(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Do nothing: each model is closed by its owner."""

    async def _waited(
        self, reply: "_Reply", request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of one model; after a 429, ask it once more if it names a short wait."""
        try:
            async with aclosing(reply.events(request)) as events:
                async for event in events:
                    yield event
        except ModelUnavailable as error:
            seconds = error.retry_after
            if not error.is_throttled or seconds is None or seconds > MAX_HOLD_SECONDS:
                raise
            if reply.is_shown:
                raise
        else:
            return
        yield Waiting()
        await self._fallback.clock.sleep(seconds)
        yield Waiting(max(seconds, 0.0))
        async with aclosing(reply.events(request)) as events:
            async for event in events:
                yield event


class _Reply:
    """The reply of one of the models."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.card.model_id
        self.is_shown = False
        """A piece of it was passed on."""

    async def events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events; pieces of calls only after something else was shown."""
        held: list[ModelEvent] = []
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if type(event) is CallDelta and not self.is_shown:
                        held.append(event)
                        continue
                    if type(event) is Waiting:
                        yield event
                        continue
                    self.is_shown = True
                    for piece in held:
                        yield piece
                    held = []
                    if type(event) is Finished:
                        # The card of the Fallback has the highest prices of its models.
                        usage = usage_of(self._model.card, event)
                        yield replace(event, usage=usage, model=event.model or self.name)
                    else:
                        yield event
        except PenstockError:
            raise
        except Exception as error:
            raise failure_of(self._model.card, error) from error


def _unnamed(name: str) -> Model:
    raise ConfigError(
        f"the model {name!r} of a Fallback is a name: give the Fallback to an agent of a runtime, "
        "or give it the model itself"
    )


def fallback_of(
    config: ModelConfig,
    configs: Mapping[str, ModelConfig],
    find: Callable[[str], Model],
    clock: Clock,
) -> BoundFallback:
    """Return the Fallback of an entry of penstock.toml. Raises ConfigError for a wrong name."""
    for each in config.models:
        if (listed := configs.get(each)) is not None and listed.models:
            raise ConfigError(
                f"the model {config.name!r} lists {each!r}, which lists models itself: "
                f"write {', '.join(listed.models)} instead"
            )
    on = tuple([_ERRORS[each] for each in config.on])
    made = Fallback(*config.models, on=on, clock=clock).bound(find, config.name)
    _ = made.card  # raises for a model that does not exist or lacks its key
    return made


def around_each(model: Model, wrap: Around) -> Model:
    """Return a model with a wrapper; a Fallback with one around each of its models."""
    return model.with_each(wrap) if isinstance(model, BoundFallback) else wrap(model)


def common_card(card: ModelCard, cards: Sequence[ModelCard]) -> ModelCard:
    """Return the card of a Fallback, completed with what its models can do.

    All of them must know tools and schemas. Files are converted for each model by itself, so one
    that reads them is enough. Schemas differ by provider, so that has to be the same one.
    """
    common: dict[str, Any] = {name: all(getattr(each, name) for each in cards) for name in _ALL}
    common |= {name: any(getattr(each, name) for each in cards) for name in _ANY}
    if len({(each.api, each.provider) for each in cards}) == 1:
        common |= {"api": cards[0].api, "provider": cards[0].provider}
    else:
        common["json_schema"] = False
    return replace(
        card,
        context_tokens=_least([each.context_tokens for each in cards]),
        reply_tokens=_least([each.reply_tokens for each in cards]),
        prices=_dearest([each.prices for each in cards]),
        **common,
    )


def _least(counts: Sequence[int | None]) -> int | None:
    return min((count for count in counts if count is not None), default=None)


def _dearest(prices: Sequence[Prices]) -> Prices:
    """Return the highest prices, because a budget must cover any of them; unknown if one is."""
    costs = [each.cost(_MILLION) for each in prices]
    if None in costs:
        return UNKNOWN
    return max(prices, key=lambda each: each.cost(_MILLION) or 0.0)
