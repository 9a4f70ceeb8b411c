"""What a person types at a terminal: whole lines, and nothing that was typed before the question.

While a command works, the terminal keeps and echoes what is typed. A question that appeared then
would be answered by words that were meant for something else, so they are discarded first.
"""

import os
import select
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

from penstock.cli.terminal.output import note
from penstock.core.errors import QuestionClosed

LOOK_SECONDS = 0.5
"""How often a prompt looks whether its question still waits."""


def never() -> bool:
    """Say that a question waits for as long as it takes."""
    return False


def forget_typed() -> None:
    """Discard what was typed so far and not read; where there is no terminal nothing happens."""
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def read_line(prompt: str, is_over: Callable[[], bool] = never) -> str:
    """Show a prompt on stderr and return the line that the person types.

    Raises EOFError at Ctrl-D, and QuestionClosed once `is_over` says that nobody waits for the
    line any more.
    """
    if not sys.stdin.isatty():
        return input(prompt)
    note(prompt, end="")
    keyboard, typed = sys.stdin.fileno(), b""
    while not typed.endswith(b"\n"):
        if not select.select([keyboard], [], [], LOOK_SECONDS)[0]:
            if is_over():
                note("")
                raise QuestionClosed("the question was answered elsewhere, or withdrawn")
        elif piece := os.read(keyboard, 1 << 12):
            typed += piece
        elif typed:
            break  # Ctrl-D behind some words ends the line
        else:
            raise EOFError
    return typed.decode(errors="replace").rstrip("\r\n")
