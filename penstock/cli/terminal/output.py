"""Writes to stdout and stderr. All text that a command prints goes through this file.

Guarantees that printed text cannot control the terminal. Most of it comes from tools, models, files
and other processes, and an escape sequence in it could change the screen, the title or the
clipboard. `say`, `note` and log lines replace such characters; JSON has them escaped.

Ruff's T201 forbids `print` in every other file. Proof: tests/cli/terminal/test_output.py.
"""

import logging
import sys
from typing import Any

from penstock.cli.terminal.plain import clean, compact


def say(text: str = "", *, end: str = "\n") -> None:
    """Print clean text on stdout and flush it."""
    print(clean(text), end=end, flush=True)


def print_json(value: Any) -> None:
    """Print a JSON value as one line on stdout and flush it. Lone surrogates become U+FFFD."""
    print(compact(value), flush=True)


def note(text: str, *, end: str = "\n") -> None:
    """Print a message for the person on stderr, so that stdout has only the output."""
    print(clean(text), end=end, file=sys.stderr, flush=True)


class CleanFormatter(logging.Formatter):
    """Formats log lines without control characters. Their errors may quote a tool or a provider."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the clean line."""
        return clean(super().format(record))


def clean_logs() -> None:
    """Clean the log lines that Python writes to stderr when no handler is configured."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(CleanFormatter())
