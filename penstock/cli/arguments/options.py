"""Options that several commands share."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.app.sections import Engine
from penstock.cli.arguments.completion import skills

FOLDER_HELP = "The project folder. Default: this folder or the nearest parent that is one."
ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", "-p", metavar="FOLDER", help=FOLDER_HELP),
]
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help=FOLDER_HELP),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout; notes go to stderr.")]
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
