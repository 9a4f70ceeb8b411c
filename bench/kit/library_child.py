"""Measures what a Python program pays beside the loop: typed output, streams, a map."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from bench.kit import adapter, calibrate
from penstock import Agent, Ended, Runtime, Text
from penstock.core.messages import NOTHING_SPENT
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    TextDelta,
)
from penstock.testing.runtime import memory_runtime

CARD = ModelCard(model_id="fake", name="fake", provider="bench", context_tokens=1_000_000)
DISTRIBUTION = "penstock"
PIECES, INPUTS = 2_000, 1_000
Sample = Callable[[], Coroutine[Any, Any, tuple[float, ...]]]
clock = time.process_time


class Ticket(msgspec.Struct):
    """What a typed agent hands in."""

    title: str
    severity: str


class Fake:
    """Answers at once: with pieces of text, or with a typed output."""

    card = CARD

    def __init__(self, pieces: int, *, is_typed: bool = False) -> None:
        self._pieces = pieces
        self._is_typed = is_typed

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer."""
        if self._is_typed:
            yield CallDelta(0, "final_answer", '{"title": "fire", "severity": "high"}')
            yield Finished("tool_calls", NOTHING_SPENT)
            return
        for _ in range(self._pieces):
            yield TextDelta("word ")
            if self._pieces > 1:
                await checkpoint()  # a provider's pieces arrive one by one, so the reader runs
        yield Finished("stop", NOTHING_SPENT)

    async def close(self) -> None:
        """Do nothing."""


PLAIN = Agent("plain", model=Fake(1), tools=[])
TYPED = Agent("typed", model=Fake(1, is_typed=True), tools=[], output=Ticket)
TALKER = Agent("talker", model=Fake(PIECES), tools=[])


async def _measure() -> dict[str, Any]:
    async with memory_runtime(agents=[PLAIN, TYPED, TALKER]) as runtime:
        windows = {
            "plain": await calibrate.window(_chats(runtime, PLAIN), 1.0, 5),
            "typed": await calibrate.window(_chats(runtime, TYPED), 1.0, 5),
            "stream": await calibrate.window(_stream(runtime), 1.0, 5),
            "map": await calibrate.window(_map(runtime), 1.5, 3),
        }
    return {
        "windows": {
            name: {"us": got["min"][0] * 1e6, "cal_ms": got["cal_ms"]}
            for name, got in windows.items()
        }
    }


def _chats(runtime: Runtime, agent: Agent[Any, Any]) -> Sample:
    async def sample() -> tuple[float]:
        started = clock()
        for _ in range(20):
            reply = await runtime.chat("go", agent=agent)
            assert reply.output
        return ((clock() - started) / 20,)

    return sample


def _stream(runtime: Runtime) -> Sample:
    async def sample() -> tuple[float]:
        started, pieces = clock(), 0
        run = await runtime.start("go", agent=TALKER)
        async for event in run:
            match event:
                case Text():
                    pieces += 1
                case Ended(status=status):
                    assert status == "succeeded"
                case _:
                    pass
        assert pieces == PIECES, pieces
        return ((clock() - started) / PIECES,)

    return sample


def _map(runtime: Runtime) -> Sample:
    async def sample() -> tuple[float]:
        started, done = clock(), 0
        async for reply in runtime.map(["go"] * INPUTS, agent=PLAIN):
            done += reply.status == "succeeded"
        assert done == INPUTS
        return ((clock() - started) / INPUTS,)

    return sample


async def main() -> None:
    """Measure, and report."""
    calibrate.expect(None)
    adapter.report(sys.modules[__name__], await _measure())


if __name__ == "__main__":
    asyncio.run(main())
