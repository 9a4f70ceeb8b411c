"""Writes TypeScript declarations of what scripts can use, for editors and type checkers."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.app.script_types.typings import TypingFile, typing_files
from penstock.cli.options import Folder, ProjectFolder
from penstock.cli.project import find, print_findings
from penstock.cli.terminal.exit_codes import FAILED
from penstock.cli.terminal.output import AsJson, note, print_json, say

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write all declarations into this one file."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit with 1 if a file is stale.")
]


def types(
    path: Folder = None,
    *,
    out: Out = None,
    check: Check = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write flo.d.ts into each folder with manifests.

    It declares `flo`, the globals, and the inputs and outputs of all tools that scripts may call.
    """
    read = find(path or project).project
    print_findings(read)
    files = typing_files(read, out)
    stale = [each for each in files if each.is_stale]
    if not check:
        for file in stale:
            file.write()
    if as_json:
        print_json({"files": [_part(each, stale) for each in files]})
    else:
        for file in stale:
            say(f"  {file.path}")
        done = "stale; run `penstock types` to write them" if check else "written"
        note(f"{len(stale)} of {len(files)} files {done}")
    if check and stale:
        raise typer.Exit(FAILED)


def _part(file: TypingFile, stale: list[TypingFile]) -> dict[str, object]:
    return {"path": str(file.path), "stale": file in stale}
