"""The model call: what is retried, what is retracted, what fails the task."""

import asyncio
import errno
import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage, SentMessage
from penstock.cli.interaction.conversation import frames
from penstock.core.errors import ModelUnavailable
from penstock.core.events.events import ReplyReceived, ReplyRestarted
from penstock.core.ids import ASSISTANT
from penstock.core.limits import Limits
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.core.task import TaskStatus
from penstock.models.fallback import Fallback
from penstock.models.model import Finished, ModelEvent, ModelRequest
from penstock.models.providers import ModelConfig
from penstock.models.scripted import (
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    say,
    wait,
)
from penstock.models.wires.openai import OpenAIModel
from penstock.testing.clock import FakeClock, settle
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.assistant import agent
from tests.kit.exhausted_process import no_files_left
from tests.kit.logs import events, kinds
from tests.kit.model_server import Canned, delta, fake_server
from tests.kit.model_server import events as chunks_of
from tests.kit.tools import Act


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_a_transient_failure_is_retried_silently(status: int) -> None:
    clock = FakeClock()
    model = ScriptedModel([fail(status), fail(status), say("Here.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await clock.elapse(1.1)
        assert len(model.requests) == 2
        await clock.elapse(4.1)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply
        assert reply.content == "Here."
        assert "ReplyRestarted" not in await kinds(runtime, sent.session_id)


class ModelWithoutFiles(ScriptedModel):
    """Lacks a file for its connection more often than a call is tried."""

    lacks = 7

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.lacks:
            self.lacks -= 1
            raise ModelUnavailable("broke off") from OSError(errno.EMFILE, "Too many open files")
        async for event in super().stream(request):
            yield event


async def test_a_try_without_a_file_descriptor_is_not_counted() -> None:
    clock, model = FakeClock(), ModelWithoutFiles([fail(503), fail(503), say("Here.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await clock.elapse(20)
        async with asyncio.timeout(10):
            reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert reply.content == "Here."


async def test_a_call_that_waits_for_a_file_descriptor_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not every half second: a hundred tasks may wait for hours."""
    clock, model = FakeClock(), ModelWithoutFiles([say("Here."), say("There.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        for warnings in (1, 2):
            model.lacks = 7
            sent = await runtime.requests.send(NewMessage(content="Hi"))
            await clock.elapse(20)
            async with asyncio.timeout(10):
                assert await runtime.requests.wait(sent.task_id)
            messages = [
                each.message for each in caplog.records if "a call of a model" in each.message
            ]
            assert len(messages) == warnings
            assert "Too many open files" in messages[-1]


async def test_a_model_call_waits_for_a_file_descriptor_instead_of_failing() -> None:
    """What this process lacks says nothing about the model or the task."""
    clock = FakeClock()
    chunks = [delta(content="Here."), delta("stop")]
    async with fake_server(Canned(chunks_of(*chunks))) as server:
        config = ModelConfig(name="m", provider="openai", model="m", base_url=server.url)
        model, place = OpenAIModel(config, Limits()), MemoryStorage(clock=clock)
        async with memory_runtime(model=model, place=place) as runtime:
            with no_files_left():
                sent = await runtime.requests.send(NewMessage(content="Hi"))
                await clock.elapse(60)
                assert not server.bodies
            await clock.elapse(3)
            async with asyncio.timeout(10):
                reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert (reply.content, reply.error) == ("Here.", None)


async def test_a_silently_retried_reply_is_announced_once() -> None:
    """7.4: "each opened by exactly one bare `thinking` that no `content_reset` took back"."""
    clock, hold = FakeClock(), Hold()
    model = ScriptedModel([wait(hold) + fail(503), say("Here."), say("There.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        shown = asyncio.create_task(_shown(runtime, sent))
        await settle()
        hold.release()
        await runtime.requests.send(NewMessage(content="Ho", session_id=sent.session_id))
        await clock.elapse(2)
        assert [each for each in await shown if each == "thinking"] == ["thinking"]


async def _shown(runtime: Runtime, sent: SentMessage) -> list[str]:
    return [each["type"] async for each in frames(runtime, sent, ASSISTANT)]


async def test_the_shown_part_of_a_reply_is_retracted_when_it_restarts() -> None:
    clock = FakeClock()
    model = ScriptedModel([say("Hel") + fail(503), say("Hello.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await clock.elapse(1.1)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply
        assert reply.content == "Hello."
        result = await events(runtime, sent.session_id)
    assert [each.iteration for each in result if isinstance(each, ReplyRestarted)] == [1]
    assert [each.text for each in result if isinstance(each, ReplyReceived)] == ["Hello."]


async def test_retry_after_is_respected_up_to_its_limit() -> None:
    clock = FakeClock()
    model = ScriptedModel([fail(429, retry_after=20), fail(429, retry_after=900), say("Now.")])
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await clock.elapse(19)
        assert len(model.requests) == 1
        await clock.elapse(2 + 30)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply
        assert reply.content == "Now."


@pytest.mark.parametrize(
    ("replies", "expected", "asked"),
    [
        ([fail(503)] * 3, "MODEL_UNAVAILABLE", 3),
        ([fail(400)], "MODEL_REFUSED", 1),
        ([fail(401)], "MODEL_REFUSED", 1),
        ([], "MODEL_REFUSED", 1),
    ],
)
async def test_a_permanent_failure_of_the_model_fails_the_task(
    replies: list[ScriptedReply], expected: str, asked: int
) -> None:
    clock = FakeClock()
    model = ScriptedModel(replies)
    async with memory_runtime(model=model, place=MemoryStorage(clock=clock)) as runtime:
        sent = await runtime.requests.send(NewMessage(content="Hi"))
        await clock.elapse(10)
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert reply.error
    assert (reply.status, reply.error.code) == (TaskStatus.FAILED, expected)
    assert reply.error.retryable is (expected == "MODEL_UNAVAILABLE")
    assert len(model.requests) == asked


async def test_an_unknown_model_fails_the_started_task() -> None:
    async with memory_runtime(model=ScriptedModel([])) as runtime:
        reply = await runtime.chat("Hi", agent=Agent("lost", model="nowhere"))
        assert reply.error
        assert (reply.error.code, reply.error.retryable) == ("MODEL_UNAVAILABLE", False)
        assert (await kinds(runtime, reply.session))[-2:] == ["TaskStarted", "TaskEnded"]


async def test_the_offered_tools_do_not_change_within_a_task() -> None:
    model = ScriptedModel([call("look"), say("Ok.")])
    async with memory_runtime(model=model, tools=[Act("look"), Act("act")]) as runtime:
        await runtime.chat("Go")
    offered = [[tool.name for tool in request.tools] for request in model.requests]
    assert offered == [["look", "act"], ["look", "act"]]


async def test_a_conversation_too_long_for_the_model_ends_in_an_error() -> None:
    agents = [agent(context_max_tokens=100)]
    async with memory_runtime(model=ScriptedModel([say("?")]), agents=agents) as runtime:
        reply = await runtime.chat("word " * 1000)
    assert reply.error
    assert reply.error.code == "CONTEXT_TOO_LARGE"


class Faulty(ScriptedModel):
    """A model class of a program with a mistake in it."""

    def __init__(self, fault: Exception | None = None, usage: Usage = NOTHING_SPENT) -> None:
        super().__init__([say("Here.")] * 2)
        self._fault, self._usage = fault, usage

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super().stream(request):
            if self._fault is not None:
                raise self._fault
            yield replace(event, usage=self._usage) if isinstance(event, Finished) else event


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Faulty(KeyError("API_KEY")), "raised KeyError: 'API_KEY'. A model that cannot answer"),
        (Faulty(TimeoutError("too late")), "raised TimeoutError: too late."),
        (Faulty(usage=Usage(cost_usd=math.nan)), "reported a cost of nan USD: cost_usd is a num"),
        (Faulty(usage=Usage(cost_usd=math.inf)), "reported a cost of inf USD"),
        (Faulty(usage=Usage(cost_usd=-0.01)), "reported a cost of -0.01 USD"),
    ],
)
@pytest.mark.parametrize("around", [lambda it: it, lambda it: Fallback(it, ScriptedModel([]))])
async def test_a_mistake_of_a_model_class_ends_the_task_by_name(
    model: Faulty, said: str, around: Callable[..., Any]
) -> None:
    clerk = Agent("clerk", model=around(model))
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("Hi", agent=clerk)
    assert (reply.status, reply.error and reply.error.code) == ("failed", "MODEL_ERROR")
    assert reply.error
    assert f"the model 'scripted' {said}" in reply.error.message
