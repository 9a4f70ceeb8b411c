"""JSON values on the command line: as text, from a file (`@FILE`), or from stdin (`-`)."""

import sys
from pathlib import Path
from typing import Any

import typer

from penstock.core.json_values.json_text import parse_json
from penstock.core.json_values.schema import json_type

EXAMPLE = """'{"name": "Ann"}'"""
"""With the outer quotes, without which a shell removes the inner ones."""


def read_object(given: str | None, option: str) -> dict[str, Any]:
    """Return the object that an option names: JSON, @FILE, or - for stdin; `{}` if it is absent."""
    if given is None:
        return {}
    value = read_value(given, option)
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{option} must be a JSON object, found {json_type(value)}")
    return value


def read_value(given: str, option: str) -> Any:
    """Return the value that an option names: JSON, @FILE, or - for stdin."""
    text = _text(given, option)
    try:
        value = parse_json(text)
    except ValueError as error:
        shown = "" if text is not given else f"; write it in quotes: {option} {EXAMPLE}"
        raise typer.BadParameter(f"{option} must be JSON: {error}{shown}") from None
    except RecursionError:
        raise typer.BadParameter(f"{option} is too deeply nested JSON") from None
    return value


def _text(given: str, option: str) -> str:
    if given != "-" and not given.startswith("@"):
        return given
    try:
        return sys.stdin.read() if given == "-" else Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        where = "stdin" if given == "-" else given[1:]
        raise typer.BadParameter(f"{option} cannot read {where}: {error}") from None
