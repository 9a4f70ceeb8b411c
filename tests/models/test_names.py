"""Names of models as authors write them."""

from contextlib import aclosing

import pytest

from penstock.core.errors import ConfigError
from penstock.core.messages import UserMessage
from penstock.models.model import Model, ModelRequest, TextDelta
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.scripted import SCRIPTED, ScriptedModel, say

NAMES = ModelNames(roles={"coding": "openai/gpt-x:high", "mine": "@coding", "fast": "small"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("small", "small"),
        ("small:high", "small"),
        ("small:other", "small:other"),
        ("openai:gpt-x", "openai:gpt-x"),
        ("openai/gpt-x", "openai:gpt-x"),
        ("openai/gpt-x:low", "openai:gpt-x"),
        ("openai:gpt-x:low", "openai:gpt-x"),
        ("openai:org/gpt-x", "openai:org/gpt-x"),
        ("ollama/llama3:8b", "ollama:llama3:8b"),
        ("ollama/llama3:8b:low", "ollama:llama3:8b"),
        ("openrouter/meta/llama:free", "openrouter:meta/llama:free"),
        ("@coding", "openai:gpt-x"),
        ("@coding:low", "openai:gpt-x"),
        ("@mine", "openai:gpt-x"),
        ("@fast", "small"),
        ("@planning", None),
    ],
)
def test_a_name_means_a_model(text: str | None, expected: str | None) -> None:
    """4.2: `@role`, `id`, `id:thinking`, `provider/id[:thinking]`."""
    assert NAMES.model(text) == expected


def test_an_undefined_role_is_not_a_model() -> None:
    with pytest.raises(ConfigError, match=r'no model role "@codng"\. Did you mean'):
        NAMES.model("@codng")


@pytest.mark.parametrize("role", ["@a", "@b:high", "@self"])
def test_a_role_that_refers_to_itself_is_not_a_model(role: str) -> None:
    """What cannot be resolved is a soft failure `model_unresolved`."""
    names = ModelNames(roles={"a": "@b:low", "b": "@a", "self": "@self"})
    with pytest.raises(ConfigError, match="refers to itself"):
        names.model(role)
    assert names.unset(role) == ""


def test_a_role_may_refer_to_an_unset_role() -> None:
    names = ModelNames(roles={"mine": "@planning"})
    assert (names.model("@mine"), names.unset("@mine")) == (None, "planning")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("small", None),
        ("small:high", "high"),
        ("small:other", None),
        ("openai/gpt-x:low", "low"),
        ("@coding", "high"),
        ("@coding:low", "low"),
        ("@mine", "high"),
        ("@fast", None),
        ("@planning", None),
    ],
)
def test_a_thinking_level_may_follow_a_name_or_a_role(
    text: str | None, expected: str | None
) -> None:
    """A suffix after the last `:` is a thinking level only if it is one of the six words."""
    assert NAMES.thinking(text) == expected


async def test_every_request_has_the_level() -> None:
    below = ScriptedModel([say("a", "b")])
    model: Model = ThinkingModel(below, "high")
    request = ModelRequest(system="", messages=[UserMessage("go")])
    async with aclosing(model.stream(request)) as events:
        heard = [event async for event in events]
    assert heard[:2] == [TextDelta("a"), TextDelta("b")]
    assert (below.requests[0].thinking, request.thinking) == ("high", None)
    assert model.card is SCRIPTED
    await model.close()


async def test_leaving_a_stream_early_closes_the_wrapped_model() -> None:
    below = ScriptedModel([say("a", "b")])
    request = ModelRequest(system="", messages=[UserMessage("go")])
    async with aclosing(ThinkingModel(below, "low").stream(request)) as events:
        assert await anext(events) == TextDelta("a")
    assert below.unfinished == 1
