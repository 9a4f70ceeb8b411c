"""Conversations that outgrow their model: one step, the same after a restart, and no refusal."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from penstock import Agent, ChatSettings, Limits, Model, ModelSettings, tool
from penstock.core.errors import ContextTooLarge
from penstock.core.events.events import NoteEmitted, ReplyReceived
from penstock.core.events.history_events import Summarised
from penstock.core.ids import LogId
from penstock.core.messages import Usage
from penstock.models.model import ModelCard, ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.scripted import SCRIPTED, ScriptedModel, ScriptedReply, call, say
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel
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
from tests.kit.fakes.chat import FakeChat
from tests.kit.fakes.provider import Asked, FakeProvider, Reply, Said, Thought, replying
from tests.kit.fakes.responses import FakeResponses

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


TURNS, TURNS_OF_A_PROCESS, LIMIT = 50, 10, 6_000
Wire = Literal["anthropic", "openai-responses", "openai"]


@dataclass
class Provider:
    """One of the fake providers, and what it received."""

    model: Model
    requests: Callable[[], list[dict[str, Any]]]
    refusals: list[str]


@asynccontextmanager
async def provider(wire: Wire) -> AsyncIterator[Provider]:
    """Serve a fake whose model makes one call in each task, then answers."""
    if wire == "anthropic":
        async with fake_anthropic(BINDING, calls=1) as claude_fake:
            model: Model = claude(claude_fake)
            yield Provider(model, lambda: claude_fake.requests, claude_fake.refusals)
            await model.close()
        return
    fake: FakeProvider = FakeResponses() if wire == "openai-responses" else FakeChat()
    fake.script = answer
    async with fake.serving():
        url = f"{fake.url}/v1"
        made = ModelConfig(name="m", provider=wire, model="gpt-6-sol", base_url=url, api_key="sk")
        kind = ResponsesModel if wire == "openai-responses" else OpenAIModel
        model = kind(made, Limits())
        yield Provider(model, lambda: fake.requests, fake.refusals)
        await model.close()


def answer(body: dict[str, Any]) -> Reply:
    """Think and call `look`, or answer if the newest part of the request is its result."""
    newest = body["input" if "input" in body else "messages"][-1]
    if "tool" in newest.get("role", "") or newest.get("type") == "function_call_output":
        return replying(Said("It is there. " + "y" * 1_500))
    # The chat wire sends reasoning of the current task alone, as its providers require.
    thought = [Thought("hm")] if "input" in body else []
    return replying(*thought, Asked("look", {"n": len(json.dumps(body))}))


def tools_in(order: int) -> list[Any]:
    """Return the tools as a process finds them that connects to their servers in another order."""
    tools = [look, *(tool(id=f"other_{n}", effect="read")(other) for n in range(4))]
    return [*tools[order % 5 :], *tools[: order % 5]]


def other(a: str) -> str:
    """Do something else."""
    return a


def fixed_part(body: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a request that no message changes."""
    return {key: value for key, value in bare(body).items() if key not in {"messages", "input"}}


def bytes_of(body: dict[str, Any]) -> str:
    """Return the messages of a request as text, without their end and cache points."""
    said = body.get("input", body.get("messages"))
    return json.dumps(bare(said), ensure_ascii=False).removesuffix("]")


@pytest.mark.slow("sends a hundred requests")
@pytest.mark.parametrize("wire", ["anthropic", "openai-responses", "openai"])
async def test_each_request_of_50_turns_begins_with_the_one_before(wire: Wire) -> None:
    """Trimming changes it in one step, at most once per 30 % of the window; restarts do not."""
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    settings = ChatSettings(context_max_tokens=LIMIT, llm_max_tokens=100)
    session: str | None = None
    async with provider(wire) as fake:
        for process in range(TURNS // TURNS_OF_A_PROCESS):
            agent = Agent("clerk", model=fake.model, settings=settings, tools=tools_in(process))
            async with memory_runtime(agents=[agent], place=place) as runtime:
                for turn in range(TURNS_OF_A_PROCESS):
                    reply = await runtime.chat(f"{turn}?", agent="clerk", session=session)
                    assert reply.error is None
                    session = reply.session
    assert fake.refusals == []
    requests = fake.requests()
    assert len(requests) == 2 * TURNS
    first = json.dumps(fixed_part(requests[0]))
    assert {json.dumps(fixed_part(each)) for each in requests} == {first}
    texts = [*map(bytes_of, requests)]
    changed = [
        number
        for number, (before, after) in enumerate(pairwise(texts), 1)
        if not after.startswith(before)
    ]
    records = await place.log.read(LogId(session or ""))
    assert len(changed) == sum(isinstance(each.event, Summarised) for each in records) >= 2
    said = [each.event.text for each in records if isinstance(each.event, ReplyReceived)]
    for last, now in pairwise(changed):
        grown = len(texts[now - 1]) + len(said[now - 1]) - len(texts[last])
        assert grown / 4 >= 0.3 * LIMIT, (last, now)


@pytest.mark.parametrize("mode", MODES)
async def test_each_request_to_claude_reads_the_one_before_from_the_cache(mode: str) -> None:
    """The fake keeps only what precedes a cache point, and looks back 20 blocks."""
    async with fake_anthropic(mode, calls=5) as fake:
        model = claude(fake)
        agent = Agent("clerk", model=model, tools=[look])
        async with memory_runtime(agents=[agent]) as runtime:
            first = await runtime.chat("Go", agent="clerk")
            second = await runtime.chat("And?", agent="clerk", session=first.session)
        await model.close()
    assert fake.refusals == []
    points = [body.count(b'"cache_control"') for body in fake.bodies]
    assert points == [2, *[3] * 11]
    assert fake.cached == sorted(fake.cached)
    sizes = [len(json.dumps(bare(each))) // 4 for each in fake.requests]
    assert first.usage.cached_tokens == sum(fake.cached[:6]) > 0
    assert second.usage.cached_tokens == sum(fake.cached[6:])
    for before, read in zip(sizes, fake.cached[1:], strict=False):
        assert read > 0.8 * before - 100


BIG = Usage(input_tokens=50_000, cached_tokens=48_000)
WRITTEN = Usage(input_tokens=50_000, cache_write_tokens=49_000)
MINUTE = 60


@pytest.mark.parametrize(
    ("first", "second", "seconds", "lost"),
    [
        (BIG, Usage(input_tokens=51_000), 1, True),
        (
            Usage(input_tokens=50_000, cache_write_tokens=49_000),
            Usage(input_tokens=51_000),
            1,
            True,
        ),
        (BIG, Usage(input_tokens=51_000, cached_tokens=47_400), 1, True),
        (BIG, Usage(input_tokens=51_000, cached_tokens=47_600), 1, False),
        (BIG, Usage(input_tokens=51_000), 4 * MINUTE, True),
        (BIG, Usage(input_tokens=51_000), 6 * MINUTE, False),
        (Usage(input_tokens=50_000), Usage(input_tokens=51_000), 1, False),
        (Usage(input_tokens=2_100, cached_tokens=99), Usage(input_tokens=2_200), 1, True),
        (Usage(input_tokens=1_900, cached_tokens=99), Usage(input_tokens=2_000), 1, False),
    ],
    ids=[
        *("nothing is read", "what was written is gone", "6 % less", "4 % less", "after 4 minutes"),
        *("after 6 minutes", "a provider without a cache", "2,100 tokens", "1,900 tokens"),
    ],
)
async def test_a_cache_that_did_not_help_is_one_notice(
    first: Usage, second: Usage, seconds: float, lost: bool
) -> None:
    """Models §7: more than 5 % and at least 2,000 tokens below the last request, within the TTL."""
    notes = await notices_of(first, second, seconds)
    assert [each.event_type for each in notes] == ["cache_lost"] * lost
    for note in notes:
        assert note.level == "info"
        assert note.payload["expectedTokens"] == first.input_tokens


@pytest.mark.parametrize(
    ("of_model", "of_agent", "lost"),
    [("1h", None, True), (None, "1h", True), ("1h", "5m", False), ("5m", None, False)],
)
async def test_a_cache_is_kept_for_as_long_as_agent_or_model_ask(
    of_model: str | None, of_agent: str | None, *, lost: bool
) -> None:
    """`cache_ttl` of an agent wins over that of `[models.NAME]` and `[model_settings]`."""
    card = ModelCard(model_id="kept", name="kept", provider="scripted", cache_ttl=of_model)
    asked = ModelSettings(cache_ttl=of_agent)
    notes = await notices_of(BIG, Usage(input_tokens=51_000), 6 * MINUTE, card=card, settings=asked)
    assert len(notes) == lost


async def notices_of(
    first: Usage,
    second: Usage,
    seconds: float,
    *,
    card: ModelCard = SCRIPTED,
    settings: ModelSettings | None = None,
) -> list[NoteEmitted]:
    """Return the notices of two messages, some seconds apart, whose replies have these usages."""
    clock = FakeClock()
    replies = [say("One."), say("Two."), say("Three.")]
    usages = [first, second, replace(second, cached_tokens=0)]
    pairs = zip(replies, usages, strict=True)
    model = ScriptedModel([reply + ScriptedReply(usage=usage) for reply, usage in pairs], card=card)
    agent = Agent(
        "clerk",
        model=model,
        model_settings=settings or ModelSettings(),
        settings=ChatSettings(context_max_tokens=10**6),
    )
    place = MemoryStorage(clock=clock)
    session: str | None = None
    async with memory_runtime(agents=[agent], place=place) as runtime:
        for text in ("Hi", "And?"):
            session = (await runtime.chat(text, agent="clerk", session=session)).session
            clock.advance(seconds)
    records = await place.log.read(LogId(session or ""))
    return [each.event for each in records if isinstance(each.event, NoteEmitted)]


async def test_an_agent_in_a_frame_reads_previews_of_its_own_results() -> None:
    """Agents as tools, and those of flows, share the code of turns."""
    asked: list[list[str]] = []

    def inner(request: ModelRequest) -> ScriptedReply:
        asked.append([each.content[:16] for each in request.messages])
        if sum(len(each.content) for each in request.messages) > WINDOW:
            raise ContextTooLarge("prompt is too long")
        return say("Found.") if len(request.messages) > 10 else call("look", n=len(asked))

    searcher = Agent("searcher", model=ScriptedModel(inner), tools=[look])
    outer = ScriptedModel([call("searcher", task="Search."), say("Done.")])
    guide = Agent("guide", model=outer, tools=[searcher])
    place = MemoryStorage(limits=Limits(shutdown_seconds=0))
    async with memory_runtime(agents=[guide], place=place) as runtime:
        reply = await runtime.chat("Go", agent=guide)
    assert (reply.error, reply.content) == (None, "Done.")
    records = await place.log.read(LogId(reply.session))
    (cut,) = [each for each in records if isinstance(each.event, Summarised)]
    assert cut.path is not None
    assert isinstance(cut.event, Summarised)
    assert (cut.event.too_long, cut.event.results) == (True, 3)
    assert asked[-1][2] == "[result removed:"
    assert asked[-1][-1].startswith("seen ")
