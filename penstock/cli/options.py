"""Options that several commands share, and JSON values: as text, from a file or from stdin."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.app.settings_sections import Engine
from penstock.cli.completion import skills
from penstock.core.json_values.json_text import parse_json
from penstock.core.json_values.schema import json_type

FOLDER_HELP = "The project folder. Default: this folder or the nearest parent that is one."
ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", "-p", metavar="FOLDER", help=FOLDER_HELP),
]
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help=FOLDER_HELP),
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Maximum number of rows.")]
SkillNames = Annotated[
    list[str] | None,
    typer.Option(
        "--skill",
        metavar="ID",
        help="Select this skill; repeatable.",
        autocompletion=skills,
    ),
]
ToolInput = Annotated[
    str | None,
    typer.Option("--input", "-i", metavar="JSON", help="The input: JSON, @FILE, or - for stdin."),
]
EngineName = Annotated[
    Engine | None,
    typer.Option("--engine", help="Run all scripts in this engine, whatever manifests specify."),
]


def taking(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a command's options as the fields of a struct or dataclass.

    typer reads the signature of a function. This gives the command the signature of `options` and
    calls it with one value, so that commands with many options keep few parameters.
    """

    def wrap(act: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            act(options(**given))

        command.__doc__ = act.__doc__
        command.__dict__["__signature__"] = inspect.signature(options)
        command.__annotations__ = inspect.get_annotations(options)
        return command

    return wrap


EXAMPLE = """'{"name": "Ann"}'"""
"""With the outer quotes, without which a shell removes the inner ones."""


def read_object(text: str | None, option: str) -> dict[str, Any]:
    """Return the object that an option names: JSON, @FILE, or - for stdin; `{}` if it is absent."""
    if text is None:
        return {}
    value = read_value(text, option)
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{option} must be a JSON object, found {json_type(value)}")
    return value


def read_value(argument: str, option: str) -> Any:
    """Return the value that an option names: JSON, @FILE, or - for stdin."""
    text = _text(argument, option)
    try:
        value = parse_json(text)
    except ValueError as error:
        shown = "" if text is not argument else f"; write it in quotes: {option} {EXAMPLE}"
        raise typer.BadParameter(f"{option} must be JSON: {error}{shown}") from None
    except RecursionError:
        raise typer.BadParameter(f"{option} is too deeply nested JSON") from None
    return value


def _text(argument: str, option: str) -> str:
    if argument != "-" and not argument.startswith("@"):
        return argument
    try:
        return (
            sys.stdin.read() if argument == "-" else Path(argument[1:]).read_text(encoding="utf-8")
        )
    except (OSError, UnicodeDecodeError) as error:
        where = "stdin" if argument == "-" else argument[1:]
        raise typer.BadParameter(f"{option} cannot read {where}: {error}") from None
