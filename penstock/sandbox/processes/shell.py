"""Runs a shell command, enclosed or with all rights, with bounded time and output.

Guarantees: no process of the command outlives it (the session is killed, and enclosed, the whole
pid namespace), output is bounded per stream while all pipes are drained, and changes of an
enclosed command reach the project only through `take`. What the command writes goes to a scratch
folder, which is removed afterwards; the next command removes folders that killed processes left.

The order matters: the command ends, its output is drained, `take` runs, and the scratch folder is
removed last. An error after the command has ended must not make the caller run it again. Proof:
tests/sandbox/processes/test_shell.py and test_enclose.py.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from penstock.core.errors import OutOfResources
from penstock.core.exhaustion import starting_process

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"
HOME = "/run/home"
"""The home folder inside an enclosure. `enclose` gets it in its plan: it must not import this file,
which would load asyncio for every command."""
GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_REST_SECONDS = 1.0
"""Seconds to wait for more output: a process that the command left may keep a pipe open."""
_PROGRAM = ("-I", "-m", "penstock.sandbox.processes.enclose")
_SHELL, _REMOVE = "/bin/sh", "/bin/rm"
_CHUNK = 1 << 16
_MAX_REPORT = 8192
_SCRATCH, _PLAN = "penstock", "plan"
_UPPER, _WORK = "changes/upper", "changes/work"
"""The folders for overlayfs: the changes, and its work folder on the same disk."""


class Enclosure(Struct, frozen=True, kw_only=True):
    """Folders and files that an enclosed command may reach. Paths are relative to the project."""

    hidden: Sequence[str] = ()
    kept: Sequence[str] = ()
    """Read-only, also inside a writable folder."""
    processes: int = 1024
    """Most processes and threads at once."""
    memory_mb: int = 4096
    """Most memory of all processes together."""
    writable: Sequence[str] = ("",)
    """Folders that the command may write to. The project changes only through `TakeChanges`."""
    network: bool = False


class Leftovers(Struct):
    """Scratch folders of this user whose process was killed.

    The name of a folder contains the process id and the pid namespace: the temporary folder may be
    shared with a container, where the same number is another process.
    """

    is_found: bool = False

    def once(self) -> Sequence[Path]:
        """Return the folders on the first call, nothing on later calls."""
        if self.is_found:
            return ()
        folders = list[Path]()
        for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}-*-{_pid_namespace()}-*"):
            with suppress(OSError, ValueError):
                process = int(folder.name.split("-")[1])
                if folder.lstat().st_uid == os.getuid() and not _lives(process):
                    folders.append(folder)
        self.is_found = True
        return folders


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A shell command with its enclosure and bounds."""

    text: str
    folder: Path
    enclosure: Enclosure | None
    """None: the command runs with all rights of this process."""
    seconds: float
    max_bytes: int
    """Bytes to keep of each stream: the first and the last half."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to PATH, LANG and HOME."""
    grace_seconds: float = GRACE_SECONDS
    leftovers: Leftovers = field(default_factory=Leftovers)
    """Removed together with the scratch folder of the command."""


class ShellEnd(Struct, frozen=True, kw_only=True):
    """The result of a command."""

    code: int
    """The exit code; minus the number of a signal."""
    stdout: str
    stderr: str
    is_truncated: bool = False
    is_late: bool = False
    """It was stopped because its time was over."""
    refused: str = ""
    """Why the command could not be enclosed; then nothing ran."""
    refusals: Sequence[str] = ()
    """A sentence for each change that was not applied to the project."""


TakeChanges = Callable[[Path], Awaitable[None]]
"""Receives the upper folder of overlayfs, with all changes of an enclosed command."""


async def drop_changes(upper: Path) -> None:
    """Discard the changes."""


class BoundedOutput:
    """The first and the last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Append a chunk; drop what is neither first nor last."""
        self._size += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut at twice the size: cutting at every chunk would copy the tail each time.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def is_truncated(self) -> bool:
        """Whether bytes were dropped."""
        return self._size > 2 * self._half

    def text(self) -> str:
        """Return the kept text, with a line in place of dropped bytes."""
        if not self.is_truncated:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head, tail = bytes(self._head), bytes(self._tail[-self._half :])
        missing = f"\n[{self._size - 2 * self._half} bytes are left out]\n"
        return head.decode("utf-8", "replace") + missing + tail.decode("utf-8", "replace")


async def run_shell(command: ShellCommand, take: TakeChanges = drop_changes) -> ShellEnd:
    """Run a command to its end, with all processes that it started.

    Then `take` receives the changes of an enclosed command, also if its time was over.
    """
    async with _scratch(command.leftovers) as scratch:
        out, err = BoundedOutput(command.max_bytes), BoundedOutput(command.max_bytes)
        report = BoundedOutput(_MAX_REPORT)
        ends = _pipes(3)
        readers = [
            asyncio.ensure_future(_drain(reading_end, output))
            for (reading_end, _), output in zip(ends, (out, err, report), strict=True)
        ]
        try:
            code, is_late = await _waited(command, scratch, [end for _, end in ends])
        finally:
            await asyncio.wait(readers, timeout=_REST_SECONDS)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        reported = _first_report(report)
        if command.enclosure is not None and not reported.get("refused"):
            await take(scratch / _UPPER)
        return ShellEnd(
            code=reported.get("code", code),
            stdout=out.text(),
            stderr=err.text() + reported.get("over", ""),
            is_truncated=out.is_truncated or err.is_truncated,
            is_late=is_late,
            refused=reported.get("refused", ""),
        )


def _pipes(count: int) -> list[tuple[int, int]]:
    """Create pipes: all of them or, if descriptors run out, none."""
    made = list[tuple[int, int]]()
    with starting_process():
        try:
            for _ in range(count):
                made.append(os.pipe())
        except OSError:
            for end in chain.from_iterable(made):
                os.close(end)
            raise
    return made


async def _waited(command: ShellCommand, scratch: Path, ends: Sequence[int]) -> tuple[int, bool]:
    """Start the command and wait; return its exit code and whether its time was over."""
    try:
        process = await _started(command, scratch, ends)
    finally:
        # Our copies of the writing ends: as long as one is open, no reader sees the end.
        for end in ends:
            os.close(end)
    is_late = False
    try:
        if not await _has_ended(process, command.seconds):
            is_late = True
            _signal(process, signal.SIGTERM)
            await _has_ended(process, command.grace_seconds)
    finally:
        _signal(process, signal.SIGKILL)
        await process.wait()
    return process.returncode or 0, is_late


async def _started(
    command: ShellCommand, scratch: Path, ends: Sequence[int]
) -> asyncio.subprocess.Process:
    environment = {"PATH": PATH, "LANG": LANG, "HOME": HOME, **command.environment}
    shell = [_SHELL, "-c", command.text]
    if command.enclosure is None:
        argv = shell
        environment["HOME"] = str(scratch / "home")
    else:
        plan = _plan(command.enclosure, command.folder, scratch)
        plan |= {"argv": shell, "environment": environment, "report": ends[2]}
        with starting_process():
            (path := scratch / _PLAN).write_text(json.dumps(plan))
        argv, environment = [sys.executable, *_PROGRAM, str(path)], {}
    with starting_process():
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            pass_fds=[ends[2]] if command.enclosure else [],
            env=environment,
            cwd=command.folder,
            start_new_session=True,
        )


def _plan(enclosure: Enclosure, folder: Path, scratch: Path) -> dict[str, Any]:
    return {
        "parent": os.getpid(),
        "root": str(scratch / "root"),
        "home": str(scratch / "home"),
        "home_inside": HOME,
        "tmp": str(scratch / "tmp"),
        "changes": str(scratch / "changes"),
        "project": str(folder),
        "system": [sys.base_prefix],
        "hidden": list(enclosure.hidden),
        "kept": list(enclosure.kept),
        "writable": [str(folder / each) for each in enclosure.writable],
        "network": enclosure.network,
        "processes": enclosure.processes,
        "memory": enclosure.memory_mb << 20,
    }


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
            return True
    return False


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the whole process group, also after its first process has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _drain(reading_end: int, output: BoundedOutput) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading_end, "rb", 0)
    )
    try:
        while chunk := await reader.read(_CHUNK):
            output.add(chunk)
    finally:
        transport.close()


@asynccontextmanager
async def _scratch(leftovers: Leftovers) -> AsyncIterator[Path]:
    """Create the scratch folder of a command, and remove it afterwards."""
    with starting_process():
        stale = leftovers.once()
        prefix = f"{_SCRATCH}-{os.getpid()}-{_pid_namespace()}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        for name in ("home", "tmp", "root", _UPPER, _WORK):
            (folder / name).mkdir(parents=True)
        yield folder
    finally:
        with suppress(OSError):  # overlayfs creates this folder with mode 000
            (folder / _WORK / "work").chmod(0o700)
        try:
            await _remove(folder, *stale)
        except OutOfResources:  # the command has ended: raising would make the caller run it again
            _remove_unused(folder)


async def _remove(*folders: Path) -> None:
    """Remove folders with `rm`: they may be nested deeper than Python can recurse."""
    with starting_process():
        removing = await asyncio.create_subprocess_exec(_REMOVE, "-rf", "--", *map(str, folders))
    await removing.wait()


def _remove_unused(folder: Path) -> None:
    """Remove empty folders. `Leftovers` finds the rest after this process has ended."""
    (folder / _PLAN).unlink(missing_ok=True)
    for name in (_WORK, "changes/upper", "changes", "root", "tmp", "home", ""):
        with suppress(OSError):
            (folder / name).rmdir()


def _pid_namespace() -> int:
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _first_report(report: BoundedOutput) -> dict[str, Any]:
    """Return the first report: a refusal comes before the end that follows from it."""
    lines = report.text().splitlines()
    first: dict[str, Any] = json.loads(lines[0]) if lines else {}
    return first
