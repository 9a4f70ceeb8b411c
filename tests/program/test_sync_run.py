"""Runs that a program without async reads."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from anyio.lowlevel import checkpoint

from penstock.chat.python.public_events import Asked, Ended, Text
from penstock.core.errors import RuntimeMisuse
from penstock.models.scripted import ScriptedModel, call, say
from penstock.program.opening import open_sync
from penstock.program.sync_run import LoopThread, each_in
from penstock.tools.python.function import tool


@tool(effect="write", requires_approval=True)
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


def test_a_run_is_iterated_as_often_as_wanted() -> None:
    with open_sync(":memory:", model=ScriptedModel([say("One, ", "two.")])) as runtime:
        run = runtime.start("Count")
        first, again = list(run), list(run)
        assert "".join(run.text()) == run.reply().output == "One, two."
        assert run.session == run.reply().session
        assert run.task_id in repr(run)
    assert first == again
    assert first[-1] == Ended("succeeded")


def test_an_answer_in_the_loop_keeps_the_iteration_going() -> None:
    twice = [call("send", to="Ann"), call("send", to="Bob"), call("send", to="Eve")]
    model = ScriptedModel([*twice, say("Done.")])
    with open_sync(":memory:", model=model, tools=[send]) as runtime:
        run, count = runtime.start("Go"), 0
        for event in run:
            if isinstance(event, Asked):
                count += 1
                if count == 1:
                    run.approve(event.question)
                elif count == 2:
                    run.reject(event.question, "not him")
                else:
                    run.answer(event.question, value=True)
        assert [call.status for call in run.reply().calls] == ["success", "failed", "success"]
        assert list(run.events(wait_for_answers=True))[-2:] == [Text("Done."), Ended("succeeded")]
        run.cancel()
    assert count == 3


def test_leaving_a_loop_leaves_nothing_behind() -> None:
    with open_sync(":memory:", model=ScriptedModel([say("One, ", "two.")])) as runtime:
        run = runtime.start("Count")
        for _ in run:
            break
        assert run.reply(timeout=5).output == "One, two."


def test_a_run_needs_no_with() -> None:
    with open_sync(":memory:", model=ScriptedModel([say("Hi.")])) as runtime:
        run = runtime.start("Hello")
        with pytest.raises(RuntimeMisuse, match="a run needs no `with`"), run:
            pass


def test_work_of_the_thread_cannot_wait_for_itself() -> None:
    thread = LoopThread()

    async def nested() -> None:
        thread.do(none())

    async def none() -> None:
        pass

    with pytest.raises(RuntimeMisuse, match="would never end"):
        thread.do(nested())
    thread.close()
    thread.close()
    with pytest.raises(RuntimeMisuse, match="is closed"):
        thread.do(none())
    assert "penstock-runtime" not in [each.name for each in threading.enumerate()]


def test_threads_that_close_at_once_all_return_and_work_that_waits_fails() -> None:
    thread, is_waiting = LoopThread(), threading.Event()

    async def forever() -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(9) as pool:
        waiting = pool.submit(lambda: thread.do(forever()))
        assert is_waiting.wait(5)
        for closing in [pool.submit(thread.close) for _ in range(8)]:
            closing.result(timeout=5)
        with pytest.raises(RuntimeMisuse, match="closed meanwhile"):
            waiting.result(timeout=5)


@pytest.mark.usefixtures("new_garbage")
def test_garbage_collection_in_the_thread_ends_an_iteration_without_waiting() -> None:
    thread, ended = LoopThread(), list[str]()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append(threading.current_thread().name)

    async def collect() -> None:
        gc.collect()
        await checkpoint()

    def leave() -> None:
        items: Iterator[int] = each_in(numbers(), thread)
        circle: list[object] = [items]
        circle.append(circle)
        assert next(items) == 1

    gc.disable()  # so that it happens in the thread of the runtime
    leave()
    thread.do(collect())
    gc.enable()
    thread.close()
    assert ended == ["penstock-runtime"]
