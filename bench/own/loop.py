"""Penstock, its loop: the log in memory, with ledger, loop guard and budgets."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from bench.kit.script import FINAL, current
from penstock.agents.agent import Agent, ChatSettings
from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.json_values.json_text import compact
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
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

DISTRIBUTION = "penstock"
META = {"persistence": "in-memory log", "ledger": True, "loop_guard": True, "budgets": True}
SETTINGS = ChatSettings(max_iterations=2_000, budget_model_calls=2_000, budget_tool_calls=2_000)
CARD = ModelCard(model_id="fake", name="fake", provider="bench", context_tokens=1_000_000)
TWO_NUMBERS: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Fake:
    """Says what the run's script says."""

    card = CARD

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask for the next calls, or end."""
        calls = current().next(len(request.messages))
        for index, (_, arguments) in enumerate(calls):
            yield CallDelta(index, "add", compact(arguments))
        if not calls:
            yield TextDelta(FINAL)
        yield Finished("tool_calls" if calls else "stop", NOTHING_SPENT)

    async def close(self) -> None:
        """Do nothing."""


class Add:
    """Adds two numbers."""

    spec = ToolSpec(
        tool_id="add", description="Add two numbers.", input_schema=TWO_NUMBERS, effect=Effect.NONE
    )

    def _needs(self, deps: object, /) -> None:
        """Need nothing."""

    async def run(self, input: Json, invocation: Invocation) -> int:
        """Return the sum."""
        return current().add(input["a"], input["b"])

    def preview(self, output: int) -> str | None:
        """Leave it to the usual preview."""


ADD = Add()
RUNTIMES: list[Runtime] = []
"""The one that is open."""


@asynccontextmanager
async def opened() -> AsyncIterator[None]:
    """Hold a runtime in memory open."""
    async with memory_runtime() as runtime:
        RUNTIMES.append(runtime)
        yield


def make() -> Agent:
    """Make an agent of its own model and the tool."""
    return Agent("bench", model=Fake(), tools=[ADD], settings=SETTINGS)


async def run(agent: Agent) -> str:
    """Ask in a new conversation."""
    return (await RUNTIMES[0].chat("go", agent=agent)).content
