"""Several models as one: when the next is asked, and what the reply records."""

import asyncio
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import Image
from penstock.agents.agent import Agent
from penstock.agents.catalog import ModelSelector
from penstock.core.errors import (
    CarryRefused,
    ConfigError,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from penstock.core.events.events import ReplyReceived
from penstock.core.limits import Limits
from penstock.core.messages import ImagePart, TextPart, UserMessage
from penstock.models.fallback import BoundFallback, Fallback, MovesOn, around_each
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Waiting,
)
from penstock.models.names import ModelNames, ThinkingModel
from penstock.models.prices import UNKNOWN, Prices
from penstock.models.providers import ModelConfig
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import SCRIPTED, ScriptedModel, ScriptedReply, call, fail, say, spend
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.logs import events as events_of
from tests.kit.model_server import Canned, delta, fake_server
from tests.kit.model_server import events as chunks
from tests.kit.sample_files import image
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
    wrong: Any = 5
    with pytest.raises(ConfigError, match="Fallback takes models or their names, found 5"):
        Fallback(wrong, "a")
    with pytest.raises(ConfigError, match="takes models or their names, found <class"):
        Fallback("a", ScriptedModel)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="two models or more, found 1"):
        Fallback("a")


async def test_a_name_needs_a_project() -> None:
    with pytest.raises(ConfigError, match="'openai:gpt-5' of a Fallback is a name"):
        await heard(Fallback("openai:gpt-5", named("b")))


def card_of(*cards: ModelCard) -> ModelCard:
    models = [ScriptedModel([], card=each) for each in cards]
    return Fallback(*models).bound(ModelRegistry().get).card


def test_its_card_is_what_all_can_do() -> None:
    wide = replace(SCRIPTED, images=True, context_tokens=1000, prices=Prices(input=1, output=1))
    narrow = replace(SCRIPTED, context_tokens=100, tools=False, prices=Prices(input=2, output=9))
    card = card_of(wide, narrow)
    assert (card.tools, card.context_tokens, card.prices) == (False, 100, narrow.prices)
    assert card.images  # each model gets files in its own form
    unknown = replace(wide, prices=UNKNOWN)
    assert card_of(unknown, unknown).prices is UNKNOWN


def test_a_schema_is_sent_only_to_models_of_one_provider() -> None:
    """Each provider has rules of its own for schemas."""
    claude = replace(SCRIPTED, json_schema=True, api="anthropic", provider="anthropic")
    gpt = replace(SCRIPTED, json_schema=True, api="openai", provider="openai")
    same, mixed = card_of(claude, claude), card_of(claude, gpt)
    assert (same.json_schema, same.api, same.provider) == (True, "anthropic", "anthropic")
    assert (mixed.json_schema, mixed.provider) == (False, "fallback")


@pytest.mark.parametrize("sees", [(True, False), (False, True)])
async def test_each_model_gets_files_in_its_own_form(sees: tuple[bool, bool]) -> None:
    """A blind second model reads a line for the image that the first one would have seen."""
    cards = [
        replace(SCRIPTED, model_id=name, images=each)
        for name, each in zip(("a", "b"), sees, strict=True)
    ]
    first = ScriptedModel([fail(500)], card=cards[0])
    second = ScriptedModel([say("Hi")], card=cards[1])
    agent = Agent("guide", model=Fallback(first, second))
    async with memory_runtime(agents=[agent]) as runtime:
        reply = await runtime.chat(["What is this?", Image(image())], agent=agent)
    assert reply.content == "Hi"
    read = [model.requests[0].messages[0] for model in (first, second)]
    for message, can_see in zip(read, sees, strict=True):
        assert isinstance(message, UserMessage)
        assert any(isinstance(part, ImagePart) for part in message.parts) is can_see
        words = " ".join(part.text for part in message.parts if isinstance(part, TextPart))
        assert ("this model cannot read it" in words) is not can_see


async def test_usage_has_the_price_of_the_model_that_answered() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 10}
    ended = [*chunks(delta("stop", content="Hello"), {"choices": [], "usage": usage})]
    async with fake_server(Canned([], 500), Canned(ended)) as server:
        entry: dict[str, Any] = {"provider": "openai-compatible", "model": "m"}
        entry["base_url"] = server.url
        configs = [
            ModelConfig(name="dear", prices=Prices(input=1000, output=1000), **entry),
            ModelConfig(name="cheap", prices=Prices(input=1, output=2), **entry),
            ModelConfig(name="both", provider="", models=("dear", "cheap")),
        ]
        models = ModelRegistry(configs)
        agent = Agent("guide", model=models.get("both"))
        async with memory_runtime(agents=[agent]) as runtime:
            reply = await runtime.chat("Hi", agent=agent)
        await models.close()
    assert models.named("both").prices == Prices(input=1000, output=1000)
    assert reply.usage.cost_usd == pytest.approx(50e-6)


async def test_the_price_of_an_own_model_is_that_of_its_card() -> None:
    """And not the highest of the models, which is that of the Fallback."""
    dear, cheap = (replace(SCRIPTED, prices=Prices(input=usd, output=usd)) for usd in (100, 1))
    first = ScriptedModel([fail(500)], card=dear)
    events = await heard(Fallback(first, ScriptedModel([spend(30, 10)], card=cheap)))
    assert isinstance(last := events[-1], Finished)
    assert last.usage.cost_usd == pytest.approx(40e-6)


CONFIGS = [
    ModelConfig(name="a", provider="openai-compatible", model="m", base_url="http://127.0.0.1:1"),
    ModelConfig(name="both", provider="", models=("a", "offline"), on=("ModelRefused",)),
    ModelConfig(name="nested", provider="", models=("both", "a")),
    ModelConfig(name="keyless", provider="", models=("a", "openai:gpt-5")),
]


async def test_an_entry_of_the_settings_is_a_fallback() -> None:
    models = ModelRegistry(CONFIGS, default="both", limits=Limits(model_tries=1))
    agent = Agent("guide")
    async with memory_runtime(agents=[agent], model=models.get()) as runtime:
        reply = await runtime.chat("Hello", agent=agent)
        found = await events_of(runtime, reply.session)
    await models.close()
    assert [each.model for each in found if isinstance(each, ReplyReceived)] == ["offline"]
    assert models.named("both").model_id == models.get("both").card.model_id == "both"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nested", "'nested' lists 'both', which lists models itself: write a, offline instead"),
        ("keyless", "'openai:gpt-5' needs a key"),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(name: str, message: str) -> None:
    models = ModelRegistry(CONFIGS)
    with pytest.raises(ConfigError, match=message):
        models.get(name)
    assert models.named("keyless").context_tokens
    assert name in {card.model_id for card in models.cards()}


def test_a_missing_key_asks_no_other_model() -> None:
    models = ModelRegistry()
    agent, other = Agent("guide", model=Fallback("openai:gpt-5", "scripted")), ScriptedModel([])
    models.add(other)
    with pytest.raises(ConfigError, match="'openai:gpt-5' needs a key"):
        _ = ModelSelector(models, ModelNames()).choose(agent, None).card
    assert other.requests == []


async def test_the_library_of_each_listed_model_is_looked_up() -> None:
    asked: list[str] = []
    configs = [ModelConfig(name="pair", provider="", models=("moonshotai:kimi", "cerebras:glm"))]
    models = ModelRegistry(configs, problem_of=asked.append)
    await models.look_up("pair")
    assert asked == ["moonshotai", "cerebras"]


def test_a_level_of_thinking_reaches_each_model() -> None:
    models = ModelRegistry()
    models.add(Fallback(named("a"), named("b")))
    chosen = ModelSelector(models, ModelNames()).choose(Agent("x"), "a | b")
    leveled = around_each(chosen, partial(ThinkingModel, level="high"))
    assert isinstance(leveled, BoundFallback)
    assert [type(each) for each in leveled.models] == [ThinkingModel, ThinkingModel]


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
