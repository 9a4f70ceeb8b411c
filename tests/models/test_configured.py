"""A model with the settings and limits of its entry."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.errors import ModelError, ModelUnavailable
from penstock.core.messages import Usage, UserMessage
from penstock.models.configured import ConfiguredModel
from penstock.models.limiter import NO_LIMITS, Limiter, RequestLimits
from penstock.models.model import Finished, ModelCard, ModelEvent, ModelRequest, TextDelta, Waiting
from penstock.models.prices import Prices
from penstock.models.providers import ModelConfig
from penstock.models.resolve import ModelRegistry
from penstock.models.scripted import (
    SCRIPTED,
    Hold,
    ScriptedModel,
    ScriptedReply,
    fail,
    say,
    wait,
)
from penstock.models.settings import NOTHING_SET, ModelSettings
from penstock.testing.clock import FakeClock, settle
from tests.kit.model_server import Canned, delta, fake_server
from tests.kit.model_server import events as chunks

ASKED = ModelRequest(system="", messages=[UserMessage("Hi")])
CLAUDE = ModelCard(model_id="c", name="c", provider="anthropic", api="anthropic")
CHAT = replace(CLAUDE, api="openai", sampling=True, efforts=("low",), forced_tool_choice=True)


def configured(
    *replies: ScriptedReply,
    card: ModelCard = SCRIPTED,
    settings: ModelSettings = NOTHING_SET,
    limits: RequestLimits = NO_LIMITS,
    clock: FakeClock | None = None,
) -> tuple[ConfiguredModel, ScriptedModel]:
    clock = clock or FakeClock()
    model = ScriptedModel(list(replies or (say("Hello"),)), card=card)
    return ConfiguredModel(model, settings, Limiter(limits, clock), clock), model


async def events(model: ConfiguredModel, request: ModelRequest = ASKED) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


async def test_a_request_has_the_settings_of_the_entry() -> None:
    asked, inner = configured(settings=ModelSettings(temperature=0.3, seed=4))
    await events(asked)
    assert (inner.requests[0].temperature, inner.requests[0].seed) == (0.3, 4)


@pytest.mark.parametrize(("user_ids", "sent"), [(True, "u-1"), (False, None)])
async def test_an_operator_may_leave_out_the_ids_of_people(
    *, user_ids: bool, sent: str | None
) -> None:
    clock = FakeClock()
    inner = ScriptedModel([say("Hello")])
    limiter = Limiter(NO_LIMITS, clock)
    asked = ConfiguredModel(inner, NOTHING_SET, limiter, clock, user_ids=user_ids)
    await events(asked, replace(ASKED, user="u-1"))
    assert inner.requests[0].user == sent


@pytest.mark.parametrize(
    ("card", "given", "left"),
    [
        (CLAUDE, {"temperature": 0.5, "top_p": 0.5}, {"temperature": None, "top_p": None}),
        (CLAUDE, {"seed": 1, "thinking": "high"}, {"seed": None, "thinking": None}),
        (CLAUDE, {"thinking": "off", "tool_choice": "none"}, {}),
        (CLAUDE, {"tool_choice": "required"}, {"tool_choice": None}),
        (replace(CLAUDE, sampling=True), {"temperature": 0.5}, {}),
        (replace(CLAUDE, api="openai-responses"), {"stop": ("X",)}, {"stop": ()}),
        (CHAT, {"seed": 1, "temperature": 0.5, "thinking": "low", "tool_choice": "look"}, {}),
        (SCRIPTED, {"seed": 1, "temperature": 0.5, "thinking": "low"}, {}),
    ],
)
async def test_what_a_model_cannot_do_is_left_out(
    card: ModelCard, given: dict[str, Any], left: dict[str, Any]
) -> None:
    asked, inner = configured(card=card)
    await events(asked, replace(ASKED, **given))
    sent = {name: getattr(inner.requests[0], name) for name in given}
    assert sent == {**given, **left}


async def test_a_setting_that_is_left_out_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, _ = configured(say("1"), say("2"), say("3"), card=CLAUDE)
    with caplog.at_level(logging.WARNING):
        for given in ({"seed": 1}, {"seed": 2}, {"seed": 3, "top_p": 0.5}):
            await events(asked, replace(ASKED, **given))
    assert caplog.messages == [
        "the model 'c' accepts no seed: seed is left out",
        "the model 'c' accepts no sampling settings: top_p is left out",
    ]


@pytest.mark.parametrize(
    ("card", "warns"),
    [
        (replace(CLAUDE, thinking_modes=("adaptive",)), True),
        (replace(CLAUDE, thinking_modes=("adaptive", "between_tools"), efforts=("low",)), False),
        (replace(CLAUDE, thinking_modes=("enabled", "disabled")), False),
        (replace(CHAT, efforts=("low", "high")), True),
        (replace(CHAT, efforts=("none", "low")), False),
        (replace(CHAT, efforts=()), False),
    ],
)
async def test_a_model_that_always_thinks_is_reported_once(
    card: ModelCard, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Models §4.1: `off` becomes the lowest level, with a warning."""
    asked, _ = configured(say("1"), say("2"), card=card)
    with caplog.at_level(logging.WARNING, "penstock"):
        for _ in range(2):
            await events(asked, replace(ASKED, thinking="off"))
    text = "the model 'c' cannot turn thinking off: it thinks little"
    assert caplog.messages == ([text] if warns else [])


async def test_a_reply_of_another_tier_has_no_price() -> None:
    card = replace(SCRIPTED, prices=Prices(input=1, output=1))
    reply = replace(say("Hello"), usage=Usage(input_tokens=1, output_tokens=1, cost_usd=1.0))
    asked, _ = configured(reply, reply, card=card)
    costs = []
    for extra in ({}, {"service_tier": "flex"}):
        last = (await events(asked, replace(ASKED, extra=extra)))[-1]
        assert isinstance(last, Finished)
        costs.append((last.usage.cost_usd, last.is_usual))
    assert costs == [(1.0, True), (None, False)]


async def test_a_reply_that_takes_too_long_may_be_asked_for_again() -> None:
    asked, _ = configured(say("Hel") + wait(Hold()), settings=ModelSettings(timeout=0.01))
    with pytest.raises(ModelUnavailable, match=r"did not end its reply within 0\.01 s"):
        await events(asked)
    assert asked.limiter.try_enter(1) is not None


async def test_a_request_waits_for_a_slot_and_reports_it() -> None:
    clock, hold = FakeClock(), Hold()
    limits = RequestLimits(max_concurrent=1)
    asked, _ = configured(say("1") + wait(hold), say("2"), limits=limits, clock=clock)
    first = asyncio.ensure_future(events(asked))
    await hold.reached()
    second = asyncio.ensure_future(events(asked))
    await settle()
    clock.advance(3)
    hold.release()
    assert (await first)[0] == TextDelta("1")
    assert (await second)[:3] == [Waiting(), Waiting(3.0), TextDelta("2")]


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_reader_that_leaves_gives_its_slot_back(steps: int) -> None:
    hold = Hold()
    asked, _ = configured(say("1") + wait(hold), limits=RequestLimits(max_concurrent=1))
    async with aclosing(asked.stream(ASKED)) as first:
        await anext(first)
        second = asked.stream(ASKED)
        assert await anext(second) == Waiting()
        if steps == 1:
            await second.aclose()
    if steps == 2:
        assert await anext(second) == Waiting(0.0)
        await second.aclose()
    assert asked.limiter.try_enter(1) is not None


async def test_a_429_holds_the_requests_of_all_conversations() -> None:
    clock = FakeClock()
    asked, _ = configured(fail(429, "slow", retry_after=7), say("Hello"), clock=clock)
    with pytest.raises(ModelError):
        await events(asked)
    later = asyncio.ensure_future(events(asked, replace(ASKED, conversation="another")))
    await clock.elapse(6.9)
    assert not later.done()
    await clock.elapse(0.2)
    assert [type(each) for each in await later][:3] == [Waiting, Waiting, TextDelta]


async def test_tokens_are_counted_as_the_provider_reports_them() -> None:
    clock = FakeClock()
    used = Usage(input_tokens=900, output_tokens=100)
    asked, _ = configured(
        replace(say("1"), usage=used),
        say("2"),
        limits=RequestLimits(tokens_per_minute=1000),
        clock=clock,
    )
    await events(asked, replace(ASKED, estimated_tokens=10))
    second = asyncio.ensure_future(events(asked, replace(ASKED, estimated_tokens=100)))
    await clock.elapse(5.9)
    assert not second.done()
    await clock.elapse(0.2)
    assert isinstance((await second)[-1], Finished)


async def test_two_runtimes_of_a_process_share_the_limits_of_a_model() -> None:
    """Models §8.3: shared by the process, fair between conversations."""
    ended = Canned(chunks(delta("stop", content="Hi")))
    hanging = Canned(chunks(delta(content="Hel"), done=False), hang=True)
    async with fake_server(hanging, ended) as server:
        config = ModelConfig(
            name="m",
            provider="openai-compatible",
            model="m",
            base_url=server.url,
            limits=RequestLimits(max_concurrent=1),
        )
        first, second = ModelRegistry([config]), ModelRegistry([config])
        reply = first.get("m").stream(ASKED)
        assert await anext(reply) == TextDelta("Hel")
        waiting = second.get("m").stream(ASKED)
        assert await anext(waiting) == Waiting()
        later = asyncio.ensure_future(anext(waiting))
        await settle()
        assert not later.done()
        await reply.aclose()
        assert isinstance(await later, Waiting)
        pieces = [event async for event in waiting]
        assert pieces[0] == TextDelta("Hi")
        await first.close()
        await second.close()
