"""Small durable values of one tool in one task."""

from typing import Any

import pytest

from penstock.core.errors import Suspend
from penstock.core.events.events import StateWritten
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import FunctionTool, tool
from penstock.tools.tasks.task_values import StateWrite, ToolState, check_state_key


def using(work: Any) -> FunctionTool[Any, ..., Any]:
    """Return a tool whose work is done on its state."""

    @tool(id="uses", effect="none")
    async def uses(n: int = 0, *, ctx: ToolContext) -> Any:
        """Use the state."""
        return await work(ctx.state)

    return uses


async def test_a_stored_value_is_read_by_the_next_call() -> None:
    @tool(effect="none")
    async def count(*, ctx: ToolContext) -> int:
        """Count the calls of this task."""
        now = int(await ctx.state.get("calls", 0)) + 1
        await ctx.state.put("calls", now)
        return now

    bench = await open_workbench(count)
    assert [(await bench.call("count")).output for _ in range(3)] == [1, 2, 3]
    written = [event for event in await bench.events() if isinstance(event, StateWritten)]
    assert [(each.tool_id, each.key, each.value) for each in written] == [
        ("count", "calls", 1),
        ("count", "calls", 2),
        ("count", "calls", 3),
    ]


async def test_a_function_that_is_entered_again_reads_the_same_and_writes_nothing_twice() -> None:
    @tool(effect="none")
    async def asks(*, ctx: ToolContext) -> list[Any]:
        """Count up, ask, and look again."""
        before = await ctx.state.get("n", 0)
        await ctx.state.put("n", before + 1)
        answer = await ctx.ask("Go on?")
        return [before, answer, await ctx.state.get("n")]

    bench = await open_workbench(asks)
    with pytest.raises(Suspend):
        await bench.call("asks")
    await bench.answer({"text": "yes"})
    bench.enter()
    assert (await bench.call("asks")).output == [0, "yes", 1]
    assert sum(isinstance(event, StateWritten) for event in await bench.events()) == 1


async def test_each_tool_has_a_partition_of_its_own() -> None:
    @tool(effect="none")
    async def writes(*, ctx: ToolContext) -> None:
        """Write."""
        await ctx.state.put("k", "mine")

    @tool(effect="none")
    async def reads(*, ctx: ToolContext) -> Any:
        """Read."""
        return await ctx.state.get("k", "nothing")

    bench = await open_workbench(writes, reads)
    await bench.call("writes")
    assert (await bench.call("reads")).output == "nothing"


async def revisions(state: ToolState) -> list[Any]:
    """Write with and without conditions."""
    first = await state.put("k", 1, if_revision=None)
    again = await state.put("k", 2, if_revision=None)
    second = await state.put("k", 2, if_revision=first.revision)
    stale = await state.put("k", 3, if_revision=first.revision)
    gone = await state.put("k", None)
    new = await state.put("k", 4, if_revision=None)
    absent = await state.put("other", 1, if_revision="1")
    return [[each.ok, each.revision] for each in (first, again, second, stale, gone, new, absent)]


async def test_conflicts_are_returned_and_a_revision_is_never_used_again() -> None:
    """`if_revision` absent = always; None = must not exist; a text = must equal the current one."""
    bench = await open_workbench(using(revisions))
    assert (await bench.call("uses")).output == [
        [True, "1"],
        [False, "1"],
        [True, "2"],
        [False, "2"],
        [True, "3"],
        [True, "4"],
        [False, None],
    ]


async def test_a_value_is_deleted_when_it_expires() -> None:
    clock = FakeClock()

    @tool(effect="none")
    async def keeps(n: int, *, ctx: ToolContext) -> Any:
        """Keep for ten seconds."""
        if n == 0:
            await ctx.state.put("k", "v", ttl=10)
        return await ctx.state.get("k")

    bench = await open_workbench(keeps, clock=clock)
    assert (await bench.call("keeps", {"n": 0})).output == "v"
    clock.advance(9.9)
    await bench.ledger.held.refresh()
    assert (await bench.call("keeps", {"n": 1})).output == "v"
    clock.advance(0.2)
    assert (await bench.call("keeps", {"n": 2})).output is None


@pytest.mark.parametrize(
    ("key", "value", "ttl", "message"),
    [
        ("", 1, None, "ValueError: a key must have 1 to 256 characters, found ''"),
        ("k" * 257, 1, None, "ValueError: a key must have 1 to 256"),
        ("k", 1, 0, "ValueError: ttl must be from 1 to 31536000 seconds, found 0"),
        ("k", object(), None, "TypeError: the value at / is an object"),
        ("k", "x" * 262_144, None, "ValueError: the value must have at most 256 KiB as JSON"),
    ],
)
async def test_an_invalid_key_value_or_time_is_refused(
    key: str, value: Any, ttl: float | None, message: str
) -> None:
    async def puts(state: ToolState) -> StateWrite:
        return await state.put(key, value, ttl)

    bench = await open_workbench(using(puts))
    envelope = await bench.call("uses")
    assert envelope.error
    assert message in envelope.error.message


@pytest.mark.parametrize(("key", "value"), [("a.s3cr3t", 1), ("a", {"b": ["s3cr3t"]})])
async def test_a_value_with_a_secret_is_refused(key: str, value: Any) -> None:
    """V6: "`task.put*` refuse a value that contains a given-out secret"."""
    bench = await open_workbench(keeps := using(lambda state: state.put(key, value)))
    (await bench.resources.secrets.load(bench.ledger, None)).redactor.add("token", "s3cr3t")
    envelope = await bench.call(keeps.spec.tool_id)
    assert envelope.error
    assert envelope.error.code == "STATE_DENIED"
    assert "s3cr3t" not in repr(await bench.events())


@pytest.mark.parametrize(
    ("key", "fits"), [("", False), ("k", True), ("k" * 256, True), ("k" * 257, False)]
)
def test_a_key_has_one_to_256_characters(key: str, fits: bool) -> None:
    if fits:
        check_state_key(key)
        return
    with pytest.raises(ValueError, match="1 to 256 characters"):
        check_state_key(key)
