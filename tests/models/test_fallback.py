"""Several models as one: when the next is asked, and what the reply records."""

import asyncio

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.core.errors import (
    CarryRefused,
    ConfigError,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.events.events import ReplyReceived
from penstock.core.messages import UserMessage
from penstock.models.fallback import Fallback, MovesOn
from penstock.models.model import CallDelta, Finished, ModelEvent, ModelRequest, TextDelta, Waiting
from penstock.models.prices import UNKNOWN, Prices
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import SCRIPTED, ScriptedModel, ScriptedReply, call, fail, say
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.logs import events as events_of
from tests.kit.tools import Act

ASKED = ModelRequest(system="", messages=[UserMessage("Hi")])


def named(name: str, *replies: ScriptedReply) -> ScriptedModel:
    return ScriptedModel(list(replies), card=replace(SCRIPTED, model_id=name, name=name))


async def heard(model: Fallback) -> list[ModelEvent]:
    return [event async for event in model.stream(ASKED)]


def text(events: list[ModelEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta))


async def test_the_first_model_answers_while_it_can() -> None:
    second = named("b")
    events = await heard(Fallback(named("a", say("Hello")), second))
    assert text(events) == "Hello"
    assert isinstance(events[-1], Finished)
    assert events[-1].model == "a"
    assert second.requests == []


@pytest.mark.parametrize("status", [408, 500, 529])
async def test_the_next_model_answers_when_one_is_down(status: int) -> None:
    events = await heard(Fallback(named("a", fail(status)), named("b", say("Hello"))))
    assert text(events) == "Hello"
    assert isinstance(events[-1], Finished)
    assert events[-1].model == "b"


async def test_the_last_error_is_raised() -> None:
    with pytest.raises(ModelUnavailable, match="second"):
        await heard(Fallback(named("a", fail(500, "first")), named("b", fail(500, "second"))))


def is_refused(error: ModelError) -> bool:
    return "policy" in str(error)


@pytest.mark.parametrize(
    ("on", "moves"),
    [((), False), (ModelRefused, True), ((ModelRefused,), True), (is_refused, True)],
)
async def test_other_errors_move_on_only_if_they_are_named(on: MovesOn, moves: bool) -> None:
    model = Fallback(named("a", fail(400, "policy")), named("b", say("Hello")), on=on)
    if moves:
        assert text(await heard(model)) == "Hello"
    else:
        with pytest.raises(ModelRefused):
            await heard(model)


def test_a_refused_carry_is_sent_again_without_it_and_to_no_other_model() -> None:
    assert not Fallback("a", "b", on=ModelRefused).moves_on(CarryRefused("signature"))


async def test_a_model_that_fails_after_its_first_piece_is_not_replaced() -> None:
    second = named("b", say("Hello"))
    with pytest.raises(ModelUnavailable):
        await heard(Fallback(named("a", say("Hel") + fail(500)), second))
    assert second.requests == []


async def test_a_model_that_fails_within_a_call_is_replaced() -> None:
    first = named("a", call("look", n=1) + fail(500))
    events = await heard(Fallback(first, named("b", call("look", n=2))))
    pieces = [each.arguments for each in events if isinstance(each, CallDelta)]
    assert "".join(pieces) == '{"n": 2}'


async def test_a_short_429_is_waited_for_once() -> None:
    clock = FakeClock()
    first = named("a", fail(429, retry_after=7), say("Hello"))
    asking = asyncio.ensure_future(heard(Fallback(first, named("b"), clock=clock)))
    await clock.elapse(6.9)
    assert not asking.done()
    await clock.elapse(0.2)
    assert (await asking)[:3] == [Waiting(), Waiting(7), TextDelta("Hello")]


@pytest.mark.parametrize(
    "replies",
    [[fail(429, retry_after=31)], [fail(429)], [fail(429, retry_after=0), fail(429)]],
    ids=["too long", "unknown", "again"],
)
async def test_after_a_longer_or_second_429_the_next_model_is_asked(
    replies: list[ScriptedReply],
) -> None:
    events = await heard(Fallback(named("a", *replies), named("b", say("Hello"))))
    assert text(events) == "Hello"


def test_it_needs_two_models() -> None:
    with pytest.raises(ValueError, match="two models or more, found 1"):
        Fallback("a")


async def test_a_name_needs_a_project() -> None:
    with pytest.raises(ConfigError, match="'openai:gpt-5' of a Fallback is a name"):
        await heard(Fallback("openai:gpt-5", named("b")))


def test_its_card_is_what_all_can_do() -> None:
    wide = replace(SCRIPTED, images=True, context_tokens=1000, prices=Prices(input=1, output=1))
    narrow = replace(SCRIPTED, context_tokens=100, tools=False, prices=Prices(input=2, output=9))
    cards = (wide, narrow)
    card = (
        Fallback(*(ScriptedModel([], card=each) for each in cards)).bound(ModelRegistry().get).card
    )
    assert (card.images, card.tools, card.context_tokens) == (False, False, 100)
    assert card.prices == narrow.prices
    unknown = ScriptedModel([], card=replace(wide, prices=UNKNOWN))
    assert Fallback(unknown, unknown).bound(ModelRegistry().get).card.prices is UNKNOWN


async def test_the_log_names_the_model_that_answered() -> None:
    model = Fallback(named("a", call("look"), fail(500)), named("b", say("Done.")))
    agent = Agent("guide", model=model)
    async with memory_runtime(tools=[Act("look")], agents=[agent]) as runtime:
        reply = await runtime.chat("Go", agent="guide")
        found = await events_of(runtime, reply.session)
    assert reply.content == "Done."
    assert [each.model for each in found if isinstance(each, ReplyReceived)] == ["a", "b"]


async def test_names_are_those_of_the_project() -> None:
    agent = Agent("guide", model=Fallback("scripted", "offline"))
    model = ScriptedModel([fail(500)])
    async with memory_runtime(model=model, agents=[agent]) as runtime:
        reply = await runtime.chat("Hello", agent="guide")
        found = await events_of(runtime, reply.session)
    assert [each.model for each in found if isinstance(each, ReplyReceived)] == ["offline"]
