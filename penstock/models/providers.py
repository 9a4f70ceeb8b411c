"""The known providers of models, and the configuration of one model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.errors import ConfigError
from penstock.models.limiter import NO_LIMITS, RequestLimits
from penstock.models.model import ModelCard
from penstock.models.prices import UNKNOWN, Prices, PriceTable
from penstock.models.settings import NOTHING_SET, ModelSettings

CONNECT_SECONDS = 10
"""How long a model's server may take to accept a connection. A server that is up accepts in less
than a second, also across the world; lost packets are sent again after 1, 3 and 7 s."""


class Provider(Struct, frozen=True, kw_only=True):
    """How to reach the models of one provider."""

    base_url: str | None = None
    """The address of its API, if it is reached without Pydantic AI."""
    package: str = ""
    """The package that Pydantic AI imports for it; empty without Pydantic AI."""
    extra: str = ""
    """The way to install that package: an extra of penstock, or a requirement."""
    key_env: tuple[str, ...] = ()
    """The environment variables for its key; the first one that is set is used."""
    needs_key: bool = False
    """Whether its own address requires a key."""

    @property
    def requirement(self) -> str:
        """The package to install for it, as pip names it."""
        return self.extra if "[" in self.extra else f"penstock[{self.extra}]"


def _through_pydantic_ai(
    package: str, extra: str, *key_env: str, needs_key: bool = True
) -> Provider:
    return Provider(package=package, extra=extra, key_env=key_env, needs_key=needs_key)


OFFLINE = "offline"
OPENAI = "openai"
COMPATIBLE: Mapping[str, Provider] = {
    OPENAI: Provider(
        base_url="https://api.openai.com/v1", key_env=("OPENAI_API_KEY",), needs_key=True
    ),
    "deepseek": Provider(
        base_url="https://api.deepseek.com", key_env=("DEEPSEEK_API_KEY",), needs_key=True
    ),
    "openai-compatible": Provider(),
    "llama.cpp": Provider(base_url="http://127.0.0.1:8080/v1", key_env=("LLAMA_API_KEY",)),
    "ollama": Provider(base_url="http://127.0.0.1:11434/v1"),
    "vllm": Provider(base_url="http://127.0.0.1:8000/v1", key_env=("VLLM_API_KEY",)),
}
"""Providers with the OpenAI chat API."""
NATIVE: Mapping[str, Provider] = {
    "anthropic": Provider(
        base_url="https://api.anthropic.com", key_env=("ANTHROPIC_API_KEY",), needs_key=True
    ),
    "openai-responses": Provider(
        base_url="https://api.openai.com/v1", key_env=("OPENAI_API_KEY",), needs_key=True
    ),
}
"""Providers with a wire of their own here."""
WIRES = (OPENAI, "openai-responses", "anthropic")
"""The values of `api` of a model."""
ADAPTED: Mapping[str, Provider] = {
    name: _through_pydantic_ai(*how)
    for name, how in {
        "cohere": ("cohere", "pydantic-ai-slim[cohere]", "CO_API_KEY"),
        "fireworks": ("openai", "openai", "FIREWORKS_API_KEY"),
        "google": ("google.genai", "google", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "groq": ("groq", "pydantic-ai-slim[groq]", "GROQ_API_KEY"),
        "huggingface": ("huggingface_hub", "pydantic-ai-slim[huggingface]", "HF_TOKEN"),
        "mistral": ("mistralai", "pydantic-ai-slim[mistral]", "MISTRAL_API_KEY"),
        "openrouter": ("openai", "openai", "OPENROUTER_API_KEY"),
        "together": ("openai", "openai", "TOGETHER_API_KEY"),
    }.items()
} | {
    "bedrock": _through_pydantic_ai(
        "boto3", "pydantic-ai-slim[bedrock]", "AWS_BEARER_TOKEN_BEDROCK", needs_key=False
    ),
    "google-cloud": _through_pydantic_ai("google.genai", "google", needs_key=False),
}
"""Providers reached through Pydantic AI. Those of a cloud find their own credentials.

Any other provider that it knows can be named, too; Pydantic AI then reports what it needs.
"""
_HOW_TO_REACH = (
    *("provider", "base_url", "api", "api_key", "key_env", "requires_key", "organization"),
    *("auth", "api_version"),
)
"""Members of a configuration that are the same for each model of a provider."""
_CHAT = dict.fromkeys(COMPATIBLE, OPENAI)
PROVIDERS: Mapping[str, Provider] = {OFFLINE: Provider(), **COMPATIBLE, **NATIVE, **ADAPTED}
_OTHER = Provider()
_GOOGLE = {"google", "google-cloud"}
_GEMINI_2 = re.compile(r"gemini-[12]\b")
_DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


def provider_of(name: str) -> Provider:
    """Return the entry of a provider; an empty one if it is not listed."""
    return PROVIDERS.get(name, _OTHER)


def key_variable(name: str, keys: Mapping[str, str], base_url: str | None = None) -> str | None:
    """Return the environment variable of a provider's key: the first one that is set.

    None if `base_url` is not the provider's own address: a key must go to its provider only.
    """
    provider = provider_of(name)
    if base_url not in {None, provider.base_url} or not provider.key_env:
        return None
    return next((each for each in provider.key_env if keys.get(each)), provider.key_env[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One model: its provider, address, key and prices."""

    name: str
    """A name in penstock.toml, or `provider:model`."""
    provider: str
    """Empty for a Fallback."""
    models: tuple[str, ...] = ()
    """The names of the models of a Fallback."""
    on: tuple[str, ...] = ()
    """The names of further errors after which it asks the next one."""
    model: str = ""
    """The provider's name for the model."""
    base_url: str | None = None
    """None for the provider's own address."""
    api_key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    """The environment variable of the key, for messages."""
    requires_key: bool = False
    """The settings name that variable, so no request is sent without a key, at any address."""
    organization: str | None = None
    """The organization at OpenAI that the requests are for; None for that of the key."""
    auth: str | None = None
    """`bearer` for a gateway with the Messages API that takes the key as a bearer token."""
    api_version: str | None = None
    """The version of the Messages API; None for the newest one at Anthropic."""
    api: str | None = None
    """The wire, one of WIRES; None for the provider's own."""
    context_tokens: int | None = None
    prices: Prices = UNKNOWN
    """USD per million tokens; a part that is unknown is looked up in the table of prices."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Members added to the body of every request; a member that is null is removed from it."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    """Members of the card that the operator sets. They win over what the model's name tells."""
    settings: ModelSettings = NOTHING_SET
    """Settings of requests that do not set them."""
    limits: RequestLimits = NO_LIMITS
    on_headers: Callable[[Mapping[str, str]], None] | None = field(
        default=None, repr=False, compare=False
    )
    """Receives the headers of each answer, which may report limits."""

    def of_operator(self, card: ModelCard) -> ModelCard:
        """Return the card with the capabilities that the operator sets."""
        return replace(card, **self.capabilities) if self.capabilities else card

    def check_key(self, base_url: str | None) -> None:
        """Raise ConfigError if there is no key where the settings or the provider require one."""
        provider = provider_of(self.provider)
        is_needed = provider.needs_key and base_url == provider.base_url
        if self.api_key or not (is_needed or self.requires_key):
            return
        variable = self.key_env or provider.key_env[0]
        other = "" if is_needed else ", or remove api_key_env if its server wants no key"
        raise ConfigError(
            f"the model {self.name!r} needs a key: set the environment variable {variable}{other}"
        )

    def reaching(self, name: str, model: str) -> "ModelConfig":
        """Return the configuration of another model that is reached in the same way."""
        return ModelConfig(
            name=name,
            model=model,
            **{each: getattr(self, each) for each in _HOW_TO_REACH},
        )

    def known(self, table: PriceTable) -> "ModelConfig":
        """Return the configuration with the prices and the window that the table has.

        A price holds at the provider's own address and for its usual tier only.
        """
        if (found := table.find(self.provider, self.model)) is None:
            return self
        is_usual = self.is_at_home and "service_tier" not in self.extra
        return replace_fields(
            self,
            context_tokens=self.context_tokens or found.context_tokens,
            prices=self.prices.over(found.prices) if is_usual else self.prices,
        )

    @property
    def wire(self) -> str | None:
        """The wire, one of WIRES; None if the model is offline or reached through Pydantic AI."""
        if self.api is not None:
            return self.api
        return self.provider if self.provider in NATIVE else _CHAT.get(self.provider)

    @property
    def is_at_home(self) -> bool:
        """Whether the model is at its provider's own address."""
        return self.base_url in {None, provider_of(self.provider).base_url}

    @property
    def key_advice(self) -> str:
        """Advice about a key that is missing or refused."""
        if self.key_env:
            action = "check the key in" if self.api_key else "set"
            return f"{action} the environment variable {self.key_env}"
        if self.api_key:
            return "check its key"
        return "name the environment variable that holds its key as api_key_env in penstock.toml"

    def advice(self, status: int) -> str:
        """Return what to check after an HTTP error of this status, or an empty text."""
        match status:
            case HTTPStatus.UNAUTHORIZED:
                return self.key_advice
            case HTTPStatus.FORBIDDEN:
                return f"{self.key_advice}, and its rights"
            case HTTPStatus.NOT_FOUND:
                return "check base_url and model" if self.base_url else "check model"
            case _:
                return ""

    @property
    def card(self) -> ModelCard:
        """The card of the model."""
        # Every Gemini reads all of these. The wires know more of the models of their providers.
        reads = self.provider in _GOOGLE and self.model.startswith("gemini")
        is_adapted = self.wire is None and self.provider != OFFLINE
        card = ModelCard(
            model_id=self.name,
            name=self.model or self.name,
            provider=self.provider,
            context_tokens=self.context_tokens,
            prices=self.prices,
            images=reads,
            pdf=reads,
            audio=reads,
            # Gemini 2.5 enforces a schema only in requests without tools.
            json_schema=reads and _GEMINI_2.match(self.model) is None,
            forced_tool_choice=reads,
            family=self.family if is_adapted else "",
            api="pydantic_ai" if is_adapted else "",
            reply_tokens=self.settings.max_tokens,
            cache_ttl=self.settings.cache_ttl,
        )
        return self.of_operator(card)

    @property
    def family(self) -> str:
        """The models that may read each other's thinking: all of Google's, by its two services."""
        return self.provider if self.provider in _GOOGLE else _DATE.sub("", self.model)
