"""A model on the chat wire over HTTP: its requests are in order, its reasoning returns to it."""

import json
from itertools import pairwise
from typing import Any

import pytest

from penstock.chat.requests import TaskReply as Outcome
from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.core.messages import UserMessage
from penstock.core.task import TaskStatus
from penstock.models.model import Finished, ModelRequest, TextDelta
from penstock.models.providers import ModelConfig
from penstock.models.wires.openai import OpenAIModel
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import memory_runtime
from tests.kit.asking import ask
from tests.kit.dying_log import DyingLog, outlived
from tests.kit.fakes.chat import FIELD, FakeChat
from tests.kit.fakes.provider import Asked, Fault, Refused, Reply, Said, Thought, replying
from tests.kit.tools import Act

pytestmark = pytest.mark.programs
CALLS = 5
WRITES = 7
"""How often the log of the loop below is written when no process dies."""


def model(server: FakeChat, name: str = "deepseek-reasoner") -> OpenAIModel:
    config = ModelConfig(
        name=f"m-{name}", provider="openai-compatible", model=name, base_url=f"{server.url}/v1"
    )
    return OpenAIModel(config, Limits())


def looping(body: dict[str, Any]) -> Reply:
    """Ask for five calls, one after the other; think before all but the third."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done == CALLS:
        return replying(Thought("enough"), Said("Done."))
    thought = () if done == 2 else (Thought(f"step {done}"),)
    return replying(*thought, Asked("look", {"n": done}))


async def tell(log: DyingLog, asked: OpenAIModel) -> Outcome:
    """Run the loop in as many lives as it takes."""
    return await outlived(log, "Go", model=asked, tools=[Act("look")])


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_loop_killed_at_any_write_sends_the_same_requests(
    writes: int, before: bool
) -> None:
    async with FakeChat(is_deepseek=True).serving() as server:
        server.script = looping
        asked, clock = model(server), FakeClock()
        reply = await tell(DyingLog(clock, writes=writes, before=before), asked)
        await asked.close()
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "Done.")
    assert server.refusals == []
    # Ids of calls are ours: a reply that is asked for again has new ones, and so has what follows.
    assert len(server.bodies) <= CALLS + 2
    thoughts = [each[FIELD] for each in server.requests[-1]["messages"] if FIELD in each]
    assert thoughts == ["step 0", "step 1", "", "step 3", "step 4"]


async def test_every_write_of_the_loop_is_tried() -> None:
    async with FakeChat(is_deepseek=True).serving() as server:
        server.script = looping
        asked, clock = model(server), FakeClock()
        log = DyingLog(clock, writes=-1, before=False)
        await tell(log, asked)
        await asked.close()
    assert log.writes == WRITES


async def test_reasoning_of_earlier_tasks_keeps_the_beginning_of_each_request() -> None:
    """DeepSeek refuses later tasks without the reasoning of earlier calls."""
    thinking = replying(Thought("hm"), Asked("look"))
    answers = (thinking, replying(Said("One.")), thinking, replying(Said("Two.")))
    async with (
        FakeChat(*answers, is_deepseek=True).serving() as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        await ask(runtime, "Again", session=reply.session_id)
    assert server.refusals == []
    assert [json.dumps(body).count(FIELD) for body in server.requests] == [0, 1, 1, 2]
    texts = [server.prefix(body).removesuffix("]]") for body in server.requests]
    assert all(after.startswith(before) for before, after in pairwise(texts))


async def test_each_request_finds_the_one_before_in_the_cache() -> None:
    answers = [replying(Asked("look", {"n": 1})), replying(Said("Done.")), replying(Said("Hi."))]
    async with (
        FakeChat(*answers).serving() as server,
        memory_runtime(model=model(server), tools=[Act("look")]) as runtime,
    ):
        reply = await ask(runtime, "Go")
        again = await ask(runtime, "Again", session=reply.session_id)
    assert server.refusals == []
    assert reply.usage.cached_tokens > 0
    assert again.usage.cached_tokens > reply.usage.cached_tokens
    assert reply.usage.reasoning_tokens == 8


async def test_a_refused_message_is_not_read_again() -> None:
    answers = replying(Refused("I cannot help.")), replying(Said("Hi."))
    async with (
        FakeChat(*answers).serving() as server,
        memory_runtime(model=model(server)) as runtime,
    ):
        reply = await ask(runtime, "Something bad")
        await ask(runtime, "Hello", session=reply.session_id)
    assert (reply.content, reply.finish_reason) == ("I cannot help.", "content_filter")
    asked = [each["content"] for each in server.requests[1]["messages"] if each["role"] == "user"]
    assert asked == ["Hello"]


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"single_bytes": True},
        {"crlf": True},
        {"pings": True},
        {"unknown_events": True},
        {"single_bytes": True, "crlf": True, "pings": True, "unknown_events": True},
    ],
    ids=str,
)
async def test_a_reply_is_read_however_it_arrives(way: dict[str, Any]) -> None:
    async with FakeChat(replying(Thought("hm"), Said("Hello you."), **way)).serving() as server:
        asked = model(server)
        found = [each async for each in asked.stream(request())]
        await asked.close()
    assert "".join(each.text for each in found if isinstance(each, TextDelta)) == "Hello you."
    assert isinstance(found[-1], Finished)
    assert (found[-1].reason, found[-1].response_id) == ("stop", "chatcmpl-1")


@pytest.mark.parametrize("count", range(8))
async def test_a_reply_cut_at_any_event_may_be_retried(count: int) -> None:
    """The last two events are usage and `[DONE]`: after the finish reason nothing is missing."""
    async with FakeChat(replying(Said("Hello you."), cut_after=count)).serving() as server:
        asked = model(server)
        with pytest.raises(ModelUnavailable):
            [each async for each in asked.stream(request())]
        await asked.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Fault(400, "No.", "invalid_request_error"), ModelRefused),
        (Fault(429, "Pay.", "insufficient_quota"), ModelRefused),
        (Fault(429, "Slow.", "rate_limit_exceeded"), ModelUnavailable),
        (Fault(529, "Busy.", "overloaded"), ModelUnavailable),
        (replying(Said("Hi"), error_after=2), ModelUnavailable),
    ],
)
async def test_failures(answer: Fault | Reply, error: type[ModelError]) -> None:
    async with FakeChat(answer).serving() as server:
        asked = model(server)
        with pytest.raises(ModelError) as caught:
            [each async for each in asked.stream(request())]
        await asked.close()
    assert type(caught.value) is error


def request() -> ModelRequest:
    return ModelRequest(system="", messages=[UserMessage("hi")])
