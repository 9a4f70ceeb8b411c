"""A process: its frames, its end, its last words, and the layers of confinement on this machine."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from penstock.sandbox.processes.confine import LAYERS
from penstock.sandbox.processes.process import (
    NONE_AT_ALL,
    Command,
    Process,
    available_layers,
    found_layers,
    missing_layers,
)

ECHO = "import os\nwhile True: os.write(1, os.read(0, 65536))"
SAYS_MUCH = "import os; os.write(1, bytes([255] * 8))"
DIES = "import sys; sys.stderr.write('last words'); sys.exit(3)"
STARTS_A_CHILD = """
import os, struct
child = os.fork()
while not child: pass
said = str(child).encode()
os.write(1, struct.pack("<3I", 2, 3, len(said)) + b"pid" + said)
while True: pass
"""

STARTER = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from penstock.sandbox.processes.process import Command, Process
argv = [sys.executable, "-I", "-S", "-c", "import os, signal; os.write(1, b'x'); signal.pause()"]
process = Process(Command(argv=argv, folder=Path("/")), ThreadPoolExecutor(1))
process._socket.settimeout(None)
process._socket.recv(1)
print(process._child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def reaper() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def started(program: str, folder: Path, reaper: ThreadPoolExecutor) -> Process:
    argv = [sys.executable, "-I", "-S", "-c", program]
    return Process(Command(argv=argv, folder=folder, limits={"CORE": 0}), reaper)


async def test_frames_of_any_size_are_exchanged(tmp_path: Path, reaper: ThreadPoolExecutor) -> None:
    with closing(started(ECHO, tmp_path, reaper)) as process:
        large = bytes(1 << 18)
        process.write("one", b"a", large)
        process.write("two")
        await process.flush()
        assert await process.read() == ("one", [b"a", large])
        assert await process.read() == ("two", [])


async def test_the_last_words_of_a_process_are_read(
    tmp_path: Path, reaper: ThreadPoolExecutor
) -> None:
    with closing(started(DIES, tmp_path, reaper)) as process:
        with pytest.raises(EOFError):
            await process.read()
        assert await process.last_words() == "3\nlast words"
        assert not process.is_alive


async def test_a_process_that_sends_no_frames_is_refused(
    tmp_path: Path, reaper: ThreadPoolExecutor
) -> None:
    refused = pytest.raises(ValueError, match="parts")
    with closing(started(SAYS_MUCH, tmp_path, reaper)) as process, refused:
        await process.read()


async def test_children_of_a_process_end_with_it(
    tmp_path: Path, reaper: ThreadPoolExecutor
) -> None:
    with ExitStack() as stack:
        process = stack.enter_context(closing(started(STARTS_A_CHILD, tmp_path, reaper)))
        _, [child] = await process.read()
        process.kill()
        await process.last_words()
    assert is_gone(int(child))


def is_gone(pid: int) -> bool:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(watched) as ended:
        return bool(select.select([ended], [], [], 10)[0])


def test_a_process_does_not_outlive_its_parent() -> None:
    """The system kills it when its parent is killed."""
    starter = [sys.executable, "-c", STARTER]
    done = subprocess.run(starter, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert is_gone(int(done.stdout))


def test_every_layer_is_available_or_has_a_reason() -> None:
    expected = set(LAYERS) if sys.platform == "linux" else {"confinement"}
    assert set(found_layers()) == expected


def test_available_and_missing_layers_are_separated() -> None:
    layers = {"landlock": "", "seccomp": "no such call", "namespaces": "denied"}
    assert available_layers(layers) == ["landlock"]
    assert missing_layers(layers) == "seccomp: no such call; namespaces: denied"


def test_a_failed_probe_reports_its_reason() -> None:
    result = found_layers([sys.executable, "-c", "import sys; sys.exit('no such kernel')"])
    expected = "it could not be tried: no such kernel" if sys.platform == "linux" else NONE_AT_ALL
    assert result == {"confinement": expected}
