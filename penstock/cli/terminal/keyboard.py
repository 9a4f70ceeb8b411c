"""What a person types at a terminal: the one door for every line that a command asks for.

While a command works, the terminal keeps and echoes what is typed. A question that appeared then
would be answered by words that were meant for something else, so they are discarded first.

How a prompt ends when its question is closed elsewhere: a timer signal interrupts the read, and its
handler raises QuestionClosed. `input` restores the terminal then, as it does at Ctrl-C. The timer
also delivers a Ctrl-C that came just before the read began, which Python otherwise notices only
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
from penstock.core.json_values.canonical import without_surrogates
from penstock.core.late import late

LOOK_SECONDS = 0.5
"""How often a prompt looks whether its question still waits."""
STDOUT, STDERR = 1, 2
IsOver = Callable[[], bool]
"""Whether nobody waits for the line any more."""
Complete = Callable[[str], Sequence[str]]
"""Returns what Tab may make of a line, given as far as the cursor."""


def never() -> bool:
    """Say that a question waits for as long as it takes."""
    return False


def nothing(_line: str) -> Sequence[str]:
    """Complete nothing."""
    return ()


def forget_typed() -> None:
    """Discard what was typed so far and not read; where there is no terminal nothing happens."""
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def read_line(
    prompt: str,
    *,
    complete: Complete = nothing,
    draft: str = "",
    is_over: IsOver = never,
) -> str:
    """Show a prompt and return the line that the person types, which begins with the draft.

    The prompt is never part of a command's output: it goes to the terminal, else to stderr. Without
    a terminal nothing is completed, and the prompt names the draft. Raises EOFError at Ctrl-D,
    KeyboardInterrupt at Ctrl-C, and QuestionClosed once `is_over` returns True. Call it in the main
    thread.
    """
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    with _ended_by(is_over):
        if not _is_terminal():
            return _plain_line(prompt, draft)
        with _prompt_on_terminal():
            try:
                edit_line = late("penstock.cli.terminal.line_editor:edit_line")
            except ModuleNotFoundError:  # Python was built without readline
                return _plain_line(prompt, draft)
            try:
                return without_surrogates(edit_line(prompt, complete, draft))
            except SystemError as error:
                # CPython runs the timer's handler although that of Ctrl-C has raised, and
                # complains; what was raised first is the cause.
                raise error.__cause__ or error from None


def _is_terminal() -> bool:
    """Whether `input` would edit lines: it does with the terminal of the process alone."""
    try:
        is_own = (sys.stdin.fileno(), sys.stdout.fileno()) == (0, STDOUT)
    except (OSError, ValueError):
        return False
    return is_own and os.isatty(0) and (os.isatty(STDOUT) or os.isatty(STDERR))


@contextmanager
def _prompt_on_terminal() -> Iterator[None]:
    """Let stdout be the terminal that stderr is, while something else reads the output."""
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
def _ended_by(is_over: IsOver) -> Iterator[None]:
    """Raise QuestionClosed in the block once this is so."""

    def look(number: int, frame: FrameType | None) -> None:
        if is_over():
            note("")
            raise QuestionClosed("the question was answered elsewhere, or withdrawn")
        # Armed again only now: a look may take longer than the pause.
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS)

    before = signal.signal(signal.SIGALRM, look)
    armed = signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *armed)
