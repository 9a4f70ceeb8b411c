"""The rules of providers for images."""

import pytest

from penstock.models.image_rules import image_rules, image_tokens
from penstock.models.model import ModelCard


def card(provider: str, name: str, **more: int) -> ModelCard:
    return ModelCard(model_id="m", name=name, provider=provider, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("provider", "name", "side"),
    [
        ("anthropic", "claude-3-7-sonnet", 1568),
        ("anthropic", "claude-opus-4-6", 1568),
        ("anthropic", "claude-opus-4-7", 2576),
        ("anthropic", "claude-haiku-5-5", 2576),
        ("openai", "gpt-4o", 2048),
        ("openai-responses", "gpt-6-sol", 2048),
        ("google", "gemini-2.5-pro", 1536),
        ("ollama", "llava", 2048),
    ],
)
def test_each_provider_has_a_useful_size(provider: str, name: str, side: int) -> None:
    assert image_rules(card(provider, name)).side == side


def test_a_long_window_takes_more_images() -> None:
    small, large = (
        card("anthropic", "c", context_tokens=200_000),
        card("anthropic", "c", context_tokens=1_000_000),
    )
    assert [image_rules(each).max_images for each in (small, large)] == [100, 600]


@pytest.mark.parametrize(
    ("provider", "name", "size", "tokens"),
    [
        ("anthropic", "claude-opus-4-1", (28, 29), 2),
        ("anthropic", "claude-opus-4-1", (15_680, 7_840), 56 * 28),
        ("openai", "gpt-4.1-mini", (320, 320), 162),
        ("openai", "gpt-4o", (320, 320), 170),
        ("openai", "gpt-4o", (9_000, 9_000), 2612),
        ("google", "gemini-2.5-pro", (9, 9), 258),
        ("google", "gemini-3-pro", (9, 9), 1120),
        ("ollama", "llava", (9, 9), 1500),
        ("anthropic", "claude-opus-4-1", (None, None), 1500),
    ],
)
def test_tokens_are_counted_after_scaling(
    provider: str, name: str, size: tuple[int | None, int | None], tokens: int
) -> None:
    assert image_tokens(card(provider, name), *size) == tokens
