"""A process that runs one script: begun confined, spoken to in frames, ended with all it began."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field

from penstock.core.exhaustion import starting_process
from penstock.sandbox.processes.frames import FrameReader, frame_of
from penstock.sandbox.processes.slots import Slot

CONFINE = Path(__file__).with_name("confine.py")
SYSTEM = ("/lib", "/lib64", "/usr/lib")
"""Folders of libraries, which every program needs."""
LOOKED_AT = (
    *("/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/proc/self", "/sys/fs/cgroup"),
    "/sys/devices/system/cpu",
)
"""Files that engines read of the system as they begin."""
_BUFFER = 1 << 20
_CHUNK = 1 << 18
_MOST_LAST_WORDS = 8192


class Command(Struct, frozen=True, kw_only=True):
    """What is started, and what is taken from it first."""

    argv: Sequence[str]
    folder: Path
    """Where it starts: an empty one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    """Of the system, by name: `DATA`, `FSIZE`."""
    layers: Sequence[str] = ()
    """Of confine.LAYERS."""
    execute: Sequence[str] = ()
    """Files and folders that it may read, and run."""
    read: Sequence[str] = ()
    list: Sequence[str] = ()
    """Folders whose names it may see."""

    def plan(self) -> str:
        """Return what confine.py is told."""
        return json.dumps(
            {
                "parent": os.getpid(),
                "limits": dict(self.limits),
                "layers": [*self.layers],
                "execute": [*self.execute],
                "read": [*self.read],
                "list": [*self.list],
            }
        )


class Process:
    """One process, with one socket for its stdin and stdout; used by one loop at a time."""

    def __init__(self, command: Command, reaper: ThreadPoolExecutor) -> None:
        self._reaper = reaper
        self._frames = FrameReader(_BUFFER)
        self._arrived: deque[tuple[str, list[bytes]]] = deque()
        self._unsent = bytearray()
        self._is_flushing = False
        self._reaped: Future[int] | None = None
        self.is_ready = False
        """It has said that it can begin."""
        self.slot: Slot | None = None
        """Held until it is reaped; None where processes are not counted."""
        with starting_process():
            ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        ours.settimeout(0)
        self._socket = ours
        with ExitStack() as opened, theirs, starting_process():
            opened.enter_context(ours)
            self._child = subprocess.Popen(  # noqa: S603  of penstock's own making
                [sys.executable, "-I", "-S", str(CONFINE), command.plan(), *command.argv],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                env=dict(command.environment),
                cwd=command.folder,
                start_new_session=True,
            )
            opened.pop_all()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._reaped is None and self._child.poll() is None

    def bound(self, most_bytes: int) -> None:
        """Say how large a frame may be that it sends."""
        self._frames.most_bytes = most_bytes

    def write(self, kind: str, *parts: bytes) -> None:
        """Send a frame, or keep what does not fit the socket's buffer until `flush`."""
        self._unsent += frame_of(kind, parts)
        if not self._is_flushing:
            self._send_some()

    async def flush(self) -> None:
        """Send what was kept, unless that is being done: then it is sent there, in its order."""
        if self._is_flushing:
            return
        loop = asyncio.get_running_loop()
        self._is_flushing = True
        try:
            while self._unsent:
                content = bytes(self._unsent)
                self._unsent.clear()
                await loop.sock_sendall(self._socket, content)
        finally:
            self._is_flushing = False

    async def read(self) -> tuple[str, list[bytes]]:
        """Return the next frame. Raises EOFError when there will be none."""
        loop = asyncio.get_running_loop()
        while not self._arrived:
            # What has arrived is returned at once: one that never falls silent would hold up all.
            passed = loop.create_future()
            loop.call_soon(_settle, passed)
            await passed
            try:
                content = await loop.sock_recv(self._socket, _CHUNK)
            except OSError as error:
                raise EOFError(str(error)) from None
            if not content:
                raise EOFError
            self._arrived.extend(self._frames.feed(content))
        return self._arrived.popleft()

    async def last_words(self) -> str:
        """End it; returns the code it had ended with, if it had, and the end of its stderr."""
        self.kill()
        code = await asyncio.wrap_future(self._reap())
        said = b""
        if self._child.stderr is not None and not self._child.stderr.closed:
            os.set_blocking(self._child.stderr.fileno(), False)
            with suppress(OSError):
                said = os.read(self._child.stderr.fileno(), 8 * _MOST_LAST_WORDS)
        return f"{code}\n{said[-_MOST_LAST_WORDS:].decode('utf-8', 'replace')}"

    async def reaped(self) -> None:
        """End it, and wait until the system has forgotten it."""
        self.kill()
        await asyncio.wrap_future(self._reap())

    def line(self) -> bytes:
        """Wait for a line of its stderr; nothing when there will be none. A call of a thread."""
        return self._child.stderr.readline() if self._child.stderr is not None else b""

    @property
    def unsent(self) -> int:
        """Bytes that it has not taken yet."""
        return len(self._unsent)

    def kill(self) -> None:
        """End it and all it began, at once; what is left of it is reaped behind."""
        if self.is_alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self._reap()

    def close(self) -> None:
        """End it, and close what it was spoken to through."""
        self.kill()
        if self.slot is not None and self._reaped is not None:
            self._reaped.add_done_callback(self.slot.release_from(asyncio.get_running_loop()))
        self._socket.close()
        if self._child.stderr is not None:
            self._child.stderr.close()

    def _send_some(self) -> None:
        with suppress(BlockingIOError, OSError):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]

    def _reap(self) -> Future[int]:
        if self._reaped is None:
            self._reaped = self._reaper.submit(self._child.wait)
        return self._reaped


def _settle(passed: asyncio.Future[None]) -> None:
    if not passed.done():
        passed.set_result(None)
