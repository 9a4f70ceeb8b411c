"""Runs a command in a pseudo terminal, types into it, and waits for its output."""

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
    """One command in its own pseudo terminal."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        columns: int = 200,
        echoes: bool = False,
        program: Sequence[str] = PENSTOCK,
        output: int | None = None,
    ) -> None:
        """Start the command. `output` is a descriptor that replaces the terminal as stdout."""
        self._ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[3] &= -1 if echoes else ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        termios.tcsetwinsize(theirs, (40, columns))
        # A child process inherits ignored signals, and a test runner may ignore SIGINT.
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
        """Return the terminal."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the command if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def until(self, expected: str) -> str:
        """Read until this text appears; return the output before it, and drop both."""
        deadline = CLOCK.monotonic() + PATIENCE
        while (at := self._said.find(expected)) < 0:
            self._read(deadline, expected)
        before, self._said = self._said[:at], self._said[at + len(expected) :]
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

    def interrupt_until(self, expected: str) -> None:
        """Press Ctrl-C until this text appears.

        Python loses a signal that arrives just before it starts to read a line.
        """
        deadline = CLOCK.monotonic() + PATIENCE
        while expected not in self._said:
            assert CLOCK.monotonic() < deadline, f"{expected!r} never appeared in:\n{self._said}"
            self.interrupt()
            soon = CLOCK.monotonic() + 3
            while expected not in self._said and CLOCK.monotonic() < soon:
                self._read_some(soon)
        self.until(expected)

    def interrupt_until_ended(self) -> int:
        """Press Ctrl-C until the command ends; see `interrupt_until`."""
        deadline = CLOCK.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert CLOCK.monotonic() < deadline, f"the command did not end:\n{self._said}"
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
        """Wait for the end of the command; return its exit code."""
        deadline = CLOCK.monotonic() + PATIENCE
        while self._process.poll() is None or self._has_more():
            if not self._read_some(deadline):
                break
        return self._process.wait(PATIENCE)

    @property
    def said(self) -> str:
        """The output since the last `until`."""
        return self._said

    def _read(self, deadline: float, expected: str) -> None:
        if not self._read_some(deadline):
            raise AssertionError(f"{expected!r} never appeared in:\n{self._said}")

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
