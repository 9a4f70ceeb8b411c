"""An event loop in its own thread, and Ctrl-C."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.cli.interaction.loop_thread import Background, TaskStopper, on_interrupt
from penstock.cli.project import opened
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus


async def where() -> str:
    return threading.current_thread().name


async def numbers(*, broken: bool = False) -> AsyncIterator[int]:
    yield 1
    yield 2
    if broken:
        raise ValueError("no more")


def test_work_runs_in_its_own_thread() -> None:
    with Background() as background:
        assert background.do(where()) == "penstock-loop"


def test_items_are_taken_until_the_iterator_ends() -> None:
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


def test_ctrl_c_interrupts_between_two_items() -> None:
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


@pytest.fixture
def background() -> Iterator[Background]:
    """A loop in a thread."""
    with Background() as running:
        yield running


@pytest.fixture
def runtime(project: Path, background: Background) -> Iterator[Runtime]:
    """A project that is open."""
    context = opened(project)
    yield background.enter(context)
    background.leave(context)


def test_the_task_is_cancelled_and_a_note_explains_how_to_exit(
    runtime: Runtime, background: Background, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = background.do(
        runtime.requests.send(NewMessage(content="ask_user question=Well? type=input"))
    )
    background.do(runtime.requests.wait(asked.task_id))
    stopping = TaskStopper(runtime, background, asked.task_id)
    reply = background.do(runtime.requests.wait(asked.task_id))
    assert reply
    assert reply.status is TaskStatus.CANCELLED
    assert capsys.readouterr().err == "Cancelling. Press Ctrl-C again to exit at once.\n"
    assert stopping.farewell.endswith(f"penstock tasks events {asked.task_id} --follow")


def test_a_task_that_cannot_be_cancelled_now_can_be_later(
    runtime: Runtime, background: Background
) -> None:
    farewell = TaskStopper(runtime, background, TaskId("task_1")).farewell
    assert farewell == (
        "The task could not be cancelled; a server would continue it. Run: "
        "penstock tasks cancel task_1"
    )
