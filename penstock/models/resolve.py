"""Finds a model by its name: one of penstock.toml, or `provider:model`.

Guarantees that each model is created once and keeps its connections until `close`; that a missing
key, package or address is a ConfigError with what to do about it, before the first request; and
that a key of the environment is used for its provider's own address only. No SDK is imported here:
adapters are loaded by `late`, and those of Pydantic AI take so long that a thread loads them at the
first request (`LazyModel`). Proof: tests/models/test_resolve.py.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, Protocol

from msgspec import Struct

from penstock.core.clock import Clock, SystemClock
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError, ModelRefused
from penstock.core.late import is_installed, late
from penstock.core.limits import Limits
from penstock.models.configured import ConfiguredModel
from penstock.models.fallback import Fallback, common_card, fallback_of
from penstock.models.limiter import limiter_of
from penstock.models.model import Model, ModelCard, ModelEvent, ModelRequest
from penstock.models.prices import PriceTable, shipped_prices
from penstock.models.providers import (
    ADAPTED,
    OFFLINE,
    OPENAI,
    PROVIDERS,
    ModelConfig,
    key_variable,
    provider_of,
)
from penstock.models.settings import NOTHING_SET, ModelSettings
from penstock.models.wires.openai_card import chat_card, responses_card

MAX_MODELS = 1000
"""Most models in use at once; each name `provider:model` is one."""

log = logging.getLogger(__name__)
_REFUSED = "is not asked: models of providers are not allowed here. Pass a ScriptedModel"


class MakeModel(Protocol):
    """Creates a model from its configuration."""

    def __call__(self, config: ModelConfig, limits: Limits) -> Model:
        """Create the model, without contacting its provider."""
        ...


class ModelDefaults(Struct, frozen=True, kw_only=True):
    """Defaults for all models of a project."""

    settings: ModelSettings = NOTHING_SET
    """Settings of requests to models that do not set them."""
    prices: Callable[[], PriceTable] = shipped_prices
    """Returns the table of known models; called when the first of them is used."""
    clock: Clock = SystemClock()
    user_ids: bool = True
    """Whether requests name the person that they are for by an opaque id."""


class ModelRegistry:
    """The models of a project. Each is created when first requested."""

    asks_providers: ClassVar[bool] = True

    def __init__(
        self,
        configs: Sequence[ModelConfig] = (),
        *,
        default: str = OFFLINE,
        limits: Limits | None = None,
        keys: Mapping[str, str] | None = None,
        defaults: ModelDefaults | None = None,
        problem_of: Callable[[str], str | None] | None = None,
    ) -> None:
        """Register the configured models. `keys` maps environment variables to providers' keys.

        `defaults` hold for all models.
        `problem_of` checks a provider that is not in our list. By default Pydantic AI does.
        """
        self._configs = {OFFLINE: ModelConfig(name=OFFLINE, provider=OFFLINE)}
        self._configs |= {config.name: config for config in configs}
        self._limits = limits or Limits()
        self._keys = keys or {}
        self._defaults = defaults or ModelDefaults()
        self._problem_of = problem_of or _provider_problem
        self._made: dict[str, Model] = {}
        self.default = default
        """The name of the model that is used when none is requested."""

    def get(self, name: str | None = None) -> Model:
        """Return the model of this name; None is the default. Raises ConfigError."""
        model_name = name or self.default
        if (model := self._made.get(model_name)) is None:
            # Each model keeps connections, and names come from requests: so there is a bound. The
            # operator's own models are made nevertheless.
            if model_name not in self._configs and len(self._made) >= MAX_MODELS:
                raise ConfigError(
                    f"{MAX_MODELS} models are in use, the maximum of one process, so "
                    f"{model_name!r} is refused; use one of them, or restart the process"
                )
            if not ModelRegistry.asks_providers and self._is_of_provider(model_name):
                raise ConfigError(f"the model {model_name!r} {_REFUSED}: call allow_models(True)")
            model = self._made[model_name] = self._make(model_name)
        return model

    @classmethod
    def allow_providers(cls, *, allowed: bool) -> None:
        """Let this process ask models of providers, or refuse to make any."""
        ModelRegistry.asks_providers = allowed

    def _is_of_provider(self, name: str) -> bool:
        config = self._configs.get(name)
        return ":" in name if config is None else config.provider != OFFLINE

    async def look_up(self, name: str) -> None:
        """Load the library that knows the provider of this name, in a thread, before `get`."""
        config = self._configs.get(name)
        if config is not None and config.models:
            for each in config.models:
                await self.look_up(each)
            return
        provider = name.partition(":")[0] if config is None else config.provider
        is_known = name in self._made or provider in PROVIDERS
        if (config or ":" in name) and not is_known:
            await asyncio.to_thread(self._problem_of, provider)

    def has(self, name: str) -> bool:
        """Whether the settings or the program define a model of this name."""
        return name in self._configs or name in self._made

    def find(self, name: str) -> Model | None:
        """Return the model of this name, or None if there is none or it cannot be used."""
        try:
            return self.get(name)
        except ConfigError:
            return None

    def has_thinking(self, name: str | None = None) -> bool:
        """Whether the model of this name supports levels of thinking, as far as is known.

        Raises ConfigError for an unknown name.
        """
        model_name = name or self.default
        if model_name in self._made:
            return True
        config = self._configs.get(model_name) or self._named_by_provider(model_name)
        match config.wire:
            case "openai":
                return bool(chat_card(_at_home(config)).efforts)
            case "openai-responses":
                return bool(responses_card(config).efforts)
            case _:
                return config.provider != OFFLINE

    def add(self, model: Model) -> None:
        """Register a model object under the `model_id` of its card."""
        bound = model.bound(self.get) if isinstance(model, Fallback) else model
        self._made[model.card.model_id] = bound

    def cards(self) -> list[ModelCard]:
        """Return the card of each named model, the default first, then by name."""
        cards = {name: self._described(config) for name, config in self._configs.items()}
        cards |= {name: model.card for name, model in self._made.items()}
        return sorted(
            cards.values(), key=lambda card: (card.model_id != self.default, card.model_id)
        )

    def named(self, name: str) -> ModelCard:
        """Return the card of a model, also if it lacks a key. Raises ConfigError."""
        config = self._configs.get(name)
        if (config is None or not config.models) and (model := self.find(name)) is not None:
            return model.card
        return self._described(config or self._named_by_provider(name))

    def _described(self, config: ModelConfig) -> ModelCard:
        """Return the card that the model would have. No model is created for it."""
        if config.models:
            cards = [self.named(each) for each in config.models]
            named = ModelCard(model_id=config.name, name=config.name, provider="fallback")
            return common_card(named, cards)
        config = self._known(config)
        match config.wire:
            case "anthropic":
                describe: Callable[[ModelCard], ModelCard]
                describe = late("penstock.models.wires.anthropic_request:claude_card")
                return config.of_operator(describe(config.card))
            case "openai-responses":
                return responses_card(config)
            case None:
                return config.card
            case _:
                return chat_card(_at_home(config))

    async def close(self) -> None:
        """Close the connections of every model that was used."""
        models, self._made = self._made, {}
        closing = [model.close() for model in models.values()]
        # One model that cannot be closed must not keep the others open.
        ended = await asyncio.gather(*closing, return_exceptions=True)
        for name, error in zip(models, ended, strict=True):
            if error is not None:
                log.warning("the model %r could not be closed: %s", name, error)

    def _make(self, name: str) -> Model:
        config = self._configs.get(name) or self._named_by_provider(name)
        if config.models:
            return fallback_of(config, self._configs, self.get, self._defaults.clock)
        config = self._known(config)
        if config.provider == OFFLINE:
            offline: Callable[..., Model] = late("penstock.models.offline:OfflineModel")
            return offline(card=config.card)
        clock = self._defaults.clock
        place = config.provider, config.wire, config.base_url, config.model, config.api_key
        limiter = limiter_of(place, config.limits, clock)
        model = self._adapter(replace(config, on_headers=limiter.hold_if_spent))
        shows_user = self._defaults.user_ids
        return ConfiguredModel(model, config.settings, limiter, clock, user_ids=shows_user)

    def _adapter(self, config: ModelConfig) -> Model:
        if config.wire is None:
            return _adapted(config, self._limits)
        named = config if config.wire == OPENAI else _with_model(config)
        return _adapter(config.wire)(_with_address(named), self._limits)

    def _known(self, config: ModelConfig) -> ModelConfig:
        """Return the configuration with what the table of known models says."""
        if config.provider == OFFLINE:
            return config
        settings = config.settings.over(self._defaults.settings)
        known = config.known(self._defaults.prices())
        return known if settings is config.settings else replace(known, settings=settings)

    def _named_by_provider(self, name: str) -> ModelConfig:
        """Return the configuration for `provider:model`.

        If penstock.toml has this model, all of its entry is used; if it has another one of the
        provider, how to reach the provider: address, wire and key.
        """
        provider, colon, model = name.partition(":")
        if colon and not model:
            raise ConfigError(f"there is no model {name!r}: write its name after the colon")
        if not colon:
            raise ConfigError(
                f"there is no model {name!r}.{did_you_mean(name, self._configs)} "
                f"There are {', '.join(self._configs)}; or write provider:model"
            )
        entries = self._configs.values()
        of_provider = [each for each in entries if each.provider == provider and not each.models]
        # An entry without a model describes a server, which has one model or asks all alike.
        same = [each for each in of_provider if each.model in {model, ""}]
        if same:
            return replace(max(same, key=lambda each: each.model), name=name, model=model)
        if of_provider:
            # Another model: what that one can do, costs and sets is not known of this one.
            return of_provider[0].reaching(name, model)
        variable = key_variable(provider, self._keys)
        return ModelConfig(
            name=name,
            provider=provider,
            model=model,
            api_key=self._keys.get(variable or ""),
            key_env=variable,
        )


class RegistryWithoutProviders(ModelRegistry):
    """Asks no model of a provider, where tests run.

    If the default model is an object of the program, it answers for all of them. Otherwise they are
    refused.
    """

    def _make(self, name: str) -> Model:
        if not self._is_of_provider(name):
            return super()._make(name)
        answers = self._made.get(self.default) if self.default not in self._configs else None
        if answers is not None:
            return answers
        raise ConfigError(f"the model {name!r} {_REFUSED}, or set PENSTOCK_ALLOW_MODELS=true")


class LazyModel:
    """A model whose library is loaded in a thread at its first request."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        self.card = config.card
        self._config = config
        self._limits = limits
        self._loading = asyncio.Lock()
        self._model: Model | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply as they arrive."""
        # The lock keeps two first requests from creating two models, each with its connections.
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(self._loaded)
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Close the connections."""
        if self._model is not None:
            await self._model.close()

    def _loaded(self) -> Model:
        try:
            make: MakeModel = late(
                "penstock.models.wires.pydantic_ai:PydanticAIModel",
                extra="openai",
                what=f"the model {self._config.name!r}",
            )
            return make(self._config, self._limits)
        except ConfigError as error:
            raise ModelRefused(str(error)) from error


def _at_home(config: ModelConfig) -> ModelConfig:
    return replace(config, base_url=config.base_url or provider_of(config.provider).base_url)


def _with_address(config: ModelConfig) -> ModelConfig:
    if (base_url := config.base_url or provider_of(config.provider).base_url) is None:
        raise ConfigError(
            f"the model {config.name!r} of provider {config.provider!r} needs a base_url, "
            "such as http://127.0.0.1:8080/v1"
        )
    config.check_key(base_url)
    return replace(config, base_url=base_url)


def _adapter(wire: str) -> MakeModel:
    make: MakeModel
    match wire:
        case "anthropic":
            make = late("penstock.models.wires.anthropic:AnthropicModel")
        case "openai-responses":
            make = late("penstock.models.wires.responses:ResponsesModel")
        case _:
            make = late("penstock.models.wires.openai:OpenAIModel")
    return make


def _adapted(config: ModelConfig, limits: Limits) -> LazyModel:
    if config.provider not in ADAPTED:
        _check_other(config)
    elif config.model:
        provider = ADAPTED[config.provider]
        if not (is_installed("pydantic_ai") and is_installed(provider.package)):
            raise ConfigError(
                f"the model {config.name!r} of provider {config.provider!r} needs a package that is"
                f" not installed: pip install '{provider.requirement}'"
            )
    _with_model(config).check_key(config.base_url)
    return LazyModel(config, limits)


def _with_model(config: ModelConfig) -> ModelConfig:
    """Return the configuration. Raises ConfigError if it lacks the provider's name of the model."""
    if not config.model:
        raise ConfigError(
            f"the model {config.name!r} needs `model`, the name that {config.provider} has for it"
        )
    return config


def _check_other(config: ModelConfig) -> None:
    """Raise ConfigError for a provider that Pydantic AI does not know, or that lacks a package."""
    problem = _provider_problem(config.provider)
    if problem == "":
        return
    if problem:
        raise ConfigError(f"the model {config.name!r} of provider {config.provider!r}: {problem}")
    known = sorted(PROVIDERS)
    how = "" if is_installed("pydantic_ai") else ": pip install pydantic-ai-slim"
    raise ConfigError(
        f"the model {config.name!r} has the unknown provider {config.provider!r}."
        f"{did_you_mean(config.provider, known)} There are {', '.join(known)}, "
        f"and what else Pydantic AI speaks to{how}"
    )


def _provider_problem(provider: str) -> str | None:
    """Return what a provider lacks here, or an empty text; None for an unknown provider."""
    if not is_installed("pydantic_ai"):
        return None
    problem: Callable[[str], str | None] = late(
        "penstock.models.wires.pydantic_ai:provider_problem"
    )
    return problem(provider)
