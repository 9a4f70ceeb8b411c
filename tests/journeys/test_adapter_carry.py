"""Loops of calls through Pydantic AI: a reply goes back as it came, also after a restart."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby, pairwise
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.models.model import Model
from penstock.models.providers import ModelConfig
from penstock.models.settings import ModelSettings
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.fake_anthropic import BINDING, MANUAL, MODELS, fake_anthropic
from tests.kit.fakes.google import DUMMY, FakeGoogle
from tests.kit.fakes.provider import Asked, Reply, Said, Thought, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
CALLS = 3
ENCODED_DUMMY = b64encode(DUMMY.encode()).decode()
THINKING = ModelSettings(thinking="low")
PROVIDERS = ("anthropic", BINDING, "openai-responses", "google")
NAMES = {
    "anthropic": "claude-haiku-4-5",
    BINDING: MODELS[BINDING],
    "openai-responses": "gpt-6-sol",
    "google": "gemini-3-pro",
}


def adapted(provider: str, url: str, name: str = "") -> Model:
    make = late("penstock.models.wires.pydantic_ai:PydanticAIModel")
    config = ModelConfig(
        name="mine",
        provider="anthropic" if provider == BINDING else provider,
        model=name or NAMES[provider],
        base_url=f"{url}/v1" if provider == "openai-responses" else url,
        api_key="sk-secret-of-ours",
    )
    model: Model = make(config, Limits())
    return model


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load the libraries before any test is timed: they take two seconds."""
    for provider in PROVIDERS:
        asyncio.run(adapted(provider, "http://127.0.0.1:1").close())


def looping(body: dict[str, Any]) -> Reply:
    """Ask for calls, one after the other; think before each, twice the second time."""
    done = json.dumps(body).count('"functionResponse"')
    done += json.dumps(body).count('"function_call_output"')
    if done >= CALLS:
        return replying(Thought("enough"), Said("Answer."))
    twice = (Thought(""),) if done == 1 else ()
    return replying(Thought(f"step {done}"), Said("So:"), *twice, Asked("look", {"n": done}))


@asynccontextmanager
async def serving(provider: str) -> AsyncIterator[Any]:
    if provider in {"anthropic", BINDING}:
        mode = BINDING if provider == BINDING else MANUAL
        async with fake_anthropic(mode, calls=CALLS) as fake:
            yield fake
        return
    server = FakeGoogle() if provider == "google" else FakeResponses()
    server.script = looping
    async with server.serving() as serving:
        yield serving


async def loop_of_calls(
    provider: str, fake: Any, *, writes: int, before: bool = False
) -> tuple[str, DyingLog]:
    """Run the loop in as many processes as it takes; return its answer and its log."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    place = MemoryStorage(clock=clock, log=log, limits=Limits(shutdown_seconds=0))
    while True:
        model = adapted(provider, fake.url)
        agent = Agent("assistant", model=model, model_settings=THINKING)
        async with memory_runtime(agents=[agent], tools=[Act("look")], place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, "Go", lambda question: {}))
        await model.close()
        if reply is not None:
            return reply.content, log
        log.revive()
        clock.advance(place.limits.lease_seconds + 1)


def distinct(bodies: list[bytes]) -> list[bytes]:
    return [body for body, _ in groupby(bodies)]


@pytest.mark.slow("runs a loop once for each of its writes")
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_loop_killed_at_any_write_sends_the_same_requests(provider: str) -> None:
    async with serving(provider) as whole:
        answer, log = await loop_of_calls(provider, whole, writes=-1)
    assert (whole.refusals, len(whole.bodies)) == ([], CALLS + 1)
    assert answer
    for writes in range(1, log.writes + 1):
        async with serving(provider) as again:
            killed, _ = await loop_of_calls(provider, again, writes=writes)
        assert (killed, again.refusals) == (answer, []), writes
        assert distinct(again.bodies) == whole.bodies, writes


async def test_thinking_goes_back_within_a_loop_of_calls() -> None:
    """Earlier versions turned it off after the first call."""
    async with serving("anthropic") as fake:
        await loop_of_calls("anthropic", fake, writes=-1)
    assert [body["thinking"]["type"] for body in fake.requests] == ["enabled"] * (CALLS + 1)
    assert [body.count(b'"signature"') for body in fake.bodies] == [0, 1, 2, 3]


async def test_a_signature_of_google_goes_back_with_its_call() -> None:
    async with serving("google") as fake:
        await loop_of_calls("google", fake, writes=-1)
    assert (fake.dummies, fake.refusals) == (0, [])
    signed = [str(body).count("thoughtSignature") for body in fake.requests]
    assert signed == [0, 1, 2, 3]


async def test_encrypted_reasoning_goes_back_with_its_followers() -> None:
    async with serving("openai-responses") as fake:
        await loop_of_calls("openai-responses", fake, writes=-1)
    items = [item for item in fake.requests[-1]["input"] if item.get("type")]
    kinds = ["reasoning", "message", "function_call", "function_call_output"]
    twice = ["reasoning", "message", "reasoning", "function_call", "function_call_output"]
    assert [item["type"] for item in items] == [*kinds, *twice, *kinds]
    assert {item.get("phase") for item in items if item["type"] == "message"} == {"final_answer"}


async def test_a_provider_that_refuses_all_thinking_gets_each_request_without_it() -> None:
    async with fake_anthropic(MANUAL, calls=CALLS, refuses_carries=True) as fake:
        answer, _ = await loop_of_calls("anthropic", fake, writes=-1)
    assert answer == f"Answer {CALLS}."
    sent = [b'"signature"' in body for body in fake.bodies]
    assert (sum(sent), len(sent) - sum(sent)) == (len(fake.refusals), CALLS + 1)
    assert not any(one and other for one, other in pairwise(sent))
    # A part of the thinking of a task would be refused, too.
    plain = [body for body, is_signed in zip(fake.requests, sent, strict=True) if not is_signed]
    assert [body.get("thinking", {}).get("type") for body in plain] == ["enabled", None, None, None]


async def test_reasoning_of_another_organization_is_left_out_for_good() -> None:
    calling, ending = replying(Thought(), Asked("look")), replying(Thought(), Said("Done."))
    async with FakeResponses(calling, ending, ending).serving() as server:
        model, place = adapted("openai-responses", server.url), MemoryStorage()
        server.after_reply = lambda: setattr(server, "organization", "org-2")
        async with memory_runtime(model=model, tools=[Act("look")], place=place) as runtime:
            first = await runtime.chat("Go")
            await runtime.chat("Again", session=first.session)
        await model.close()
    assert [refusal.partition(" for item")[0] for refusal in server.refusals] == [
        "The encrypted content"
    ]
    with_reasoning = [str(body["input"]).count("encrypted_content") for body in server.requests]
    assert with_reasoning == [0, 1, 0, 1]


async def test_another_model_reads_no_thinking_and_the_first_one_its_own_again() -> None:
    calling, ending = replying(Thought("hm"), Asked("look")), replying(Said("Done."))
    async with (
        FakeGoogle(*[calling, ending] * 2).serving() as google,
        FakeResponses(calling, ending).serving() as openai,
    ):
        first, second = adapted("google", google.url), adapted("openai-responses", openai.url)
        place, session = MemoryStorage(), None
        for model in (first, second, first):
            agent = Agent("clerk", model=model)
            tools = [Act("look")]
            async with memory_runtime(agents=[agent], tools=tools, place=place) as runtime:
                session = (await runtime.chat("Go", agent="clerk", session=session)).session
        await first.close()
        await second.close()
    assert google.refusals + openai.refusals == []
    texts = [json.dumps(body) for body in google.requests]
    # The library signs the call of the other model with the dummy that Google documents.
    dummies = [text.count(ENCODED_DUMMY) for text in texts]
    own = [
        text.count("thoughtSignature") - dummy for text, dummy in zip(texts, dummies, strict=True)
    ]
    assert (own, dummies) == ([0, 1, 1, 2], [0, 0, 1, 1])
    assert [str(body["input"]).count("encrypted_content") for body in openai.requests] == [0, 1]
