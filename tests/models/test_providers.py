"""Providers by name, and which variable holds the key of each."""

import pytest

from penstock.app.sections import ModelEntry
from penstock.models.providers import ADAPTED, COMPATIBLE, PROVIDERS, key_variable, provider_of

LOCAL = "http://127.0.0.1:9/v1"


def test_every_provider_is_reached_one_way() -> None:
    assert not ADAPTED.keys() & COMPATIBLE.keys()
    assert len(PROVIDERS) == 1 + len(ADAPTED) + len(COMPATIBLE)


def test_the_page_of_settings_names_every_provider() -> None:
    said = ModelEntry.model_fields["provider"].description or ""
    assert [name for name in PROVIDERS if f"`{name}`" not in said] == []


def test_who_needs_a_key_has_a_variable_for_it() -> None:
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
def test_a_key_is_for_its_provider_alone(
    provider: str, keys: dict[str, str], base_url: str | None, variable: str | None
) -> None:
    """A server at another address gets a key only if `api_key_env` names it."""
    assert key_variable(provider, keys, base_url) == variable


def test_of_a_provider_that_is_not_listed_nothing_is_required() -> None:
    assert (provider_of("xai").needs_key, provider_of("xai").base_url) == (False, None)
