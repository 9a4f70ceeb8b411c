"""A test that hangs fails with its stack, and the run continues."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("runs pytest in a process of its own, on a test that hangs")
ROOT = Path(__file__).parents[2]
CONFTEST = """
pytest_plugins = ["tests.kit.watchdog"]

def pytest_addoption(parser):
    parser.addoption("--test-seconds", type=float, default=1.0)
"""
AWAITS = """
import asyncio
import pytest

async def wait_for_nobody():
    await asyncio.Event().wait()

@pytest.mark.anyio
async def test_hangs():
    await wait_for_nobody()
"""
BLOCKS = """
import threading

def take_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_hangs():
    take_twice()
"""
SETS_UP = """
import threading, pytest

@pytest.fixture
def wait_for_nobody():
    threading.Event().wait()

def test_hangs(wait_for_nobody): ...
"""
SWALLOWS = """
import threading

def swallow_everything():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

def test_hangs():
    swallow_everything()
"""
LOSES_THE_FAILURE = """
import asyncio
import pytest

async def wait_again():
    while True:
        try:
            await asyncio.sleep(99)
        except asyncio.CancelledError:
            pass

@pytest.mark.anyio
async def test_hangs():
    await wait_again()
"""
LEAVES_A_THREAD = """
import threading

def wait_for_nobody():
    threading.Event().wait()

def test_hangs_later():
    threading.Thread(target=wait_for_nobody).start()
"""
BLOCKS_IN_C = """
import signal, threading

def deaf_to_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    threading.Event().wait()

def test_hangs():
    deaf_to_signals()
"""
OTHER = """
def test_the_next(): ...
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a test that hangs, and one behind it, with limits of 0.3 s."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text + OTHER)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--test-seconds=0.01", *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (AWAITS, "in wait_for_nobody"),
        (BLOCKS, "in take_twice"),
        (SETS_UP, "in wait_for_nobody"),
        (LOSES_THE_FAILURE, "in wait_again"),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["one process", "workers"])
def test_a_test_that_hangs_fails_with_its_stack(
    text: str, frame: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    ended = run(tmp_path, text, *arguments)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "The test hangs." in ended.stdout
    assert frame in ended.stdout
    assert "1 passed" in ended.stdout


@pytest.mark.parametrize(
    ("text", "frame"),
    [(SWALLOWS, "in swallow_everything"), (BLOCKS_IN_C, "in deaf_to_signals")],
    ids=["swallows", "blocks in C"],
)
def test_a_hang_that_no_exception_stops_ends_with_its_process(
    text: str, frame: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, text, "-n1")
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "crashed while running" in ended.stdout
    assert frame in ended.stderr
    assert "1 passed" in ended.stdout


def test_a_slow_test_has_more_time_and_may_state_even_more(tmp_path: Path) -> None:
    text = """
import pytest, time

@pytest.mark.slow("waits")
def test_longer_than_others():
    time.sleep(0.6)

@pytest.mark.slow("waits", seconds=400)
def test_as_long_as_it_states():
    time.sleep(2)

@pytest.mark.slow("waits")
def test_longer_than_it_may():
    time.sleep(4)
"""
    ended = run(tmp_path, text)
    assert "1 failed, 3 passed" in ended.stdout
    assert "in test_longer_than_it_may" in ended.stdout


def test_a_process_that_a_thread_keeps_ends_with_the_stack_of_the_thread(tmp_path: Path) -> None:
    """Python waits for every thread that is no daemon, and for those of executors."""
    ended = run(tmp_path, LEAVES_A_THREAD)
    assert "2 passed" in ended.stdout
    assert "in wait_for_nobody" in ended.stderr
    assert ended.returncode == 1
