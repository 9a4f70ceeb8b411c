"""Reads lines that a person types: every prompt of every command goes through `read_line`.

While a command works, the terminal keeps and echoes what the person types. That text was not meant
as an answer to a question that appears later, so `forget_typed` discards it before a prompt.

How a prompt ends when its question is closed elsewhere: a timer signal interrupts the read, and its
handler raises QuestionClosed. `input` restores the terminal then, as it does at Ctrl-C. The timer
also delivers a Ctrl-C that came just before the read started, which Python otherwise notices only
with the next key. Relies on: the main thread reads, and the system delivers a signal of the process
to its main thread. If that fails, the prompt stays until Enter, and the answer is refused.

Rejected: prompt_toolkit (two packages more, and a second event loop in the main thread) and reading
bytes with os.read (a line editor of our own).

Proof: tests/cli/terminal/test_keyboard.py, tests/cli/terminal/test_line_editor.py.
"""

import io
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from penstock.cli.terminal.output import note
from penstock.core.errors import QuestionClosed
from penstock.core.json_values.json_text import without_surrogates
from penstock.core.late import late

POLL_SECONDS = 0.5
"""How often a prompt checks whether its question is still open: one query each time."""
STDOUT, STDERR = 1, 2
IsOver = Callable[[], bool]
"""Whether the line is not needed any more, because its question is closed."""
Complete = Callable[[str], Sequence[str]]
"""Returns the completions that Tab offers for the line up to the cursor."""


def never() -> bool:
    """Return that a prompt has no reason to end by itself."""
    return False


def nothing(_line: str) -> Sequence[str]:
    """Return no completions."""
    return ()


def forget_typed() -> None:
    """Discard typed text that was not read yet. Does nothing if stdin is not a terminal."""
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def read_line(
    prompt: str,
    *,
    complete: Complete = nothing,
    draft: str = "",
    is_over: IsOver = never,
    poll_seconds: float = POLL_SECONDS,
) -> str:
    """Show a prompt and return the typed line, which starts with the draft.

    The prompt is never part of a command's output: it goes to the terminal, else to stderr. Without
    a terminal there is no completion, and the prompt shows the draft. Raises EOFError at Ctrl-D,
    KeyboardInterrupt at Ctrl-C, and QuestionClosed once `is_over`, called every `poll_seconds`,
    returns True. Call it in the main thread.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    with _ended_by(is_over, poll_seconds):
        if not _is_terminal():
            return _plain_line(prompt, draft)
        with _prompt_on_terminal():
            try:
                edit_line = late("penstock.cli.terminal.line_editor:edit_line")
            except ModuleNotFoundError:  # this Python was built without readline
                return _plain_line(prompt, draft)
            try:
                return without_surrogates(edit_line(prompt, complete, draft))
            except SystemError as error:
                # CPython runs the timer's handler although the one of Ctrl-C has raised, and
                # reports that as a SystemError. The first exception is its cause.
                raise error.__cause__ or error from None


def _is_terminal() -> bool:
    """Whether `input` edits lines: only if stdin and stdout are those of the process."""
    try:
        is_own = (sys.stdin.fileno(), sys.stdout.fileno()) == (0, STDOUT)
    except (OSError, ValueError):
        return False
    return is_own and os.isatty(0) and (os.isatty(STDOUT) or os.isatty(STDERR))


@contextmanager
def _prompt_on_terminal() -> Iterator[None]:
    """Point stdout at the terminal of stderr while stdout itself goes to a file or a pipe."""
    sys.stdout.flush()
    if os.isatty(STDOUT):
        yield
        return
    output = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, STDOUT)
        os.close(output)


def _plain_line(prompt: str, draft: str) -> str:
    note(f"{prompt}(Enter keeps {draft}) " if draft else prompt, end="")
    if not (line := sys.stdin.readline()):
        raise EOFError
    return line.rstrip("\r\n")


@contextmanager
def _ended_by(is_over: IsOver, poll_seconds: float) -> Iterator[None]:
    """Raise QuestionClosed in the block once `is_over` returns True."""

    def poll(number: int, frame: FrameType | None) -> None:
        if is_over():
            note("")
            raise QuestionClosed("the question was answered elsewhere, or withdrawn")
        # Armed again only after the check, which may take longer than the interval: a periodic
        # timer would interrupt its own handler.
        signal.setitimer(signal.ITIMER_REAL, poll_seconds)

    before = signal.signal(signal.SIGALRM, poll)
    armed = signal.setitimer(signal.ITIMER_REAL, poll_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *armed)
