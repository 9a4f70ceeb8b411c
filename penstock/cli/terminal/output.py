"""Writes to stdout and stderr. All text that a command prints goes through this file.

Guarantees that printed text cannot control the terminal, and that no line imitates penstock. Most
text comes from tools, models, files and other processes, and an escape sequence in it could change
the screen, the title or the clipboard. `say`, `note` and log lines replace such characters; JSON
has them escaped. These are the C0 and C1 control characters except tab and line feed, and the
bidirectional overrides U+202A-U+202E and U+2066-U+2069, which can make a line read differently from
what it is. With `hanging`, each line after the first starts with a bar, so a tool's output cannot
pass for a prompt of penstock.

Ruff's T201 forbids `print` in every other file. Proof: tests/cli/terminal/test_output.py.
"""

import json
import logging
import re
import shlex
import sys
from typing import Annotated, Any

import typer

from penstock.core.json_values.json_text import without_surrogates

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout; notes go to stderr.")]
BAR = "  │ "
"""Prefix of each further line of text that penstock did not write."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return the text with U+FFFD for control characters and lone surrogates."""
    return _CONTROL.sub("\ufffd", without_surrogates(text).replace("\r\n", "\n"))


def hanging(text: str) -> str:
    """Return clean text whose further lines start with a bar."""
    return clean(text).replace("\n", f"\n{BAR}")


def is_plain(text: str) -> bool:
    """Whether a text is one line without control characters, so that it can be pasted."""
    return bool(text) and "\n" not in text and clean(text) == text


def pasted(*words: str) -> str:
    """Return the words as one command line, quoted for a shell."""
    return shlex.join(words)


def compact(value: Any) -> str:
    """Return a value as short JSON."""
    return _escaped(json.dumps(value, ensure_ascii=False))


def pretty(value: Any) -> str:
    """Return a value as JSON of several lines."""
    return _escaped(json.dumps(value, ensure_ascii=False, indent=2))


def _escaped(text: str) -> str:
    """Escape control characters in JSON. json.dumps escapes only those below U+0020."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", without_surrogates(text))


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
