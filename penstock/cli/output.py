"""What goes to stdout and what to stderr."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Print one JSON value on one line of stdout, at once."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def note(text: str) -> None:
    """Say something to the person, beside the output."""
    print(text, file=sys.stderr, flush=True)
