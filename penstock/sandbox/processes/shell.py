"""A shell command, run enclosed or free, with bounded time and output."""

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
from penstock.sandbox.processes.home import HOME

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"
GRACE_SECONDS = 5.0
"""Between the request to end and the end."""
_REST_SECONDS = 1.0
"""How long is waited for output of processes that the command left behind."""
_PROGRAM = ("-I", "-m", "penstock.sandbox.processes.enclose")
_SHELL, _REMOVE = "/bin/sh", "/bin/rm"
_CHUNK = 1 << 16
_MOST_REPORT = 8192
_SCRATCH, _PLAN = "penstock", "plan"
_UPPER, _WORK = "changes/upper", "changes/work"
"""As overlayfs wants them: what was changed, and a folder of its own on the same disk."""


class Enclosure(Struct, frozen=True, kw_only=True):
    """What a command may touch of the project, as paths from its folder."""

    hidden: Sequence[str] = ()
    kept: Sequence[str] = ()
    """Read and not written, whatever is around it."""
    processes: int = 1024
    """Processes and threads at once."""
    memory_mb: int = 4096
    """Of all processes together."""
    writable: Sequence[str] = ("",)
    """Places where what the command writes is kept apart; nothing reaches the project by itself."""
    network: bool = False


class Leftovers(Struct):
    """The folders of this user that killed processes left among temporary files.

    The name has the number of the process, and the namespace in which it is one: in a container
    that shares the folder it is another process.
    """

    is_found: bool = False

    def once(self) -> Sequence[Path]:
        """Return them; nothing from the second call on."""
        if self.is_found:
            return ()
        found = list[Path]()
        for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}-*-{_numbering()}-*"):
            with suppress(OSError, ValueError):
                process = int(folder.name.split("-")[1])
                if folder.lstat().st_uid == os.getuid() and not _lives(process):
                    found.append(folder)
        self.is_found = True
        return found


class ShellCommand(Struct, frozen=True, kw_only=True):
    """What is run, where, and for how long."""

    text: str
    folder: Path
    enclosure: Enclosure | None
    """None: it runs with all rights of this process."""
    seconds: float
    most_bytes: int
    """Of each stream that are kept: the first and the last half."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Besides PATH, LANG and HOME."""
    grace_seconds: float = GRACE_SECONDS
    leftovers: Leftovers = field(default_factory=Leftovers)
    """They are removed with the folder of the command."""


class ShellEnd(Struct, frozen=True, kw_only=True):
    """How a command ended."""

    code: int
    """Of its exit; the number of a signal with a minus."""
    stdout: str
    stderr: str
    is_truncated: bool = False
    is_late: bool = False
    """It was stopped because its time was over."""
    refused: str = ""
    """Why it could not be enclosed; then nothing ran."""
    refusals: Sequence[str] = ()
    """A sentence for each change that was not taken over into the project."""


TakeChanges = Callable[[Path], Awaitable[None]]
"""Receives the upper folder of overlayfs with all that an enclosed command changed."""


async def drop_changes(upper: Path) -> None:
    """Leave the project as it was."""


class BoundedOutput:
    """The first and the last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take what arrived."""
        self._size += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def is_truncated(self) -> bool:
        """Whether something is missing."""
        return self._size > 2 * self._half

    def text(self) -> str:
        """Return what was kept, with a line where something is missing."""
        if not self.is_truncated:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head, tail = bytes(self._head), bytes(self._tail[-self._half :])
        missing = f"\n[{self._size - 2 * self._half} bytes are left out]\n"
        return head.decode("utf-8", "replace") + missing + tail.decode("utf-8", "replace")


async def run_shell(command: ShellCommand, take: TakeChanges = drop_changes) -> ShellEnd:
    """Run a command to its end; all that it began ends with it.

    What an enclosed command changed is handed to `take` then, also if its time was over.
    """
    async with _scratch(command.leftovers) as scratch:
        out, err = BoundedOutput(command.most_bytes), BoundedOutput(command.most_bytes)
        report = BoundedOutput(_MOST_REPORT)
        ends = _pipes(3)
        readers = [
            asyncio.ensure_future(_drain(mouth, kept))
            for (mouth, _), kept in zip(ends, (out, err, report), strict=True)
        ]
        try:
            code, is_late = await _waited(command, scratch, [end for _, end in ends])
        finally:
            await asyncio.wait(readers, timeout=_REST_SECONDS)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        said = _said(report)
        if command.enclosure is not None and not said.get("refused"):
            await take(scratch / _UPPER)
        return ShellEnd(
            code=said.get("code", code),
            stdout=out.text(),
            stderr=err.text() + said.get("over", ""),
            is_truncated=out.is_truncated or err.is_truncated,
            is_late=is_late,
            refused=said.get("refused", ""),
        )


def _pipes(count: int) -> list[tuple[int, int]]:
    """Make pipes: all of them, or none."""
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
    """Start the command and wait for it; returns its code, and whether its time was over."""
    try:
        process = await _started(command, scratch, ends)
    finally:
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
            (place := scratch / _PLAN).write_text(json.dumps(plan))
        argv, environment = [sys.executable, *_PROGRAM, str(place)], {}
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
    """Tell all of the process group, also what is left of it behind the first one's end."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _drain(mouth: int, kept: BoundedOutput) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(mouth, "rb", 0)
    )
    try:
        while chunk := await reader.read(_CHUNK):
            kept.add(chunk)
    finally:
        transport.close()


@asynccontextmanager
async def _scratch(leftovers: Leftovers) -> AsyncIterator[Path]:
    """Make a folder for the time of the command, with a home and a place for passing files."""
    with starting_process():
        stale = leftovers.once()
        folder = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}-{os.getpid()}-{_numbering()}-"))
    try:
        for each in ("home", "tmp", "root", _UPPER, _WORK):
            (folder / each).mkdir(parents=True)
        yield folder
    finally:
        with suppress(OSError):  # overlayfs makes it, for nobody to enter
            (folder / _WORK / "work").chmod(0o700)
        try:
            await _remove(folder, *stale)
        except OutOfResources:  # the command has ended, so this must not run it again
            _remove_unused(folder)


async def _remove(*folders: Path) -> None:
    """Remove what commands left, which may be nested deeper than calls can be."""
    with starting_process():
        removing = await asyncio.create_subprocess_exec(_REMOVE, "-rf", "--", *map(str, folders))
    await removing.wait()


def _remove_unused(folder: Path) -> None:
    """Remove what no command wrote to; `_stale` finds the rest once this process has ended."""
    (folder / _PLAN).unlink(missing_ok=True)
    for each in (_WORK, "changes/upper", "changes", "root", "tmp", "home", ""):
        with suppress(OSError):
            (folder / each).rmdir()


def _numbering() -> int:
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


def _said(report: BoundedOutput) -> dict[str, Any]:
    """Return what was reported first: a refusal comes before the end that follows from it."""
    lines = report.text().splitlines()
    said: dict[str, Any] = json.loads(lines[0]) if lines else {}
    return said
