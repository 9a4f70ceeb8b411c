"""Options that several commands take."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.app.sections import Engine

ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", "-p", help="The project's folder; else found from here upwards."),
]
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="PATH", help="The project's folder; else found from here upwards."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; notes go to stderr.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="At most as many.")]
EngineName = Annotated[
    Engine | None,
    typer.Option("--engine", help="Where every script runs, whatever it wishes for."),
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
