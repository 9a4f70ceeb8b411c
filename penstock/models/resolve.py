"""A model by its name: one of penstock.toml, or `provider:model`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import ConfigError, ModelRefused
from penstock.core.late import is_installed, late
from penstock.core.limits import Limits
from penstock.models.config import ModelConfig
from penstock.models.model import Model, ModelCard, ModelEvent, ModelRequest
from penstock.models.openai_request import has_thinking
from penstock.models.providers import (
    ADAPTED,
    COMPATIBLE,
    OFFLINE,
    PROVIDERS,
    key_variable,
    provider_of,
)

log = logging.getLogger(__name__)


class MakeModel(Protocol):
    """Makes a model from what the operator says about it."""

    def __call__(self, config: ModelConfig, limits: Limits) -> Model:
        """Make the model; nothing is contacted yet."""
        ...


class Models:
    """The models of a project: made when first asked for, each once."""

    def __init__(
        self,
        configs: Sequence[ModelConfig] = (),
        *,
        default: str = OFFLINE,
        limits: Limits | None = None,
        keys: Mapping[str, str] | None = None,
        problem_of: Callable[[str], str | None] | None = None,
    ) -> None:
        """Keep what is said about models; `keys` are those of providers, by their variable.

        `problem_of` loads what knows a provider that is not in our list; without it, Pydantic AI.
        """
        self._configs = {OFFLINE: ModelConfig(name=OFFLINE, provider=OFFLINE)}
        self._configs |= {config.name: config for config in configs}
        self._limits = limits or Limits()
        self._keys = keys or {}
        self._problem_of = problem_of or _provider_problem
        self._made: dict[str, Model] = {}
        self.default = default
        """The name of the model that is used when none is asked for."""

    def get(self, name: str | None = None) -> Model:
        """Return the model of this name; None is the default. Raises ConfigError."""
        wanted = name or self.default
        if (made := self._made.get(wanted)) is None:
            if len(self._made) >= self._limits.models:
                raise ConfigError(
                    f"{self._limits.models} models are in use, as many as limits.models allows: "
                    f"write the model {wanted!r} to penstock.toml, or raise the limit"
                )
            made = self._made[wanted] = self._make(wanted)
        return made

    async def look_up(self, name: str) -> None:
        """Load what `get` needs for a provider that only a costly library knows, in a thread."""
        config = self._configs.get(name)
        provider = name.partition(":")[0] if config is None else config.provider
        is_known = name in self._made or provider in PROVIDERS
        if (config or ":" in name) and not is_known:
            await asyncio.to_thread(self._problem_of, provider)

    def has(self, name: str) -> bool:
        """Whether a model was named so, in the settings or by the program."""
        return name in self._configs or name in self._made

    def find(self, name: str) -> Model | None:
        """Return the model of this name, or None if there is none that works here."""
        try:
            return self.get(name)
        except ConfigError:
            return None

    def has_thinking(self, name: str | None = None) -> bool:
        """Whether the model of this name can be told how much to think, as far as is known.

        Raises ConfigError for a name that means nothing.
        """
        wanted = name or self.default
        if wanted in self._made:
            return True
        config = self._configs.get(wanted) or self._named_by_provider(wanted)
        if config.provider not in COMPATIBLE:
            return config.provider != OFFLINE
        known = replace(config, base_url=config.base_url or provider_of(config.provider).base_url)
        return has_thinking(known)

    def add(self, model: Model) -> None:
        """Offer a model that the program made itself, under the `model_id` of its card."""
        self._made[model.card.model_id] = model

    def cards(self) -> list[ModelCard]:
        """Return what is known about each named model, the default first, then by name."""
        cards = {name: config.card for name, config in self._configs.items()}
        cards |= {name: model.card for name, model in self._made.items()}
        return sorted(
            cards.values(), key=lambda card: (card.model_id != self.default, card.model_id)
        )

    async def close(self) -> None:
        """Give back the connections of every model that was used."""
        made, self._made = self._made, {}
        closing = [model.close() for model in made.values()]
        ended = await asyncio.gather(*closing, return_exceptions=True)
        for name, error in zip(made, ended, strict=True):
            if error is not None:
                log.warning("the model %r could not be closed: %s", name, error)

    def _make(self, name: str) -> Model:
        config = self._configs.get(name) or self._named_by_provider(name)
        if config.provider == OFFLINE:
            offline: Callable[..., Model] = late("penstock.models.offline:OfflineModel")
            return offline(card=config.card)
        if config.provider in COMPATIBLE:
            make: MakeModel = late("penstock.models.openai:OpenAIModel")
            return make(_placed(config), self._limits)
        return _adapted(config, self._limits)

    def _named_by_provider(self, name: str) -> ModelConfig:
        """Return what `provider:model` means: an entry of that provider gives key and address."""
        provider, colon, model = name.partition(":")
        if colon and not model:
            raise ConfigError(f"there is no model {name!r}: write its name behind the colon")
        if not colon:
            raise ConfigError(
                f"there is no model {name!r}.{did_you_mean(name, self._configs)} "
                f"There are {', '.join(self._configs)}; or write provider:model"
            )
        known = ModelConfig(name=name, provider=provider, model=model)
        for config in self._configs.values():
            if config.provider == provider:
                return replace(
                    known,
                    base_url=config.base_url,
                    api_key=config.api_key,
                    key_env=config.key_env,
                )
        variable = key_variable(provider, self._keys)
        return replace(known, api_key=self._keys.get(variable or ""), key_env=variable)


class LazyModel:
    """A model whose libraries are loaded in a thread when it is first asked."""

    def __init__(self, config: ModelConfig, limits: Limits) -> None:
        self.card = config.card
        self._config = config
        self._limits = limits
        self._loading = asyncio.Lock()
        self._model: Model | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply as it comes."""
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(self._loaded)
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Give connections back."""
        if self._model is not None:
            await self._model.close()

    def _loaded(self) -> Model:
        try:
            make: MakeModel = late(
                "penstock.models.pydantic_ai:PydanticAIModel",
                extra="anthropic",
                what=f"the model {self._config.name!r}",
            )
            return make(self._config, self._limits)
        except ConfigError as error:
            raise ModelRefused(str(error)) from error


def _placed(config: ModelConfig) -> ModelConfig:
    if (base_url := config.base_url or provider_of(config.provider).base_url) is None:
        raise ConfigError(
            f"the model {config.name!r} of provider {config.provider!r} needs a base_url, "
            "such as http://127.0.0.1:8080/v1"
        )
    _check_key(config, base_url)
    return replace(config, base_url=base_url)


def _check_key(config: ModelConfig, base_url: str | None) -> None:
    """Raise ConfigError if the provider wants a key at this address, and there is none."""
    provider = provider_of(config.provider)
    if provider.needs_key and base_url == provider.base_url and not config.api_key:
        variable = config.key_env or provider.key_env[0]
        raise ConfigError(
            f"the model {config.name!r} needs a key: set the environment variable {variable}"
        )


def _adapted(config: ModelConfig, limits: Limits) -> LazyModel:
    if config.provider not in ADAPTED:
        _check_other(config)
    elif config.model:
        provider = ADAPTED[config.provider]
        if not (is_installed("pydantic_ai") and is_installed(provider.package)):
            extra = provider.extra
            wanted = extra if "[" in extra else f"penstock[{extra}]"
            raise ConfigError(
                f"the model {config.name!r} of provider {config.provider!r} needs a package that is"
                f" not installed: pip install '{wanted}'"
            )
    if not config.model:
        raise ConfigError(
            f"the model {config.name!r} needs `model`, the name that {config.provider} has for it"
        )
    _check_key(config, config.base_url)
    return LazyModel(config, limits)


def _check_other(config: ModelConfig) -> None:
    """Raise ConfigError for a provider that Pydantic AI does not know, or that lacks a package."""
    said = _provider_problem(config.provider)
    if said == "":
        return
    if said:
        raise ConfigError(f"the model {config.name!r} of provider {config.provider!r}: {said}")
    known = sorted(PROVIDERS)
    how = "" if is_installed("pydantic_ai") else ": pip install pydantic-ai-slim"
    raise ConfigError(
        f"the model {config.name!r} has the unknown provider {config.provider!r}."
        f"{did_you_mean(config.provider, known)} There are {', '.join(known)}, "
        f"and what else Pydantic AI speaks to{how}"
    )


def _provider_problem(provider: str) -> str | None:
    """Return what a provider lacks here, nothing if nothing; None for one that nobody knows."""
    if not is_installed("pydantic_ai"):
        return None
    problem: Callable[[str], str | None] = late("penstock.models.pydantic_ai:provider_problem")
    return problem(provider)
