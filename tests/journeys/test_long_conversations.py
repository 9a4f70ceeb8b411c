"""Conversations that outgrow their model: one step, the same after a restart, and no refusal."""

from typing import Any

import pytest

from penstock import Agent, Limits, ModelSettings, tool
from penstock.core.errors import ContextTooLarge
from penstock.core.events.history_events import Summarised
from penstock.core.ids import LogId
from penstock.models.providers import ModelConfig
from penstock.models.scripted import ScriptedModel, call
from penstock.models.wires.anthropic import AnthropicModel
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.fake_anthropic import (
    ADAPTIVE,
    BINDING,
    MANUAL,
    MODELS,
    FakeAnthropic,
    fake_anthropic,
)

pytestmark = pytest.mark.programs
MODES = (BINDING, MANUAL, ADAPTIVE)
WINDOW = 9_000
"""Characters of the messages that the fake reads; penstock knows no window."""


@tool(effect="read")
def look(n: int) -> str:
    """Look."""
    return f"seen {n} " + "x" * 2_000


def claude(fake: FakeAnthropic) -> AnthropicModel:
    name = MODELS[fake.mode]
    config = ModelConfig(
        name="claude", provider="anthropic", model=name, base_url=fake.url, api_key="sk"
    )
    return AnthropicModel(config, Limits())


async def loop_of_calls(fake: FakeAnthropic, *, writes: int, before: bool) -> tuple[str, DyingLog]:
    """Run one task in as many processes as it takes; return its answer and its log."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    while True:
        model = claude(fake)
        thinking = ModelSettings(thinking="low")
        agent = Agent("assistant", model=model, model_settings=thinking, tools=[look])
        async with memory_runtime(agents=[agent], place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, "Go", lambda question: {}))
        await model.close()
        if reply is not None:
            assert reply.error is None
            return reply.content, log
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_a_task_that_outgrows_its_model_reads_previews_and_goes_on(
    mode: str, before: bool
) -> None:
    """Killed at any write, it sends the same bytes: the cut is in the log."""
    async with fake_anthropic(mode, window=WINDOW) as fake:
        answer, log = await loop_of_calls(fake, writes=-1, before=before)
    assert answer == "Answer 5."
    assert [each[:18] for each in fake.refusals] == ["prompt is too long"]
    assert len(fake.bodies) == 7
    for writes in range(1, log.writes + 1):
        async with fake_anthropic(mode, window=WINDOW) as again:
            killed, _ = await loop_of_calls(again, writes=writes, before=before)
        assert killed == answer, writes
        assert {each[:18] for each in again.refusals} <= {"prompt is too long"}
        assert [*dict.fromkeys(again.bodies)] == fake.bodies, writes


async def test_a_model_that_thinks_by_hand_does_not_until_the_task_ends() -> None:
    async with fake_anthropic(MANUAL, window=WINDOW) as fake:
        model = claude(fake)
        thinking = ModelSettings(thinking="low")
        agent = Agent("clerk", model=model, model_settings=thinking, tools=[look])
        async with memory_runtime(agents=[agent]) as runtime:
            first = await runtime.chat("Go", agent="clerk")
            fake.calls = 0
            await runtime.chat("And?", agent="clerk", session=first.session)
        await model.close()
    refused = next(i for i, body in enumerate(fake.bodies) if len(body) > WINDOW)
    kinds = [each["thinking"]["type"] for each in fake.requests]
    assert kinds[: refused + 1] == ["enabled"] * (refused + 1)
    assert kinds[refused + 1 : -1] == ["disabled"] * (len(kinds) - refused - 2)
    assert kinds[-1] == "enabled"


async def test_a_second_refusal_of_one_request_ends_the_task() -> None:
    asked: list[int] = []

    def answer(request: Any) -> Any:
        asked.append(len(request.messages))
        if len(asked) > 2:
            raise ContextTooLarge("prompt is too long")
        return call("look", n=len(asked))

    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    agent = Agent("clerk", model=ScriptedModel(answer), tools=[look])
    async with memory_runtime(agents=[agent], place=place) as runtime:
        reply = await runtime.chat("Go", agent="clerk")
    assert reply.error is not None
    assert reply.error.code == ContextTooLarge.code
    assert asked == [1, 3, 5, 5]
    records = await place.log.read(LogId(reply.session))
    cuts = [each.event for each in records if isinstance(each.event, Summarised)]
    assert [(each.too_long, each.results) for each in cuts] == [(True, 1)]


async def test_a_message_that_alone_is_too_long_is_refused_at_once() -> None:
    asked: list[int] = []

    def refuse(request: Any) -> Any:
        asked.append(len(request.messages))
        raise ContextTooLarge("prompt is too long")

    async with memory_runtime(model=ScriptedModel(refuse)) as runtime:
        reply = await runtime.chat("Go")
    assert reply.error is not None
    assert reply.error.code == ContextTooLarge.code
    assert asked == [1]
