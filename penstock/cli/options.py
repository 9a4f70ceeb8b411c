"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", "-p", help="The project's folder; else found from here upwards."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; notes go to stderr.")
]
