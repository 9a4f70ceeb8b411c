"""What a name of OpenAI tells about the model, as another library has it."""

from typing import Any

import pytest
from pydantic_ai.profiles.openai import openai_model_profile
from pydantic_ai.providers.deepseek import DeepSeekProvider

from penstock.models.model import ModelCard
from penstock.models.names import THINKING
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai_card import chat_card, effort, is_reasoning, longest, openai_card

pytestmark = pytest.mark.conformance
NAMES = (
    "gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6-sol",
    "gpt-5.5-pro", "gpt-5.5", "gpt-5.4-pro", "gpt-5.4", "gpt-5.3-chat-latest", "gpt-5.3-codex",
    "gpt-5.2-pro", "gpt-5.2-chat-latest", "gpt-5.2", "gpt-5.1-codex-max", "gpt-5.1-chat-latest",
    "gpt-5.1", "gpt-5-chat-latest", "gpt-5-pro", "gpt-5-codex", "gpt-5-mini", "gpt-5", "o1", "o3",
    "o4-mini", "gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "someones-model",
)  # fmt: skip


def card_of(name: str, api: str = "openai-responses") -> ModelCard:
    return openai_card(ModelCard(model_id="m", name=name, provider="openai"), api)


@pytest.mark.parametrize("name", NAMES)
def test_reasoning_is_what_another_library_found(name: str) -> None:
    profile: dict[str, Any] = {**openai_model_profile(name)}
    card = card_of(name)
    assert bool(card.efforts) is bool(profile["supports_thinking"])
    assert card.thinks_by_default is bool(profile["thinking_enabled_by_default"])
    assert ("none" in card.efforts) is bool(profile["openai_supports_reasoning_effort_none"])
    if (efforts := profile.get("openai_reasoning_efforts")) is not None:
        assert set(card.efforts) == set(efforts)


@pytest.mark.parametrize("name", NAMES)
def test_each_level_becomes_an_effort_that_the_model_accepts(name: str) -> None:
    for api in ("openai", "openai-responses"):
        card = card_of(name, api)
        for level in THINKING if card.efforts else ():
            assert effort(level, card) in card.efforts
            assert is_reasoning(level, card) == (effort(level, card) != "none")
        assert "max" not in card.efforts or api == "openai-responses"


@pytest.mark.parametrize(
    ("name", "level", "word"),
    [
        ("gpt-6-sol", "off", "none"),
        ("gpt-6-sol", "minimal", "low"),
        ("gpt-5.5-pro", "low", "medium"),
        ("gpt-5-pro", "off", "high"),
        ("gpt-5-pro", "xhigh", "high"),
        ("gpt-6-sol", "max", "max"),
        ("gpt-5.2", "max", "xhigh"),
        ("gpt-5.3-chat-latest", "high", "medium"),
        ("o3", "off", "low"),
    ],
)
def test_the_effort_is_the_lowest_at_or_above_the_level(name: str, level: str, word: str) -> None:
    assert effort(level, card_of(name)) == word


def test_the_longest_reply_is_bounded_by_the_card() -> None:
    card = card_of("gpt-6-sol")
    assert longest(None, "high", card) is None
    assert longest(1000, "high", card) == 1000 + 16_384


@pytest.mark.parametrize(
    ("name", "api", "found"),
    [
        ("gpt-6-sol-2026-09-01", "openai-responses", ("gpt-6-sol", True, True, True)),
        ("gpt-6-sol", "openai", ("gpt-6-sol", True, False, True)),
        ("o3-mini", "openai-responses", ("o3-mini", False, False, True)),
        ("gpt-4o-2024-05-13", "openai", ("gpt-4o", True, False, False)),
        ("gpt-3.5-turbo", "openai", ("gpt-3.5-turbo", False, False, False)),
        ("someones-model", "openai-responses", ("someones-model", False, False, False)),
    ],
)
def test_what_a_model_reads_and_writes(
    name: str, api: str, found: tuple[str, bool, bool, bool]
) -> None:
    card = card_of(name, api)
    assert (card.family, card.images, card.tool_images, card.json_schema) == found


@pytest.mark.parametrize(
    "name", ["deepseek-flash", "deepseek-v4-pro", "deepseek-reasoner", "deepseek-chat"]
)
def test_deepseek_is_what_another_library_found(name: str) -> None:
    profile: dict[str, Any] = {**(DeepSeekProvider.model_profile(name) or {})}
    config = ModelConfig(name="m", provider="deepseek", model=name, base_url="https://d.example")
    card = chat_card(config)
    assert card.thinks_by_default is bool(profile["thinking_enabled_by_default"])
    assert ("max" in card.efforts) is bool(profile["openai_chat_supports_max_reasoning_effort"])
    assert not card.json_schema  # it answers "This response_format type is unavailable now"
    assert longest(100, None, card) == 100 + (16_384 if card.thinks_by_default else 0)
    assert [effort(level, card) for level in ("off", "medium", "xhigh") if card.efforts] == (
        ["low", "high", "max"] if card.efforts else []
    )
