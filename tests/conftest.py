"""Rules for every test: one event loop, no network, one second, programs by a mark, no skips."""

import gc
import os
import shutil
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.machine_time import queued_seconds

gc.disable()  # until the tests are collected: none of the objects that imports make is garbage

pytest_plugins = [
    "tests.kit.databases",
    "tests.kit.compiled",
    "tests.kit.engines",
    "tests.kit.code_environment",
    "tests.kit.reports",
    "tests.kit.unread",
    "tests.kit.watchdog",
]

STARTED: list[str] = []
"""Programs that the test has started which runs."""
YOUNG = 10_000  # new objects between two looks for garbage: looking is 5 % of the time at 700
MEMORY, ROOM = Path("/dev/shm"), 4 << 30  # noqa: S108  each run makes a folder of its own
HERE = {"", "::", "::1", "localhost", "0.0.0.0", "testserver"}  # noqa: S104


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio alone."""
    return "asyncio"


@pytest.fixture
def new_garbage() -> None:
    """Hide what earlier tests left from the collector: a collection then walks this test alone.

    To walk the objects of ten thousand tests takes 0.5 s of a test that collects once.
    """
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of CI: refuse skips, allow more time."""
    parser.addoption("--no-skips", action="store_true", help="fail the run if a test is skipped")
    parser.addoption("--engine", default="wasm", help="where scripts run: tests/kit/engines.py")
    parser.addoption("--test-seconds", type=float, default=1.0, help="what a test may take")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled code with what pytest keeps, not with what the user's own projects do.

    The folders of tests are in memory where there is room: no test needs them after a power cut.
    """
    if config.cache is not None:
        os.environ["XDG_CACHE_HOME"] = str(config.cache.mkdir("compiled"))
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a mark `slow` without a reason, and names that differ between the workers of a run."""
    for item in items:
        if " at 0x" in item.name:
            raise pytest.UsageError(f"{item.nodeid} has an address in its name: give it an id")
        mark = item.get_closest_marker("slow")
        if mark and not (mark.args or mark.kwargs.get("reason")):
            raise pytest.UsageError(f"{item.nodeid} is slow: say why, slow(reason)")


def pytest_collection_finish() -> None:
    """Hide the collected tests from the garbage collector.

    Hypothesis computes its tables of characters once, which takes seconds: do it outside any test.
    """
    if strategies := sys.modules.get("hypothesis.strategies"):
        strategies.text().validate()
    gc.freeze()
    gc.set_threshold(YOUNG)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that took too long, unless it is marked slow.

    The time in which it could run, but the machine ran something else, is none of its time.
    """
    STARTED.clear()
    limit = item.config.getoption("--test-seconds")
    queued, started = queued_seconds(), time.perf_counter()
    outcome = yield
    if (took := time.perf_counter() - started) > limit and not item.get_closest_marker("slow"):
        took -= queued_seconds() - queued
        if took > limit:
            pytest.fail(f"took {took:.1f} s: make it fast, or mark it slow(reason)")
    # The rules in the folder itself, which `make check` runs, start git and make. Other engines are
    # programs: a run with one is itself part of a test that has the mark.
    is_free = item.path.parent.name == "tests" or item.config.getoption("--engine") != "wasm"
    if STARTED and not is_free and not item.get_closest_marker("programs"):
        pytest.fail(f"started {STARTED[0]}: mark it programs")
    return outcome


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with `--no-skips` if a test was skipped or expected to fail."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return
    if left_out := len(reporter.stats.get("skipped", [])) + len(reporter.stats.get("xfailed", [])):
        reporter.write_line(
            f"\n{left_out} skipped or expected to fail, none may be: install what is missing"
        )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def watch(event: str, args: tuple[Any, ...]) -> None:
    """Refuse connections, datagrams and look-ups that leave the machine; note started programs."""
    if event == "subprocess.Popen":
        STARTED.append(str(args[0]))
    if event in {"socket.connect", "socket.sendto"} and isinstance(args[1], tuple):
        refuse_host(args[1][0])
    if event == "socket.getaddrinfo" and args[0] is not None:
        refuse_host(args[0])


def refuse_host(host: str | bytes) -> None:
    """Refuse a host that is not this machine."""
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name not in HERE and not name.startswith("127."):
        raise PermissionError(f"a test tried to reach {name!r}: only this machine may be reached")


sys.addaudithook(watch)
