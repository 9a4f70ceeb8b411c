"""Penstock, its chat server: the agent `bench`, whose model is a script; the log on SQLite.

The text `hold` is never answered; any other is answered after one call, in 20 deltas.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.messages import NOTHING_SPENT, ToolMessage, UserMessage
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    TextDelta,
)
from penstock.program.opening import open as open_runtime
from penstock.server.application import create_application
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

WORDS = tuple(f"word{number} " for number in range(20))


class Fake:
    """Asks for one call, then says 20 words."""

    card = ModelCard(model_id="fake", name="fake", provider="bench")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Go on from what was said last."""
        match request.messages[-1]:
            case ToolMessage():
                for word in WORDS:
                    yield TextDelta(word)
                yield Finished("stop", NOTHING_SPENT)
            case UserMessage(content="hold"):
                await asyncio.get_running_loop().create_future()
            case _:
                yield CallDelta(0, "add", '{"a":1,"b":2}')
                yield Finished("tool_calls", NOTHING_SPENT)

    async def close(self) -> None:
        """Do nothing."""


class Add:
    """Adds two numbers."""

    spec = ToolSpec(
        tool_id="add",
        description="Add two numbers.",
        input_schema={
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        effect=Effect.NONE,
    )

    def _needs(self, deps: object, /) -> None:
        """Need nothing."""

    async def run(self, input: Json, invocation: Invocation) -> int:
        """Return the sum."""
        total: int = input["a"] + input["b"]
        return total

    def preview(self, output: int) -> str | None:
        """Leave it to the usual preview."""


def open_bench() -> AbstractAsyncContextManager[Runtime]:
    """Open a fresh project whose disk waits as the bench says."""
    return open_runtime(
        os.environ["BENCH_SCRATCH"],
        agents=[Agent("bench", model=Fake(), tools=[Add()])],
        settings={"synchronous": os.environ.get("BENCH_SYNCHRONOUS", "FULL")},
    )


app: FastAPI = create_application(open_bench)
