"""Providers by name, and which variable holds the key of each."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.settings_sections import ModelEntry
from penstock.models.model import ModelCard, spent
from penstock.models.prices import Prices, shipped_prices
from penstock.models.providers import (
    ADAPTED,
    COMPATIBLE,
    NATIVE,
    PROVIDERS,
    ModelConfig,
    key_variable,
    provider_of,
)

LOCAL = "http://127.0.0.1:9/v1"


def test_every_provider_is_reached_one_way() -> None:
    assert len(PROVIDERS) == 1 + len(ADAPTED) + len(COMPATIBLE) + len(NATIVE)


def test_the_page_of_settings_names_every_provider() -> None:
    said = ModelEntry.model_fields["provider"].description or ""
    assert [name for name in PROVIDERS if f"`{name}`" not in said] == []


def test_each_provider_with_a_key_has_a_variable_for_it() -> None:
    assert [name for name, how in PROVIDERS.items() if how.needs_key and not how.key_env] == []


@pytest.mark.parametrize(
    ("provider", "keys", "base_url", "variable"),
    [
        ("openai", {}, None, "OPENAI_API_KEY"),
        ("openai", {"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai", {"OPENAI_API_KEY": "k"}, LOCAL, None),
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, LOCAL, None),
        ("google", {}, None, "GOOGLE_API_KEY"),
        ("google", {"GEMINI_API_KEY": "k"}, None, "GEMINI_API_KEY"),
        ("google", {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "k"}, None, "GOOGLE_API_KEY"),
        ("openai-responses", {"OPENAI_API_KEY": "k"}, None, "OPENAI_API_KEY"),
        ("vllm", {"VLLM_API_KEY": "k"}, None, "VLLM_API_KEY"),
        ("ollama", {"OPENAI_API_KEY": "k"}, None, None),
        ("openai-compatible", {"OPENAI_API_KEY": "k"}, LOCAL, None),
        ("offline", {}, None, None),
        ("nobody", {}, None, None),
    ],
)
def test_a_key_is_sent_only_to_its_provider(
    provider: str, keys: dict[str, str], base_url: str | None, variable: str | None
) -> None:
    """A server at another address gets a key only if `api_key_env` names it."""
    assert key_variable(provider, keys, base_url) == variable


def test_an_unlisted_provider_requires_nothing() -> None:
    assert (provider_of("xai").needs_key, provider_of("xai").base_url) == (False, None)


def test_the_card_has_only_public_members() -> None:
    config = ModelConfig(
        name="fast",
        provider="openai",
        model="gpt",
        api_key="sk",
        context_tokens=9,
        prices=Prices(input=1),
    )
    assert config.card == ModelCard(
        model_id="fast", name="gpt", provider="openai", context_tokens=9, prices=Prices(input=1)
    )
    assert "sk" not in repr(config)


@pytest.mark.parametrize(
    ("key", "variable", "advice"),
    [
        ("sk", "MY_KEY", "check the key in the environment variable MY_KEY"),
        (None, "MY_KEY", "set the environment variable MY_KEY"),
        ("sk", None, "check its key"),
        (None, None, "name the environment variable that holds its key as api_key_env in"),
    ],
)
def test_advice_about_a_key_names_its_variable(
    key: str | None, variable: str | None, advice: str
) -> None:
    config = ModelConfig(name="fast", provider="openai", api_key=key, key_env=variable)
    assert config.advice(401).startswith(advice)
    assert config.advice(403) == f"{config.advice(401)}, and its rights"


def test_advice_about_a_missing_model_names_its_settings() -> None:
    config = ModelConfig(name="fast", provider="openai", base_url="http://127.0.0.1:1/v1")
    assert config.advice(404) == "check base_url and model"
    assert ModelConfig(name="fast", provider="openai").advice(404) == "check model"
    assert config.advice(500) == ""


OPUS: dict[str, Any] = {"name": "o", "provider": "anthropic", "model": "claude-opus-5-5"}


@pytest.mark.parametrize(
    ("given", "cost"),
    [
        ({}, 4),
        ({"base_url": "http://127.0.0.1:1"}, None),
        ({"extra": {"service_tier": "flex"}}, None),
        ({"prices": Prices(input=1)}, 1),
        ({"prices": Prices(input=1, output=1), "base_url": "http://127.0.0.1:1"}, 1),
        ({"model": "claude-of-tomorrow"}, None),
    ],
    ids=["listed", "elsewhere", "other tier", "one set", "set elsewhere", "unknown"],
)
def test_the_operators_price_wins_over_the_table(given: dict[str, Any], cost: float | None) -> None:
    card = ModelConfig(**{**OPUS, **given}).known(shipped_prices()).card
    assert spent(card, 1_000_000, 0).cost_usd == cost


def test_the_window_is_the_operators_or_that_of_the_table() -> None:
    table = shipped_prices()
    assert ModelConfig(**OPUS).known(table).card.context_tokens == 1_000_000
    assert ModelConfig(**OPUS, context_tokens=9).known(table).card.context_tokens == 9


def test_the_operators_capabilities_win() -> None:
    config = ModelConfig(**OPUS, capabilities={"images": True, "efforts": ("low",)})
    assert (config.card.images, config.card.efforts) == (True, ("low",))
    derived = replace(config.card, images=False, pdf=True)
    assert config.of_operator(derived) == replace(config.card, pdf=True)


@pytest.mark.parametrize(
    ("provider", "model", "reads", "enforces", "family"),
    [
        ("google", "gemini-2.5-pro", True, False, "google"),
        ("google", "gemini-3-pro", True, True, "google"),
        ("google-cloud", "gemini-3.1-flash", True, True, "google-cloud"),
        ("google-cloud", "claude-opus-5-5", False, False, "google-cloud"),
        ("groq", "m-2026-01-02", False, False, "m"),
        ("bedrock", "us.anthropic.claude@20260101", False, False, "us.anthropic.claude"),
    ],
)
def test_what_a_name_tells_of_a_model_of_another_provider(
    provider: str, model: str, reads: bool, enforces: bool, family: str
) -> None:
    card = ModelConfig(name="n", provider=provider, model=model).card
    assert {card.images, card.pdf, card.audio, card.forced_tool_choice} == {reads}
    assert (card.json_schema, card.family, card.api) == (enforces, family, "pydantic_ai")


@pytest.mark.parametrize(
    ("provider", "requirement"),
    [
        ("google", "penstock[google]"),
        ("openrouter", "penstock[openai]"),
        ("groq", "pydantic-ai-slim[groq]"),
    ],
)
def test_a_provider_names_what_to_install(provider: str, requirement: str) -> None:
    assert provider_of(provider).requirement == requirement
