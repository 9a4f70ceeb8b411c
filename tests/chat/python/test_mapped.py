"""Many inputs at once: their order, their keys, and what is refused."""

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from penstock.core.errors import ConfigError, InvalidRequest
from penstock.models.model import ModelRequest
from penstock.models.scripted import Hold, ScriptedModel, ScriptedReply, say, wait
from penstock.testing.runtime import memory_runtime


def model() -> ScriptedModel:
    """Return a model that answers three times."""
    return ScriptedModel([say("One."), say("Two."), say("Three.")])


async def test_a_map_yields_replies_in_the_order_of_its_inputs() -> None:
    hold = Hold()

    def answer(request: ModelRequest) -> ScriptedReply:
        text = request.messages[-1].content
        return say("slow") + wait(hold) if text == "0" else say(text)

    async with memory_runtime(model=ScriptedModel(answer)) as runtime:
        texts = [f"{n}" for n in range(12)]
        replies = runtime.map(texts, concurrency=3)
        first = asyncio.ensure_future(anext(aiter(replies)))
        await hold.reached()
        hold.release()
        outputs = [(await first).output, *[reply.output async for reply in replies]]
    assert outputs == ["slow", *texts[1:]]


async def test_a_map_with_a_key_repeats_no_finished_input() -> None:
    scripted = ScriptedModel(lambda request: say(request.messages[-1].content))
    texts = ["a", "b", "a"]
    async with memory_runtime(model=scripted) as runtime:
        first = [reply async for reply in runtime.map(texts[:2], key="monday")]
        again = [reply async for reply in runtime.map(texts, key="monday", progress=True)]
        changed = [reply async for reply in runtime.map(["a", "B"], key="monday")]
    assert [reply.task_id for reply in again[:2]] == [reply.task_id for reply in first]
    assert changed[1].output == "B"
    assert len(scripted.requests) == 4


async def test_a_map_passes_on_a_refusal_and_cancels_its_waits() -> None:
    async with memory_runtime(model=model()) as runtime:
        with pytest.raises(InvalidRequest):
            _ = [reply async for reply in runtime.map(["Hello", "  "])]
        async for _reply in runtime.map(["One", "Two"], concurrency=1):
            break


async def test_a_map_leaves_no_thread_of_its_bar_behind() -> None:
    before = {*threading.enumerate()}
    async with memory_runtime(model=model()) as runtime:
        assert [reply async for reply in runtime.map([], progress=True)] == []
        left: Any = runtime.map(["One", "Two"], progress=True)
        async with aclosing(left) as replies:
            async for _reply in replies:
                break
        with pytest.raises(InvalidRequest):
            _ = [reply async for reply in runtime.map(["  "], progress=True)]
    of_bars = {*threading.enumerate()} - before
    for thread in of_bars:
        thread.join(1)
    assert not any(thread.is_alive() for thread in of_bars)


async def test_a_map_that_works_on_nothing_at_once_is_refused() -> None:
    async with memory_runtime(model=model()) as runtime:
        for concurrency in (0, -1):
            with pytest.raises(ConfigError, match=f"at least 1, found {concurrency}"):
                _ = [reply async for reply in runtime.map(["One"], concurrency=concurrency)]
        with pytest.raises(ConfigError, match=r"takes a list of messages, such as \['One'\]"):
            _ = [reply async for reply in runtime.map("One")]
        wrong: Any = 5
        with pytest.raises(ConfigError, match="inputs takes a list of messages, found 5"):
            _ = [reply async for reply in runtime.map(wrong)]
