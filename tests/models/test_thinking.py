"""A level of thinking goes with every request."""

from contextlib import aclosing

from penstock.core.messages import UserMessage
from penstock.models.model import Model, ModelRequest, TextDelta
from penstock.models.scripted import SCRIPTED, ScriptedModel, say
from penstock.models.thinking import ThinkingModel


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


async def test_who_leaves_early_leaves_the_model_below() -> None:
    below = ScriptedModel([say("a", "b")])
    request = ModelRequest(system="", messages=[UserMessage("go")])
    async with aclosing(ThinkingModel(below, "low").stream(request)) as events:
        assert await anext(events) == TextDelta("a")
    assert below.unfinished == 1
