"""Options that several commands take."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.app.sections import Engine
from penstock.cli.arguments.completion import skills

FOLDER_HELP = "The project's folder; else the nearest one upwards."
ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", "-p", metavar="FOLDER", help=FOLDER_HELP),
]
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help=FOLDER_HELP),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; notes go to stderr.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Show at most so many.")]
SkillNames = Annotated[
    list[str] | None,
    typer.Option(
        "--skill",
        metavar="ID",
        help="Select this skill; may be repeated.",
        autocompletion=skills,
    ),
]
ToolInput = Annotated[
    str | None,
    typer.Option("--input", "-i", metavar="JSON", help="Its input: JSON, @FILE, or - for stdin."),
]
EngineName = Annotated[
    Engine | None,
    typer.Option("--engine", help="The engine for every script, whatever its manifest asks for."),
]


def taking(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take the fields of a dataclass as its options, and hand them over as one."""

    def wrap(act: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            act(options(**given))

        command.__doc__ = act.__doc__
        command.__dict__["__signature__"] = inspect.signature(options)
        command.__annotations__ = inspect.get_annotations(options)
        return command

    return wrap
