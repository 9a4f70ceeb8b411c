"""An event loop in a thread of its own."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.cli.interaction.background import Background, on_interrupt


async def where() -> str:
    return threading.current_thread().name


async def numbers(*, broken: bool = False) -> AsyncIterator[int]:
    yield 1
    yield 2
    if broken:
        raise ValueError("no more")


def test_work_runs_in_a_thread_of_its_own() -> None:
    with Background() as background:
        assert background.do(where()) == "penstock-loop"


def test_items_are_taken_here_until_there_are_none() -> None:
    with Background() as background:
        feed = background.feed(numbers())
        assert [feed.take(), feed.take(), feed.take()] == [1, 2, None]


def test_take_raises_the_error_of_the_iterator() -> None:
    with Background() as background:
        feed = background.feed(numbers(broken=True))
        assert [feed.take(), feed.take()] == [1, 2]
        with pytest.raises(ValueError, match="no more"):
            feed.take()


def test_a_context_is_entered_and_left_in_the_loop() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def context() -> AsyncIterator[str]:
        seen.append("in")
        yield "value"
        seen.append("out")

    with Background() as background:
        entered = context()
        assert background.enter(entered) == "value"
        background.leave(entered)
    assert seen == ["in", "out"]


def test_running_work_is_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def forever() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.append("yes")

    with Background() as background:
        assert background.feed(forever()).take() == 1
    assert ended == ["yes"]


def test_ctrl_c_comes_between_two_items() -> None:
    with Background() as background:
        feed = background.feed(numbers())
        assert feed.take() == 1
        with on_interrupt(feed.interrupt):
            signal.raise_signal(signal.SIGINT)
        taken = []
        with pytest.raises(KeyboardInterrupt):
            while (item := feed.take()) is not None:
                taken.append(item)
            feed.take()
        assert taken in ([], [2])


def test_ctrl_c_at_a_prompt_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), on_interrupt(None):
        signal.raise_signal(signal.SIGINT)
