"""The process dies at every write of an undo; each call is taken back once all the same."""

from typing import Any

import pytest

from penstock import ToolContext, tool
from penstock.app.runtime import Runtime
from penstock.chat.recorded.undo import Undo
from penstock.chat.requests import NewMessage
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page
from penstock.testing.clock import FakeClock
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.dying_log import DyingLog, live

pytestmark = pytest.mark.programs
WRITES = 11
"""How often the logs are written by the undo when no process dies."""
DONE: list[str] = []
BEGAN: list[int] = []
"""How often the logs were written when the undo began, once for each process."""


@tool(requires_approval={"when": {"properties": {"output": {"const": "gold"}}}})
def give_back(input: dict[str, str], output: str) -> str:
    """Give it back. A second run after a crash would be a second entry."""
    DONE.append(output)
    return "given"


@tool(revert=give_back)
def take(item: str) -> str:
    """Take something."""
    return item


@tool(state="shop", effect="none")
async def store(ctx: ToolContext, value: str) -> None:
    """Write a value and a file, in a child's or the task's own log."""
    await ctx.state.profile.put("stock", value)
    await ctx.workspace.write("session://plan.txt", value.encode())


@tool(effect="none")
async def plan(ctx: ToolContext) -> None:
    """Let a child work."""
    await ctx.gather(await ctx.spawn("Find the apples", key="a"))


TOOLS = (take, give_back, store, plan)
SCRIPT = {
    "Go": [
        *(call("store", value="old"), call("take", item="gold"), call("plan")),
        *(call("store", value="new"), say("Done.")),
    ],
    "the apples": [call("take", item="apples"), say("1")],
}


async def story(runtime: Runtime, log: DyingLog, dies_at: int) -> tuple[Undo, Any]:
    """Run the task to its end and undo it, with a person who allows everything.

    The first process dies at a write of the undo, counted from 1; 0: it does not die.
    """
    tasks, _ = await runtime.parts.storage.projections.tasks(page=Page(limit=50))
    task = next((each.task_id for each in tasks if each.kind == "message"), None)
    task = task or (await runtime.requests.send(NewMessage(content="Go"))).task_id
    reply = await runtime.requests.wait(task)
    assert reply
    assert reply.status.is_final
    if not BEGAN and dies_at:
        log.die_at(log.writes + dies_at)
    BEGAN.append(log.writes)
    while True:
        undo = await runtime.undo(task)
        for question in undo.questions:
            await runtime.approve(question)
        if not undo.questions and all(each.status != "ready" for each in undo.calls):
            return undo, await left_of(runtime, str(reply.session_id))


async def left_of(runtime: Runtime, session: str) -> tuple[Any, Any]:
    """Return the value and the file, as the store has them."""
    storage = runtime.parts.storage
    assert storage.state
    assert storage.files
    state = await storage.state.find(Scope(ScopeKind.PROFILE, LOCAL), "shop:stock")
    return state, await storage.files.find(Scope(ScopeKind.SESSION, session), "plan.txt")


async def tell(log: DyingLog, dies_at: int = 0) -> tuple[Undo, Any]:
    """Tell the story in as many processes as it takes."""
    DONE.clear()
    BEGAN.clear()
    place = MemoryStorage(clock=log.clock, log=log, limits=Limits(shutdown_seconds=0))
    model = ScriptedModel(SCRIPT)
    while True:
        async with memory_runtime(model=model, tools=TOOLS, place=place) as runtime:
            told = await live(runtime, log, story(runtime, log, dies_at))
        if told is not None:
            return told
        log.revive()
        log.clock.advance(place.limits.lease_seconds + 1)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_an_undo_killed_at_any_write_takes_each_call_back_once(
    writes: int, before: bool
) -> None:
    """A revert that was cut is `unclear`, and not repeated; all others are made."""
    log = DyingLog(FakeClock(), writes=-1, before=before)
    undo, left = await tell(log, writes)
    assert left == (None, None)
    unclear = [each for each in undo.calls if each.status == "unclear"]
    assert len(unclear) <= 1
    assert {each.tool for each in unclear} <= {"take"}
    assert {each.status for each in undo.calls} <= {"undone", "unclear"}
    assert len(undo.calls) == 6
    assert len(set(DONE)) == len(DONE)
    missing = {"gold", "apples"} - set(DONE)
    assert missing <= {(each.input or {})["item"] for each in unclear}
    assert await log.pending(limit=9) == []


async def test_every_write_of_the_undo_is_tried() -> None:
    log = DyingLog(FakeClock(), writes=-1, before=False)
    await tell(log)
    (began,) = BEGAN
    assert log.writes - began == WRITES
    assert sorted(DONE) == ["apples", "gold"]
