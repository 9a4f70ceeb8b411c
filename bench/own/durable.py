"""Penstock, one durable call: a write that a tool makes inside a direct call, log on SQLite."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from penstock.agents.catalog import Catalog
from penstock.app.runtime import Runtime
from penstock.app.wiring import Company, Foundation, assemble
from penstock.core.call import Effect
from penstock.core.clock import SystemClock
from penstock.core.envelope import Json
from penstock.core.ids import new_id
from penstock.core.limits import Limits
from penstock.core.world import World
from penstock.models.resolve import Models
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.owner import this_process
from penstock.store.sql_log import SqlLog
from penstock.store.sql_projections import SqlProjections
from penstock.tools.invocation import Invocation
from penstock.tools.registry import Registry
from penstock.tools.rules import Rules
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
    world = World(SystemClock(), Limits(), new_id)
    url = f"sqlite:///{directory}/penstock.db"
    database = await open_database(url, synchronous=mode.upper(), limits=world.limits)
    closing.push_async_callback(database.close)
    blobs = open_blobs(f"{directory}/blobs")
    base = Foundation(
        log=SqlLog(database, blobs, world.clock),
        projections=SqlProjections(database, blobs),
        blobs=blobs,
        key=database.secret,
        owner=this_process(new_id("run")),
    )
    company = Company(
        registry=Registry([Steps(), Step()]), rules=Rules(), agents=Catalog(), models=Models()
    )
    runtime = assemble(world, base, company)
    await runtime.parts.launcher.open()
    closing.push_async_callback(runtime.close)
    return Context(runtime=runtime, closing=closing)


async def run(context: Context, steps: int) -> None:
    envelope = await context.runtime.call("steps", {"count": steps})
    assert envelope.output == steps, envelope


async def end(context: Context) -> None:
    await context.closing.aclose()
