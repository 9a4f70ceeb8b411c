"""Penstock, one durable call: a write that a tool makes inside a direct call, log on SQLite."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from penstock.app.runtime import Runtime
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.program.opening import open as open_runtime
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

DISTRIBUTION = "penstock"
MODES = ["full", "normal"]
UNIT = "one write call through the invoker: CallStarted committed, run, CallSettled committed"


def one_integer(name: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "integer"}},
        "required": [name],
        "additionalProperties": False,
    }


class Steps:
    """Makes write calls, one after the other; each is on disk before the next begins."""

    spec = ToolSpec(
        tool_id="steps",
        description="Make so many calls.",
        input_schema=one_integer("count"),
        effect=Effect.NONE,
        direct_call=True,
        script_tools=frozenset({"step"}),
    )

    async def run(self, input: Json, invocation: Invocation) -> int:
        """Return how many calls succeeded."""
        done = 0
        for number in range(input["count"]):
            envelope = await invocation.invoke("step", {"number": number})
            await invocation.ledger.held.commit()
            done += envelope.ok
        return done

    def preview(self, output: int) -> str | None:
        """Leave it to the usual preview."""


class Step:
    """Acts on the world, for all that the runtime knows."""

    spec = ToolSpec(
        tool_id="step",
        description="Do something.",
        input_schema=one_integer("number"),
        effect=Effect.WRITE,
    )

    async def run(self, input: Json, invocation: Invocation) -> int:
        """Return the number."""
        number: int = input["number"]
        return number

    def preview(self, output: int) -> str | None:
        """Leave it to the usual preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """An open runtime, and what closes it."""

    runtime: Runtime
    closing: AsyncExitStack


async def begin(mode: str, directory: str) -> Context:
    closing = AsyncExitStack()
    opening = open_runtime(
        directory, tools=[Steps(), Step()], settings={"synchronous": mode.upper()}
    )
    return Context(runtime=await closing.enter_async_context(opening), closing=closing)


async def run(context: Context, steps: int) -> None:
    envelope = await context.runtime.call("steps", {"count": steps})
    assert envelope.output == steps, envelope


async def end(context: Context) -> None:
    await context.closing.aclose()
