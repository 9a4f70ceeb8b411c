"""JSON that a person gives on the command line: as text, in a file, or on stdin."""

import json
import sys
from pathlib import Path
from typing import Any

import typer

from penstock.core.schema import json_type


def read_object(given: str | None, option: str) -> dict[str, Any]:
    """Return the object that an option names: JSON, @FILE, or - for stdin; `{}` if it is absent."""
    if given is None:
        return {}
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{option} cannot read {given[1:]}: {error}") from None
    else:
        text = given
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{option} must be a JSON object, found {json_type(value)}")
    return value
