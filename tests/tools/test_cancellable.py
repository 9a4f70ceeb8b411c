"""The work of a tool ends when it is cancelled, whether it wants to or not."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from penstock.core.call import Effect
from penstock.core.limits import Limits
from penstock.testing.clock import settle
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.cancellable import Deadline
from tests.kit.counting_tools import code
from tests.kit.tools import Act, calling, raising
from tests.tools.stubborn import STUBBORN, for_ever, gathered, let_go, stubborn, swallow

QUICK = Limits(cut_seconds=0.02)
LEFT = "tool stubborn still ran 0.02 s after it was cancelled, and is left behind"


@pytest.mark.parametrize("work", STUBBORN)
async def test_a_tool_that_ignores_its_timeout_is_abandoned_and_logged_once(
    work: Callable[[], Awaitable[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    tool = stubborn(work, effect=Effect.WRITE, timeout_ms=1)
    bench = await open_workbench(tool, limits=QUICK)
    assert code(await bench.call("stubborn")) == "TIMEOUT"
    assert [each.message for each in caplog.records if each.levelno == logging.WARNING] == [LEFT]
    here = asyncio.current_task()
    assert here
    assert here.cancelling() == 0
    await let_go()


@pytest.fixture
async def reported() -> AsyncIterator[list[str]]:
    """Errors that the event loop reports because they were not retrieved."""
    told: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    yield told
    loop.set_exception_handler(None)


@pytest.mark.usefixtures("new_garbage")
async def test_tasks_of_a_tool_that_was_left_behind_are_not_reported_as_lost(
    reported: list[str],
) -> None:
    bench = await open_workbench(stubborn(gathered, timeout_ms=1), limits=QUICK)
    assert code(await bench.call("stubborn")) == "TIMEOUT"
    await let_go()
    await settle()
    gc.collect()
    assert reported == []


async def fail_and_cancel_at_once() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await asyncio.gather(failing)

    bench = await open_workbench(stubborn(wait))
    work = asyncio.ensure_future(bench.call("stubborn"))
    await settle()
    failing.set_exception(ValueError("wrong"))
    await settle(rounds=2)
    work.cancel("the process stops")
    with suppress(asyncio.CancelledError):
        await work


@pytest.mark.usefixtures("new_garbage")
async def test_a_failure_at_the_moment_of_a_cancel_is_not_reported_as_lost(
    reported: list[str],
) -> None:
    await fail_and_cancel_at_once()
    await settle()
    gc.collect()
    assert reported == []


async def test_a_result_after_the_timeout_is_discarded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(cut_seconds=0.3)
    tool = stubborn(lambda: swallow(2), timeout_ms=1)
    assert code(await (await open_workbench(tool, limits=limits)).call("stubborn")) == "TIMEOUT"
    assert [each for each in caplog.records if each.name.startswith("penstock")] == []


async def test_a_tool_that_was_left_behind_can_make_no_more_calls() -> None:
    async def deed(input: Any, invocation: Any) -> None:
        try:
            await swallow()
        finally:
            await invocation.invoke("look", {})

    look = Act("look")
    bench = await open_workbench(Act("stubborn", deed, timeout_ms=1), look, limits=QUICK)
    assert code(await bench.call("stubborn")) == "TIMEOUT"
    await settle()
    assert look.runs == []


async def cancelled(bench: Workbench, tool_id: str) -> "asyncio.Task[Any]":
    """Call a tool, and cancel the call as the runtime does."""
    work: asyncio.Task[Any] = asyncio.ensure_future(bench.call(tool_id))
    await settle()
    work.cancel("the process stops")
    await asyncio.wait([work])
    return work


@pytest.mark.parametrize("work", STUBBORN)
async def test_a_tool_that_swallows_a_cancel_is_left_behind(
    work: Callable[[], Awaitable[Any]],
) -> None:
    bench = await open_workbench(stubborn(work), limits=QUICK)
    assert (await cancelled(bench, "stubborn")).cancelled()
    assert await bench.settled() == []
    await let_go()


async def test_a_tool_that_ignores_a_cancel_and_ends_is_settled() -> None:
    bench = await open_workbench(stubborn(lambda: swallow(1)), limits=QUICK)
    assert (await cancelled(bench, "stubborn")).cancelled()
    assert [each.envelope.output for each in await bench.settled()] == ["done"]


async def test_a_nested_call_that_is_left_behind_does_not_end_its_caller() -> None:
    inner = stubborn(swallow, timeout_ms=1, direct_call=True)
    bench = await open_workbench(inner, Act("outer", calling("stubborn")), limits=QUICK)
    assert (await bench.call("outer")).output == ["timeout"]


async def test_a_nested_write_in_a_call_that_is_left_behind_is_interrupted() -> None:
    inner = stubborn(swallow, effect=Effect.WRITE, direct_call=True)
    outer = Act("outer", calling("stubborn"), timeout_ms=1)
    bench = await open_workbench(inner, outer, limits=QUICK)
    assert code(await bench.call("outer")) == "TIMEOUT"
    assert [code(each.envelope) for each in await bench.settled()] == ["INTERRUPTED", "TIMEOUT"]


async def test_a_tool_may_clean_up_after_its_own_timeout_for_any_time() -> None:
    async def clean_up() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                try:
                    await for_ever()
                finally:
                    await settle()
        return "clean"

    limits = Limits(cut_seconds=0)
    bench = await open_workbench(stubborn(clean_up), limits=limits)
    assert (await bench.call("stubborn")).output == "clean"


async def test_a_task_that_a_tool_waits_for_is_cancelled_with_it() -> None:
    ended: list[str] = []

    async def inner() -> None:
        try:
            await for_ever()
        finally:
            await settle()
            ended.append("inner")

    async def outer() -> None:
        try:
            await asyncio.ensure_future(inner())
        finally:
            ended.append("outer")

    bench = await open_workbench(stubborn(outer, timeout_ms=1))
    assert code(await bench.call("stubborn")) == "TIMEOUT"
    assert ended == ["inner", "outer"]


async def test_several_tools_may_wait_for_one_task() -> None:
    async def answer() -> int:
        await settle()
        return 1

    shared = asyncio.ensure_future(answer())

    async def wait(_input: Any, _invocation: Any) -> int:
        return await shared

    bench = await open_workbench(Act("one", wait), Act("other", wait))
    one, other = await asyncio.gather(bench.call("one"), bench.call("other"))
    assert (one.output, other.output) == (1, 1)


# ---- what a tool does to itself ------------------------------------------------------------------


async def cancel_a_task() -> None:
    task = asyncio.ensure_future(for_ever())
    await settle()
    task.cancel()
    await task


@pytest.mark.parametrize("effect", list(Effect))
async def test_a_cancellation_that_no_caller_requested_is_the_tool_s_failure(
    effect: Effect,
) -> None:
    bench = await open_workbench(stubborn(cancel_a_task, effect=effect))
    envelope = await bench.call("stubborn")
    assert envelope.error
    said = "the tool cancelled itself: no caller requested it"
    assert (envelope.error.code, envelope.error.message) == ("TOOL_FAILED", said)
    assert len(await bench.settled()) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), BaseException("x")])
@pytest.mark.parametrize("effect", list(Effect))
async def test_any_exception_of_a_tool_is_its_failure(error: BaseException, effect: Effect) -> None:
    bench = await open_workbench(Act("act", raising(error), effect=effect))
    assert code(await bench.call("act")) == "TOOL_FAILED"


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task
    task.cancel()


async def cancel_itself_and_wait() -> None:
    await cancel_itself()
    await for_ever()


async def cancel_itself_and_go_on() -> str:
    with suppress(asyncio.CancelledError):
        await cancel_itself_and_wait()
    return "went on"


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (cancel_itself_and_wait, "the tool cancelled itself: no caller requested it"),
        (cancel_itself, None),
        (cancel_itself_and_go_on, "went on"),
    ],
)
@pytest.mark.parametrize("is_nested", [False, True])
async def test_a_tool_that_cancels_its_own_task_ends_only_itself(
    work: Any, outcome: str | None, *, is_nested: bool
) -> None:
    """Its task ends; before, it was taken for the end of the process, and tried for ever."""

    async def deed(input: Any, invocation: Any) -> Any:
        return await work()

    async def around(input: Any, invocation: Any) -> Any:
        return (await invocation.invoke("rash", {})).to_wire()

    rash = Act("rash", deed, direct_call=True)
    bench = await open_workbench(rash, Act("around", around))
    envelope = await bench.call("around" if is_nested else "rash")
    found = envelope.output if is_nested else envelope.to_wire()
    assert (found["error"]["message"] if "error" in found else found["output"]) == outcome
    assert (await bench.call("rash")).status == envelope.status or is_nested
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0


async def test_a_cancellation_of_the_task_during_a_step_is_not_the_tool_s_own() -> None:
    """A call inside takes in what came from outside; nothing of it is the tool's own doing."""

    async def deed(input: Any, invocation: Any) -> Any:
        task = asyncio.current_task()
        assert task
        invocation.ledger.task.cancel_requested = True
        task.cancel("the task was cancelled")
        await for_ever()

    bench = await open_workbench(Act("rash", deed))
    with pytest.raises(asyncio.CancelledError):
        await bench.call("rash")


def here() -> "asyncio.Task[None]":
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_work_that_ends_in_time_is_not_cancelled() -> None:
    with Deadline(here(), 60) as deadline:
        pass
    assert not deadline.is_over
    assert here().cancelling() == 0


async def test_work_that_ended_in_time_is_not_cancelled_later() -> None:
    with Deadline(here(), 0) as deadline:
        pass
    await settle()
    assert (deadline.is_over, here().cancelling()) == (False, 0)


@pytest.mark.parametrize("seconds", [0, 0.001])
async def test_work_over_its_deadline_is_a_timeout(seconds: float) -> None:
    deadline = Deadline(here(), seconds)
    with pytest.raises(TimeoutError), deadline:
        await for_ever()
    assert deadline.is_over
    assert here().cancelling() == 0


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        with Deadline(here(), 60):
            await for_ever()

    task = asyncio.ensure_future(work())
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_from_outside_wins_over_a_deadline_at_the_same_time() -> None:
    async def work() -> None:
        with Deadline(here(), 0):
            asyncio.get_running_loop().call_soon(here().cancel)
            await for_ever()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(work())


async def test_the_inner_of_two_deadlines_ends_only_the_inner_work() -> None:
    with Deadline(here(), 60) as outer:
        with pytest.raises(TimeoutError), Deadline(here(), 0):
            await for_ever()
        assert not outer.is_over
    assert here().cancelling() == 0


async def test_work_that_fails_during_its_cancellation_keeps_its_error() -> None:
    with pytest.raises(KeyError), Deadline(here(), 0):
        try:
            await for_ever()
        finally:
            raise KeyError
    assert here().cancelling() == 0


async def test_work_that_swallows_its_cancellation_continues() -> None:
    with Deadline(here(), 0) as deadline:
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        said = "here"
    assert (said, deadline.is_over, here().cancelling()) == ("here", True, 0)


async def test_a_deadline_in_a_task_that_is_being_cancelled_is_not_a_timeout() -> None:
    async def work() -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            with pytest.raises(TimeoutError), Deadline(here(), 0):
                await for_ever()
        return "cleaned up"

    task = asyncio.ensure_future(work())
    asyncio.get_running_loop().call_soon(task.cancel)
    assert await task == "cleaned up"


async def test_a_deadline_that_was_never_started_changes_no_error() -> None:
    deadline = Deadline(here(), 0)
    await settle()
    deadline.finish(asyncio.CancelledError())
    assert (deadline.is_over, here().cancelling()) == (False, 0)


async def test_finish_raises_a_timeout_only_for_its_own_cancellation() -> None:
    deadline = Deadline(here(), 0)
    deadline.start()
    with pytest.raises(asyncio.CancelledError) as cut:
        await for_ever()
    with pytest.raises(TimeoutError) as over:
        deadline.finish(cut.value)
    assert (over.value.__cause__, here().cancelling()) == (cut.value, 0)
