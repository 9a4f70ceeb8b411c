"""Slots limit the concurrent runs; a run never waits for a slot that it holds itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.core.ids import TaskId
from penstock.core.limits import Limits
from penstock.engine.run_slots import Slots
from penstock.testing.clock import settle

A, B, C, D = map(TaskId, "abcd")


def slots(runs: int = 1, of_tools: int = 1) -> Slots:
    return Slots(Limits(flow_runs=runs, workflow_max_concurrent=of_tools))


class Worker:
    """A run that wants to work, and the call in it that waits for another run."""

    def __init__(
        self, slots: Slots, run_id: TaskId, *, by_tool: bool = True, resumes: bool = False
    ) -> None:
        self._slots = slots
        self._run_id = run_id
        self.is_at_work = False
        self.may_end = asyncio.Event()
        self.calls: list[asyncio.Task[None]] = []
        self.task = asyncio.create_task(self._work(by_tool=by_tool, resumes=resumes))

    async def _work(self, *, by_tool: bool, resumes: bool) -> None:
        async with self._slots.taken(self._run_id, by_tool=by_tool, resumes=resumes):
            self.is_at_work = True
            await self.may_end.wait()
            await asyncio.gather(*self.calls, return_exceptions=True)

    def call(self, until: asyncio.Event) -> "asyncio.Task[None]":
        """Wait for something in a call."""

        async def wait() -> None:
            async with self._slots.lent(self._run_id):
                await until.wait()

        self.calls.append(call := asyncio.create_task(wait()))
        return call

    async def end(self) -> None:
        self.may_end.set()
        await self.task


@asynccontextmanager
async def ending(*workers: Worker) -> AsyncIterator[None]:
    """Stop workers that still run after a test."""
    try:
        yield
    finally:
        for each in workers:
            each.task.cancel()
        await asyncio.gather(*[each.task for each in workers], return_exceptions=True)


@pytest.mark.parametrize(
    ("runs", "of_tools", "by_tool", "at_work"),
    [
        (2, 2, [True, True, True], [True, True, False]),
        (3, 1, [True, True, False], [True, False, True]),
        (1, 3, [True, True, False], [True, False, False]),
        (2, 1, [False, False, True], [True, True, False]),
    ],
)
async def test_the_number_of_concurrent_workers_is_limited(
    runs: int, of_tools: int, by_tool: list[bool], at_work: list[bool]
) -> None:
    """A run that a tool started needs a slot of both limits."""
    of = slots(runs, of_tools)
    pairs = zip((A, B, C), by_tool, strict=True)
    workers = [Worker(of, run_id, by_tool=each) for run_id, each in pairs]
    async with ending(*workers):
        await settle()
        assert [each.is_at_work for each in workers] == at_work


async def test_slots_are_granted_in_order_and_first_to_resumed_work() -> None:
    of = slots()
    first, new, newer = [Worker(of, each) for each in (A, B, C)]
    again = Worker(of, D, resumes=True)
    order = []
    for each in (first, again, new, newer):
        await settle()
        order.append([each.is_at_work for each in (first, again, new, newer)].count(True))
        assert each.is_at_work
        await each.end()
    assert order == [1, 2, 3, 4]


async def test_a_cancelled_waiter_leaves_the_queue() -> None:
    of = slots()
    first, gone, last = [Worker(of, each) for each in (A, B, C)]
    await settle()
    gone.task.cancel()
    await first.end()
    await settle()
    assert (gone.task.cancelled(), gone.is_at_work, last.is_at_work) == (True, False, True)
    await last.end()


async def test_a_waiter_cancelled_at_its_turn_takes_no_slot() -> None:
    of = slots()
    async with of.taken(A, by_tool=True, resumes=False):
        gone, last = Worker(of, B), Worker(of, C)
        await settle()
    gone.task.cancel()
    await settle()
    assert (gone.is_at_work, last.is_at_work) == (False, True)
    await last.end()


async def test_a_run_that_waits_for_another_lends_its_place() -> None:
    of, over = slots(), asyncio.Event()
    outer = Worker(of, A)
    await settle()
    call, inner, third = outer.call(over), Worker(of, B), Worker(of, C)
    async with ending(outer, inner, third):
        await settle()
        assert (inner.is_at_work, third.is_at_work) == (True, False)
        over.set()
        await settle()
        assert not call.done()
        await inner.end()
        await settle()
        assert (call.done(), third.is_at_work) == (True, False)
        await outer.end()
        await settle()
        assert third.is_at_work


async def test_a_run_keeps_nothing_while_one_of_its_calls_waits() -> None:
    """Else the run that the other call waits for would never have its turn."""
    of, over, others = slots(), asyncio.Event(), asyncio.Event()
    outer = Worker(of, A)
    await settle()
    first, second = outer.call(over), outer.call(others)
    await settle()
    over.set()
    await settle()
    inner = Worker(of, B)
    async with ending(outer, inner):
        await settle()
        assert (first.done(), second.done(), inner.is_at_work) == (True, False, True)
        others.set()
        await inner.end()
        await settle()
        assert second.done()
        await outer.end()


async def test_a_call_that_starts_to_wait_while_its_run_reacquires_a_slot_lends_it_again() -> None:
    of, over, later = slots(), asyncio.Event(), asyncio.Event()
    outer = Worker(of, A)
    await settle()
    back = outer.call(over)
    busy = Worker(of, B)
    await settle()
    over.set()
    await settle()
    waits = outer.call(later)
    await settle()
    third, fourth = Worker(of, C), Worker(of, D)
    async with ending(outer, busy, third, fourth):
        await busy.end()
        await settle()
        assert (back.done(), waits.done(), third.is_at_work) == (True, False, True)
        assert not fourth.is_at_work, "one place was lent, and no second one"
        later.set()
        await third.end()
        await settle()
        assert waits.done()


@pytest.mark.parametrize("is_back", [False, True])
async def test_an_interrupted_call_continues_immediately(is_back: bool) -> None:
    """It timed out: nothing may delay it, and the limit is exceeded by one for a while."""
    of, over = slots(), asyncio.Event()
    outer = Worker(of, A)
    await settle()
    call, inner = outer.call(over), Worker(of, B)
    await settle()
    if is_back:
        over.set()
        await settle()
    call.cancel()
    await settle()
    assert (call.cancelled(), inner.is_at_work) == (True, True)
    third = Worker(of, C)
    async with ending(third):
        await inner.end()
        await settle()
        assert not third.is_at_work
        await outer.end()
        await settle()
        assert third.is_at_work


async def test_a_waiter_cancelled_just_before_a_slot_is_lent_takes_none() -> None:
    of = slots()
    first, gone, last = Worker(of, A), Worker(of, B), Worker(of, C)
    async with ending(first, last):
        await settle()
        gone.task.cancel()
        async with of.lent(A):
            await settle()
            assert (gone.is_at_work, last.is_at_work) == (False, True)
            await last.end()


async def test_a_chat_has_no_slot_to_lend() -> None:
    of = slots()
    first, second = Worker(of, A), Worker(of, B)
    async with ending(first, second), of.lent(D):
        await settle()
        assert (first.is_at_work, second.is_at_work) == (True, False)
        await first.end()
        await settle()
        assert second.is_at_work
