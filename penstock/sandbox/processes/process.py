"""A process for one script: started confined, reached through frames, killed with its children.

Guarantees that the process starts through `confine.py` with its limits and layers, that it leads a
session of its own which `kill` ends as a whole, and that it is always reaped, in a thread, because
waiting for a process blocks. One socket is its stdin and stdout. The peer is untrusted: frames are
bounded (`FrameReader`), and what it does not read is kept up to a bound that the guest checks.

`found_layers` tries each layer of confinement in a child process instead of checking versions:
containers, LSM settings and seccomp profiles of the host can refuse a layer that the kernel has.
Proof: tests/sandbox/processes/test_process.py.
"""

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
from penstock.sandbox.messages import FrameReader, frame_of
from penstock.sandbox.processes.process_slots import Slot

CONFINE = Path(__file__).with_name("confine.py")
SYSTEM = ("/lib", "/lib64", "/usr/lib")
"""Library folders that every program needs."""
LOOKED_AT = (
    *("/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/proc/self", "/sys/fs/cgroup"),
    "/sys/devices/system/cpu",
)
"""System files that engines read when they start."""
_BUFFER = 1 << 20
_CHUNK = 1 << 18
_MAX_STDERR_BYTES = 8192
NONE_AT_ALL = "only Linux can confine scripts"
_PROBE_SECONDS = 10
PROBE = (sys.executable, "-I", "-S", str(CONFINE), "--probe")


class Command(Struct, frozen=True, kw_only=True):
    """A program and its confinement."""

    argv: Sequence[str]
    folder: Path
    """The working directory: an empty one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    """Resource limits by name: `DATA`, `FSIZE`."""
    layers: Sequence[str] = ()
    """Names in confine.LAYERS."""
    execute: Sequence[str] = ()
    """Files and folders that it may read and execute."""
    read: Sequence[str] = ()
    list: Sequence[str] = ()
    """Folders whose entries it may list."""

    def plan(self) -> str:
        """Return the plan for confine.py."""
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
    """One process. One event loop may use it at a time."""

    def __init__(self, command: Command, reaper: ThreadPoolExecutor) -> None:
        self._reaper = reaper
        self._frames = FrameReader(_BUFFER)
        self._arrived: deque[tuple[str, list[bytes]]] = deque()
        self._unsent = bytearray()
        self._is_flushing = False
        self._reaped: Future[int] | None = None
        self.is_ready = False
        """It has reported that it can start a script."""
        self.slot: Slot | None = None
        """Held until the process is reaped; None if processes are not counted."""
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
        """Whether the process has not ended."""
        return self._reaped is None and self._child.poll() is None

    def bound(self, max_bytes: int) -> None:
        """Set the largest frame that it may send."""
        self._frames.max_bytes = max_bytes

    def write(self, kind: str, *parts: bytes) -> None:
        """Send a frame. What does not fit the socket's buffer is kept until `flush`."""
        self._unsent += frame_of(kind, parts)
        if not self._is_flushing:
            self._send_some()

    async def flush(self) -> None:
        """Send what was kept. If another flush is running, it sends this, too, in order."""
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
            # Yield to the loop first: a process that never stops sending would block all others,
            # because `sock_recv` returns at once while there is data.
            turn = loop.create_future()
            loop.call_soon(_settle, turn)
            await turn
            try:
                content = await loop.sock_recv(self._socket, _CHUNK)
            except OSError as error:
                raise EOFError(str(error)) from None
            if not content:
                raise EOFError
            self._arrived.extend(self._frames.feed(content))
        return self._arrived.popleft()

    async def last_words(self) -> str:
        """Kill it; return its exit code, a line end, and the end of its stderr."""
        self.kill()
        code = await asyncio.wrap_future(self._reap())
        stderr = b""
        if self._child.stderr is not None and not self._child.stderr.closed:
            # A child of it may have survived with the pipe open: reading must not block.
            os.set_blocking(self._child.stderr.fileno(), False)
            with suppress(OSError):
                stderr = os.read(self._child.stderr.fileno(), 8 * _MAX_STDERR_BYTES)
        return f"{code}\n{stderr[-_MAX_STDERR_BYTES:].decode('utf-8', 'replace')}"

    async def reaped(self) -> None:
        """Kill it and wait until it is reaped."""
        self.kill()
        await asyncio.wrap_future(self._reap())

    def line(self) -> bytes:
        """Wait for a line of its stderr; empty at the end. Blocks: call it in a thread."""
        return self._child.stderr.readline() if self._child.stderr is not None else b""

    @property
    def unsent(self) -> int:
        """Bytes that the process has not read yet."""
        return len(self._unsent)

    def kill(self) -> None:
        """Kill it and all its children; it is reaped in a thread."""
        if self.is_alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self._reap()

    def close(self) -> None:
        """Kill it and close its socket. Its slot is released when it is reaped."""
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


def _settle(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def found_layers(probe: Sequence[str] = PROBE) -> Mapping[str, str]:
    """Return each layer with the reason why it is not available, or an empty text."""
    if sys.platform != "linux":
        return {"confinement": NONE_AT_ALL}
    with starting_process():
        ended = subprocess.run(probe, capture_output=True, timeout=_PROBE_SECONDS, check=False)  # noqa: S603  of penstock's own making
    if ended.returncode:
        reason = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        return {"confinement": f"it could not be tried: {reason}"}
    layers: dict[str, str] = json.loads(ended.stdout)
    return layers


def available_layers(layers: Mapping[str, str]) -> list[str]:
    """Return the names of the layers that this machine has."""
    return [name for name, why in layers.items() if not why]


def missing_layers(layers: Mapping[str, str]) -> str:
    """Return the missing layers and their reasons as one line; empty if none is missing."""
    return "; ".join(f"{name}: {why}" for name, why in layers.items() if why)
