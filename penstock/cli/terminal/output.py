"""What goes to stdout and what to stderr."""

import json
import sys
from typing import Any

from penstock.core.canonical import without_surrogates


def print_json(value: Any) -> None:
    """Print one JSON value on one line of stdout, at once; lone surrogates become U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    print(without_surrogates(text), flush=True)


def note(text: str) -> None:
    """Say something to the person, beside the output."""
    print(text, file=sys.stderr, flush=True)
