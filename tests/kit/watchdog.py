"""A watchdog for each test: a test that hangs fails with its stack.

Two timers run from the set-up of a test to the end of its tear-down. The first is an alarm: its
handler raises in the main thread, so the test fails with the stacks of all threads and tasks, and
the run continues. The stacks are a section of the report, because the exception itself may be lost
on its way: an event loop that is interrupted while it closes replaces it with its own. The alarm
cannot stop code that catches everything or that blocks in C without checking for signals. For those
the second timer, a thread of faulthandler in C, prints all stacks to the real stderr and ends the
process; pytest-xdist reports that as a failure of the test and starts another worker. The same
timer runs while the process ends: Python waits there for every thread that a test left behind.
It is kept for the next tests while it leaves them enough time, because starting and ending a thread
for each of 13,000 tests took 2 s.
Proof: `tests/conformance/test_watchdog.py`.
"""

import asyncio
import faulthandler
import os
import signal
import tempfile
import threading
from collections.abc import Generator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from penstock.core.clock import SystemClock

HANG, SLOW_HANG = 30, 120  # times what --test-seconds says, which is 1 at home
MAIN = threading.main_thread()
GRACE = 10  # until the process is ended, if the alarm did not suffice; the same times
STDERR = pytest.StashKey[int]()
ENDS_AT = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the stderr that no test captures."""
    config.stash[STDERR] = os.dup(2)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process if a thread keeps it from ending: for that the stderr stays open.

    Without such a thread there is no timer: to free what thousands of tests left may take long.
    """
    faulthandler.cancel_dump_traceback_later()
    if any(not each.daemon for each in threading.enumerate() if each is not MAIN):
        limit = HANG * config.getoption("--test-seconds") + grace(config)
        faulthandler.dump_traceback_later(limit, exit=True, file=config.stash[STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Run a test under both timers. The alarm repeats: a tear-down may hang as well."""
    limit = seconds(item)
    more = grace(item.config)
    give_time(item.config, limit + more, limit)
    signal.signal(signal.SIGALRM, partial(fail, item))
    signal.setitimer(signal.ITIMER_REAL, limit, more / 3)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if nextitem is None:
            item.config.stash[ENDS_AT] = 0
            faulthandler.cancel_dump_traceback_later()


def give_time(config: pytest.Config, least: float, more: float) -> None:
    """Set the timer that ends the process, unless it leaves as much time, and at most `more`."""
    now = SystemClock().monotonic()
    if not least <= config.stash.get(ENDS_AT, 0.0) - now <= least + more:
        faulthandler.dump_traceback_later(least + more, exit=True, file=config.stash[STDERR])
        config.stash[ENDS_AT] = now + least + more


def seconds(item: pytest.Item) -> float:
    """Return the limit of a test: slow(reason, seconds=…) may state more than slow tests have."""
    factor: float = item.config.getoption("--test-seconds")
    if mark := item.get_closest_marker("slow"):
        return float(mark.kwargs.get("seconds", SLOW_HANG)) * factor
    return HANG * factor


def grace(config: pytest.Config) -> float:
    """Return how long after its limit a test may take to fail, and the process to end."""
    seconds: float = config.getoption("--test-seconds")
    return max(1, GRACE * seconds)


def fail(item: pytest.Item, number: int, frame: FrameType | None) -> None:
    """Fail the test that runs, with the stack of every thread and task."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        threads = file.read()
    stacks = f"Its threads:\n{threads}\nIts tasks:\n{tasks() or '  none'}"
    item.add_report_section("call", "stacks", stacks)
    pytest.fail("The test hangs. Its stacks are below.", pytrace=False)


def tasks() -> str:
    """Return where each task of the running loop waits, outermost call first."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop is running
        return ""
    return "\n".join("\n".join([f"  {task.get_name()}", *calls(task)]) for task in tasks)


def calls(task: asyncio.Task[Any]) -> Generator[str, None, None]:
    """Walk from a coroutine to the one that it awaits: `Task.get_stack` knows the first alone."""
    waits: Any = task.get_coro()
    while waits is not None:
        frame = getattr(waits, "cr_frame", None) or getattr(waits, "ag_frame", None)
        if frame is not None:
            code = frame.f_code
            yield f'    File "{code.co_filename}", line {frame.f_lineno} in {code.co_qualname}'
        waits = getattr(waits, "cr_await", None) or getattr(waits, "ag_await", None)
