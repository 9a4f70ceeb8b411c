"""A person at a terminal: the real command in a pseudo terminal, read until it says something."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.core.clock import SystemClock

PENSTOCK = (sys.executable, "-m", "penstock")
PATIENCE = 20.0
CLOCK = SystemClock()
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """One command, started in a terminal of its own."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 200,
        echoes: bool = False,
        program: Sequence[str] = PENSTOCK,
        output: int | None = None,
    ) -> None:
        """Start the command; `output` is a file in place of the terminal that stdout is."""
        self._ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= -1 if echoes else ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        termios.tcsetwinsize(theirs, (40, columns))
        # A signal that is ignored here would be ignored there.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._process = subprocess.Popen(
                [*program, *arguments],
                cwd=cwd,
                stdin=theirs,
                stdout=theirs if output is None else output,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            signal.signal(signal.SIGINT, before)
        os.close(theirs)
        self._said = ""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the command, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def until(self, wanted: str) -> str:
        """Read until it has said this; returns what came before it, and forgets both."""
        deadline = CLOCK.monotonic() + PATIENCE
        while (at := self._said.find(wanted)) < 0:
            self._read(deadline, wanted)
        before, self._said = self._said[:at], self._said[at + len(wanted) :]
        return before

    def type(self, line: str) -> None:
        """Type a line."""
        self.press(f"{line}\n")

    def press(self, keys: str | bytes) -> None:
        """Press keys, without Enter."""
        os.write(self._ours, keys.encode() if isinstance(keys, str) else keys)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def interrupt_until(self, wanted: str) -> None:
        """Press Ctrl-C until it says this: one just before Python reads the line is lost."""
        deadline = CLOCK.monotonic() + PATIENCE
        while wanted not in self._said:
            assert CLOCK.monotonic() < deadline, f"it never said {wanted!r}, but:\n{self._said}"
            self.interrupt()
            soon = CLOCK.monotonic() + 3
            while wanted not in self._said and CLOCK.monotonic() < soon:
                self._read_some(soon)
        self.until(wanted)

    def interrupt_until_ended(self) -> int:
        """Press Ctrl-C until it leaves: one just before Python reads the line is lost."""
        deadline = CLOCK.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert CLOCK.monotonic() < deadline, f"it did not leave, but said:\n{self._said}"
            self.interrupt()
            self._ended_within(2)
        return self.ended()

    def _ended_within(self, seconds: float) -> None:
        deadline = CLOCK.monotonic() + seconds
        while self._process.poll() is None and CLOCK.monotonic() < deadline:
            self._read_some(CLOCK.monotonic() + 0.05)

    def leave(self) -> None:
        """Press Ctrl-D."""
        os.write(self._ours, b"\x04")

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        deadline = CLOCK.monotonic() + PATIENCE
        while self._process.poll() is None or self._has_more():
            if not self._read_some(deadline):
                break
        return self._process.wait(PATIENCE)

    @property
    def said(self) -> str:
        """What it has said since `until`."""
        return self._said

    def _read(self, deadline: float, wanted: str) -> None:
        if not self._read_some(deadline):
            raise AssertionError(f"it never said {wanted!r}, but:\n{self._said}")

    def _read_some(self, deadline: float) -> bool:
        left = max(deadline - CLOCK.monotonic(), 0)
        if not select.select([self._ours], [], [], left)[0]:
            return False
        try:
            piece = os.read(self._ours, 65536)
        except OSError:
            return False
        self._said += _ESCAPES.sub("", piece.decode(errors="replace")).replace("\r", "")
        return True

    def _has_more(self) -> bool:
        return bool(select.select([self._ours], [], [], 0)[0])
