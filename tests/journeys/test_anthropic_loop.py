"""A loop of calls of a thinking model, killed at each write: the same requests, and no refusal."""

import json
import signal
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from penstock import AgentContext, ChatSettings
from penstock.agents.agent import Agent
from penstock.core.limits import Limits
from penstock.models.providers import ModelConfig
from penstock.models.settings import ModelSettings
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
    bare,
    fake_anthropic,
)
from tests.kit.fakes.provider import Delivery
from tests.kit.killed_program import KilledProgram
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
MODES = (BINDING, MANUAL, ADAPTIVE)
LOUD = Delivery(single_bytes=True, crlf=True, pings=True, unknown_events=True)
THINKING = ModelSettings(thinking="low")


def claude(fake: FakeAnthropic, mode: str | None = None) -> AnthropicModel:
    config = ModelConfig(
        name="claude",
        provider="anthropic",
        model=MODELS[mode or fake.mode],
        base_url=fake.url,
        api_key="sk",
    )
    return AnthropicModel(config, Limits())


async def loop_of_calls(
    fake: FakeAnthropic, *, writes: int, before: bool, **options: Any
) -> tuple[str, DyingLog]:
    """Run the loop in as many processes as it takes; return its answer and its log."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    while True:
        model = claude(fake)
        agent = Agent("assistant", model=model, model_settings=THINKING, **options)
        async with memory_runtime(agents=[agent], tools=[Act("look")], place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, "Go", lambda question: {}))
        await model.close()
        if reply is not None:
            return reply.content, log
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


def distinct(bodies: list[bytes]) -> list[bytes]:
    """Return the requests, each once: a process that died may have been asking."""
    return [body for body, _ in groupby(bodies)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_a_loop_killed_at_any_write_sends_the_same_bytes(mode: str, before: bool) -> None:
    async with fake_anthropic(mode) as fake:
        answer, log = await loop_of_calls(fake, writes=-1, before=before)
    assert (answer, len(fake.bodies), fake.refusals) == ("Answer 5.", 6, [])
    assert json.loads(fake.bodies[0])["thinking"]["type"] == (
        "enabled" if mode == MANUAL else "adaptive"
    )
    for writes in range(1, log.writes + 1):
        async with fake_anthropic(mode) as again:
            killed, _ = await loop_of_calls(again, writes=writes, before=before)
        assert (killed, again.refusals) == (answer, []), writes
        assert distinct(again.bodies) == fake.bodies, writes


class Ticket(Struct):
    """A report."""

    title: str


def begins_with(before: bytes, after: bytes) -> bool:
    """Whether a request repeats the one before, apart from cache points and the choice of tools."""
    one, other = (bare(json.loads(each)) for each in (before, after))
    said, count = one["messages"], len(one["messages"])
    fixed = all(one[name] == other[name] for name in ("system", "tools", "thinking"))
    return fixed and other["messages"][:count] == said


@pytest.mark.parametrize("mode", MODES)
async def test_the_last_requests_for_a_typed_output_keep_prefix_and_thinking(mode: str) -> None:
    """Two calls, a note, a wrong answer and a right one; the same bytes after each crash."""
    typed = {"output": Ticket, "settings": ChatSettings(max_iterations=2)}
    async with fake_anthropic(mode, calls=9, answers_with="final_answer") as fake:
        answer, log = await loop_of_calls(fake, writes=-1, before=False, **typed)
    assert (answer, len(fake.bodies), fake.refusals) == ('{"title":"fire"}', 4, [])
    assert all(begins_with(*pair) for pair in pairwise(fake.bodies))
    assert [body.count(b'"signature"') for body in fake.bodies] == [0, 1, 2, 3]
    choices = [json.loads(body)["tool_choice"]["type"] for body in fake.bodies]
    assert choices == (["any", "any", "tool", "tool"] if mode == ADAPTIVE else ["auto"] * 4)
    for writes in range(1, log.writes + 1):
        async with fake_anthropic(mode, calls=9, answers_with="final_answer") as again:
            killed, _ = await loop_of_calls(again, writes=writes, before=False, **typed)
        assert (killed, again.refusals) == (answer, []), writes
        assert distinct(again.bodies) == fake.bodies, writes


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_of_single_bytes_with_noise_leads_to_the_same_requests(mode: str) -> None:
    async with fake_anthropic(mode) as whole, fake_anthropic(mode, delivery=LOUD) as noisy:
        for fake in (whole, noisy):
            assert (await loop_of_calls(fake, writes=-1, before=False))[0] == "Answer 5."
    assert noisy.bodies == whole.bodies


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_refuses_all_thinking_gets_each_request_without_it(mode: str) -> None:
    async with fake_anthropic(mode, refuses_carries=True) as fake:
        answer, _ = await loop_of_calls(fake, writes=-1, before=False)
    assert answer == "Answer 5."
    sent = [b'"signature"' in body for body in fake.bodies]
    assert (sum(sent), len(sent) - sum(sent)) == (len(fake.refusals), 6)
    assert not any(one and other for one, other in pairwise(sent))


@pytest.mark.parametrize("mode", MODES)
async def test_another_system_prompt_costs_only_bound_thinking(mode: str) -> None:
    async with fake_anthropic(mode, calls=1) as fake:
        model, place = claude(fake), MemoryStorage(limits=Limits(shutdown_seconds=0))
        session: str | None = None
        for text in ("Be brief.", "Be kind."):
            agent = Agent("clerk", instructions=text, model=model, model_settings=THINKING)
            runtime = memory_runtime(agents=[agent], tools=[Act("look")], place=place)
            async with runtime as opened:
                session = (await opened.chat("Go", agent="clerk", session=session)).session
        await model.close()
    assert fake.refusals == []
    assert (b'"signature"' in fake.bodies[2]) is (mode != BINDING)
    assert b"toolu_0" in fake.bodies[2]


@pytest.mark.parametrize("mode", MODES)
async def test_instructions_of_a_function_that_change_cost_only_bound_thinking(mode: str) -> None:
    """Models §12: the function gives another text for task 2."""
    moods = iter(["Be brief.", "Be kind."])

    def mood(ctx: AgentContext[object]) -> str:
        return next(moods)

    async with fake_anthropic(mode, calls=1) as fake:
        model = claude(fake)
        agent = Agent(
            "clerk",
            instructions=mood,
            instructions_every="task",
            model=model,
            model_settings=THINKING,
        )
        async with memory_runtime(agents=[agent], tools=[Act("look")]) as runtime:
            first = await runtime.chat("Go", agent=agent)
            await runtime.chat("Go", agent=agent, session=first.session)
        await model.close()
    assert (fake.refusals, len(fake.bodies)) == ([], 4)
    assert [b"Be kind." in body for body in fake.bodies] == [False, False, True, True]
    assert (b'"signature"' in fake.bodies[2]) is (mode != BINDING)
    assert b'"signature"' in fake.bodies[3]


async def test_another_model_reads_no_thinking_and_the_first_one_its_own_again() -> None:
    async with fake_anthropic(ADAPTIVE, calls=1) as fake:
        first, second = claude(fake), claude(fake, MANUAL)
        place = MemoryStorage(limits=Limits(shutdown_seconds=0))
        session: str | None = None
        for model in (first, second, first):
            agent = Agent("clerk", model=model)
            runtime = memory_runtime(agents=[agent], tools=[Act("look")], place=place)
            async with runtime as opened:
                session = (await opened.chat("Go", agent="clerk", session=session)).session
        for model in (first, second):
            await model.close()
    assert fake.refusals == []
    counts = [body.count(b'"signature"') for body in fake.bodies]
    assert counts == [0, 1, 0, 1, 2, 3]


@pytest.mark.slow("starts and kills processes")
@pytest.mark.parametrize("mode", MODES)
async def test_a_process_killed_within_the_loop_sends_the_same_bytes(
    mode: str, tmp_path: Path
) -> None:
    async with fake_anthropic(mode) as whole:
        program = KilledProgram(tmp_path / "whole", whole.url, "anthropic", MODELS[mode])
        assert await program.run() == (0, "Answer 5.")
    for killed_at in KILLED_AT:
        async with fake_anthropic(mode) as fake:
            place = tmp_path / f"killed at {killed_at}"
            program = KilledProgram(place, fake.url, "anthropic", MODELS[mode])
            fake.on_request = partial(kill, program, killed_at)
            code, _ = await program.run()
            assert code == -signal.SIGKILL
            assert await program.run() == (0, "Answer 5.")
        assert fake.refusals == []
        assert distinct(fake.bodies) == whole.bodies


KILLED_AT = (2, 4)
"""Requests of the loop at which its process is killed, while it waits for the reply."""


def kill(program: KilledProgram, killed_at: int, number: int) -> None:
    if number == killed_at:
        program.kill()
