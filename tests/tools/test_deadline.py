"""A deadline cancels what takes too long, and only that."""

import asyncio

import pytest

from penstock.testing.clock import settle
from penstock.tools.deadline import Deadline


def here() -> "asyncio.Task[None]":
    task = asyncio.current_task()
    assert task is not None
    return task


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_what_ends_in_time_is_left_alone() -> None:
    with Deadline(here(), 60) as deadline:
        pass
    assert not deadline.is_over
    assert here().cancelling() == 0


async def test_what_ended_in_time_is_not_cut_later() -> None:
    with Deadline(here(), 0) as deadline:
        pass
    await settle()
    assert (deadline.is_over, here().cancelling()) == (False, 0)


@pytest.mark.parametrize("seconds", [0, 0.001])
async def test_what_takes_too_long_is_a_timeout(seconds: float) -> None:
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


async def test_the_inner_of_two_deadlines_ends_the_inner_work_alone() -> None:
    with Deadline(here(), 60) as outer:
        with pytest.raises(TimeoutError), Deadline(here(), 0):
            await for_ever()
        assert not outer.is_over
    assert here().cancelling() == 0


async def test_what_fails_while_it_is_cut_fails_for_its_own_reason() -> None:
    with pytest.raises(KeyError), Deadline(here(), 0):
        try:
            await for_ever()
        finally:
            raise KeyError
    assert here().cancelling() == 0


async def test_what_swallows_its_cancellation_goes_on() -> None:
    with Deadline(here(), 0) as deadline:
        with pytest.raises(asyncio.CancelledError):
            await for_ever()
        said = "here"
    assert (said, deadline.is_over, here().cancelling()) == ("here", True, 0)


async def test_a_deadline_in_a_task_that_is_being_cancelled_is_no_timeout() -> None:
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
