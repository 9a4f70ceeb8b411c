"""The Invocation of a running tool: nested calls, questions, siblings."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from penstock.core.call import Origin
from penstock.core.call_errors import UpstreamUnavailable
from penstock.core.errors import Suspend
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.testing.clock import settle
from penstock.testing.invocation import open_workbench
from penstock.tools.policy import Caller
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from penstock.tools.python.options import Retry
from penstock.tools.skills import Selection
from tests.kit.counting_tools import Counted, code, killed
from tests.kit.tools import Act


@tool(effect="none", direct_call=True)
async def deeper(left: int, *, ctx: ToolContext) -> Any:
    """Call itself."""
    if not left:
        return ctx.depth
    envelope = await ctx.call("deeper", {"left": left - 1})
    return envelope.output if envelope.ok else code(envelope)


@pytest.mark.parametrize(("calls", "found"), [(15, 15), (16, "DEPTH_EXCEEDED")])
async def test_calls_nest_sixteen_deep(calls: int, found: Any) -> None:
    """DEPTH_EXCEEDED: a call would have depth 17."""
    bench = await open_workbench(deeper)
    assert (await bench.call("deeper", {"left": calls})).output == found


async def test_nested_calls_of_one_call_are_bounded(counted: Counted) -> None:
    @tool(effect="none")
    async def many(*, ctx: ToolContext) -> Any:
        """Call repeatedly."""
        return [code(await ctx.call("look")) for _ in range(4)]

    bench = await open_workbench(many, counted.look, limits=Limits(nested_calls=3))
    assert (await bench.call("many")).output == ["success"] * 3 + ["BUDGET_EXCEEDED"]
    assert counted.runs == 3


async def wordy(input: Any, invocation: Any) -> str:
    return "x" * 50


async def test_the_outcomes_of_a_task_are_bounded_over_every_restart() -> None:
    """They are all kept in memory: one call more fails before anything runs."""
    tells = Act("tells", wordy)
    bench = await open_workbench(tells, limits=Limits(outcome_chars=99))
    assert [code(await bench.call("tells", {"n": n})) for n in range(2)] == ["success"] * 2
    await bench.ledger.held.commit()
    await killed(bench)
    envelope = await bench.call("tells", {"n": 2})
    assert envelope.error
    said = "the outcomes of this task's calls have over 99 characters (limits.outcome_chars)"
    assert (code(envelope), envelope.error.message) == ("BUDGET_EXCEEDED", said)
    assert len(tells.runs) == 2


async def test_a_retry_reuses_writes_that_succeeded(counted: Counted) -> None:
    """A retry: recorded successes of effect write are reused, everything else runs again."""

    @tool(effect="none", retry=Retry(attempts=2, initial=0))
    async def both(*, ctx: ToolContext) -> list[str]:
        """Post and look, then fail once."""
        outcomes = [code(await ctx.call("post")), code(await ctx.call("look"))]
        if ctx.attempt == 1:
            raise UpstreamUnavailable("once")
        return outcomes

    bench = await open_workbench(both, counted.post, counted.look)
    assert (await bench.call("both")).output == ["success", "success"]
    assert counted.runs == 3


async def test_a_tool_cannot_stop_a_suspend() -> None:
    """`except Exception`, and even a bare except: the call waits all the same."""

    @tool(effect="none")
    async def stubborn(how: str, *, ctx: ToolContext) -> str:
        """Try to go on without an answer."""
        try:
            return await ctx.ask("Sure?")
        except Exception:  # noqa: BLE001
            return "swallowed"
        except BaseException:
            if how == "bare":
                return "swallowed all"
            raise

    bench = await open_workbench(stubborn)
    for how in ("polite", "bare"):
        with pytest.raises(Suspend):
            await bench.call("stubborn", {"how": how})
    assert len(bench.questions) == 2
    assert await bench.settled() == []


async def test_siblings_of_a_suspended_call_continue_and_settle(counted: Counted) -> None:
    @tool(effect="write")
    async def grouped(*, ctx: ToolContext) -> list[Any]:
        """Do three things at once in a TaskGroup."""
        async with asyncio.TaskGroup() as group:
            sent = group.create_task(ctx.call("send", {"to": "ann"}))
            posted = group.create_task(ctx.call("post"))
            looked = group.create_task(ctx.call("look"))
        return [each.result().output for each in (sent, posted, looked)]

    bench = await open_workbench(grouped, counted.send, counted.post, counted.look)
    with pytest.raises(Suspend):
        await bench.call("grouped")
    assert {each.tool_id for each in await bench.settled()} == {"post", "look"}
    await bench.answer({"decision": "approve"})
    bench.enter()
    assert (await bench.call("grouped")).output == ["ann", {"n": 0}, {"n": 0}]
    assert counted.runs == 3


async def test_a_branch_beside_a_suspended_call_runs_to_its_end(counted: Counted) -> None:
    @tool(effect="none")
    async def branching(*, ctx: ToolContext) -> list[Any]:
        """Wait for a person in one branch, and make two calls in the other."""

        async def branch() -> Any:
            return [(await ctx.call(each)).output for each in ("look", "post")]

        sent, others = await asyncio.gather(ctx.call("send", {"to": "ann"}), branch())
        return [sent.output, *others]

    bench = await open_workbench(branching, counted.send, counted.post, counted.look)
    with pytest.raises(Suspend):
        await bench.call("branching")
    assert {each.tool_id for each in await bench.settled()} == {"post", "look"}
    await bench.answer({"decision": "approve"})
    bench.enter()
    assert (await bench.call("branching")).output == ["ann", {"n": 0}, {"n": 0}]
    assert counted.runs == 3


async def test_background_work_of_a_tool_may_make_calls_until_the_last_one_ends(
    counted: Counted,
) -> None:
    left = []

    @tool(effect="none")
    async def leaving(*, ctx: ToolContext) -> str:
        """Leave a task behind."""

        async def post(number: int) -> None:
            for _ in range(number):
                await ctx.call("post")

        left.append(asyncio.create_task(post(3)))
        await checkpoint()
        return "left"

    bench = await open_workbench(leaving, counted.post)
    assert (await bench.call("leaving")).output == "left"
    assert counted.runs == 3
    await left[0]


async def test_an_error_in_a_task_group_is_reported_as_itself() -> None:
    @tool(effect="none")
    async def grouped() -> None:
        """Fail inside a group inside a group."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail())

    envelope = await (await open_workbench(grouped)).call("grouped")
    assert envelope.error
    assert envelope.error.message == "ValueError: inside"


async def _fail() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_raise())


async def _raise() -> None:
    raise ValueError("inside")


async def test_a_write_that_its_caller_cancels_is_not_run_again(counted: Counted) -> None:
    """A tool that gives up waiting for a write inside it, and asks: the write stays as it was."""
    runs = 0

    @tool(effect="write", direct_call=True)
    async def endless() -> None:
        """Begin something, and not end it."""
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    @tool(effect="none")
    async def around(*, ctx: ToolContext) -> Any:
        """Give up after a moment, then ask a person."""
        seen = "?"
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                seen = code(await ctx.call("endless"))
        return [seen, await ctx.ask("And now?")]

    bench = await open_workbench(around, endless)
    with pytest.raises(Suspend):
        await bench.call("around")
    await bench.answer({"text": "go on"})
    bench.enter()
    assert (await bench.call("around")).output == ["INTERRUPTED", "go on"]
    assert runs == 1


async def test_a_nested_approval_survives_a_kill_before_and_after_the_answer(
    counted: Counted,
) -> None:
    """`ctx.call` of a tool that needs approval, kill -9 before and after the answer: once each."""

    @tool(effect="write")
    async def order(*, ctx: ToolContext) -> list[Any]:
        """Post, then send, then look."""
        outcomes = [await ctx.call("post"), await ctx.call("send", {"to": "ann"})]
        return [each.output for each in [*outcomes, await ctx.call("look")]]

    bench = await open_workbench(order, counted.post, counted.send, counted.look)
    with pytest.raises(Suspend):
        await bench.call("order")
    await killed(bench)
    with pytest.raises(Suspend):
        await bench.call("order")
    await bench.answer({"decision": "approve"})
    await killed(bench)
    assert (await bench.call("order")).output == [{"n": 0}, "ann", {"n": 0}]
    assert counted.runs == 3


async def test_a_script_s_grants_hold_for_python_too(counted: Counted) -> None:
    """Nested call not granted: NOT_PERMITTED, as a script."""

    @tool(effect="none")
    async def private() -> None:
        """Be seen by models alone."""

    @tool(effect="none")
    async def caller(*, ctx: ToolContext) -> list[str]:
        """Call two others."""
        return [code(await ctx.call("private")), code(await ctx.call("look"))]

    bench = await open_workbench(caller, private, counted.look)
    assert (await bench.call("caller")).output == ["NOT_PERMITTED", "success"]
    chosen = Selection(skills=("s",), script_tools=frozenset({"private"}))
    granted = Caller(origin=Origin.MODEL, agent_tools=bench.model.agent_tools, selection=chosen)
    assert (await bench.call("caller", caller=granted)).output == ["success", "success"]


async def test_no_question_is_asked_where_questions_are_not_allowed() -> None:
    """An autonomous run: the tool learns it, and nothing waits."""

    async def asks(input: Any, invocation: Any) -> str:
        await invocation.ask("May I?")
        return "asked"

    bench = await open_workbench(Act("asks", asks))
    caller = replace(bench.model, is_autonomous=True)
    assert code(await bench.call("asks", caller=caller)) == "NOT_PERMITTED"
    assert bench.questions == []
    with pytest.raises(Suspend):
        await bench.call("asks", {"again": True})


async def test_an_input_over_its_limit_never_runs(counted: Counted) -> None:
    bench = await open_workbench(counted.send, limits=Limits(input_bytes=50))
    envelope = await bench.call("send", {"to": "x" * 60})
    assert envelope.error is not None
    assert (envelope.error.code, "/: is over 50 bytes" in envelope.error.message) == (
        "INVALID_INPUT",
        True,
    )
    with pytest.raises(Suspend):
        await bench.call("send", {"to": "x" * 20})


async def test_an_author_s_event_is_logged_at_once_and_none_after_the_end() -> None:
    bench = await open_workbench(look := Act("look"))
    invocation = bench.invocation(look)
    await bench.ledger.held.commit()
    log_id = bench.ledger.held.state.log_id
    before = await bench.log.head(log_id)
    invocation.note(NoteEmitted(event_type="told"))
    await settle()
    assert await bench.log.head(log_id) == before + 1
    invocation.end()
    invocation.note(NoteEmitted(event_type="late"))
    await bench.ledger.held.commit()
    assert await bench.log.head(log_id) == before + 1


async def test_a_tool_that_waits_for_the_end_of_its_call_is_woken() -> None:
    bench = await open_workbench(look := Act("look"))
    invocation = bench.invocation(look)
    waiting = asyncio.ensure_future(invocation.wait_stopped())
    await settle()
    assert not waiting.done()
    invocation.end()
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(invocation.wait_stopped(), 5)
