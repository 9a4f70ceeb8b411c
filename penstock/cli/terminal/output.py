"""What goes to stdout and what to stderr: the one door by which text reaches a terminal.

Tools, models, files and other processes wrote most of what is shown. Nothing that passes here
steers the terminal: `say`, `note` and log lines lose such characters, JSON has them escaped.
"""

import logging
import sys
from typing import Any

from penstock.cli.terminal.plain import clean, compact


def say(text: str = "", *, end: str = "\n") -> None:
    """Print text on stdout, at once."""
    print(clean(text), end=end, flush=True)


def print_json(value: Any) -> None:
    """Print one JSON value on one line of stdout, at once; lone surrogates become U+FFFD."""
    print(compact(value), flush=True)


def note(text: str, *, end: str = "\n") -> None:
    """Say something to the person on stderr, beside the output."""
    print(clean(text), end=end, file=sys.stderr, flush=True)


class CleanFormatter(logging.Formatter):
    """Formats log lines, whose errors may hold what a tool or a provider said."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without what could steer a terminal."""
        return clean(super().format(record))


def clean_logs() -> None:
    """Let log lines that no program handles reach stderr clean."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(CleanFormatter())
