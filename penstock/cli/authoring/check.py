"""Reports the errors and warnings in a project's files without running the project."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from penstock.app.agent_warnings import check_offers
from penstock.app.flows import check_flows
from penstock.app.project import FurtherCheck, ProjectCheck, check_project
from penstock.app.reload import SECONDS, FileId, file_stamps
from penstock.app.settings_sections import Engine, in_engine
from penstock.cli.options import EngineName, Folder, ProjectFolder, Strict, taking
from penstock.cli.project import read_settings
from penstock.cli.terminal.exit_codes import FAILED, FINE, INTERRUPTED, WRONG_USAGE
from penstock.cli.terminal.output import clean, note, print_json, say
from penstock.cli.terminal.positions import in_utf16
from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.late import late
from penstock.core.text import count

ForPrograms = Annotated[
    bool | None,
    typer.Option("--json/--github", help="Print JSON, or annotations for GitHub Actions."),
]
Types = Annotated[
    bool, typer.Option("--types", help="Also type-check scripts; needs penstock[deno].")
]
Utf16 = Annotated[
    bool, typer.Option("--utf16", help="Count columns in UTF-16 units, as some editors do.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Check again whenever a file changes.")]
OUTPUTS = (1, 2)
"""Descriptors of stdout and stderr."""


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock check`."""

    path: Folder = None
    project: ProjectFolder = None
    strict: Strict = False
    types: Types = False
    engine: EngineName = None
    watch: Watch = False
    utf16: Utf16 = False
    as_json: ForPrograms = None


@taking(Options)
def check(options: Options) -> None:
    """Report all errors and warnings in the project's files.

    Needs no API keys, no network and no database. Exit code 1 if there is an error.
    """
    folder, as_json = options.path or options.project, options.as_json
    again: Callable[[], ProjectCheck] = partial(
        _check_folder, folder, _further(types=options.types), options.engine
    )
    if options.utf16:
        again = partial(_check_in_utf16, folder, again)
    result = again()
    show(result, as_json=as_json)
    if options.watch:
        pause = partial(threading.Event().wait, SECONDS)
        for result in checks_after_changes(folder, pause, again):
            show(result, as_json=as_json)
        raise typer.Exit(INTERRUPTED)
    is_wrong = result.errors or (options.strict and result.warnings)
    raise typer.Exit(FAILED if is_wrong else FINE)


def checks_after_changes(
    folder: Path | None,
    pause: Callable[[], object],
    again: Callable[[], ProjectCheck] | None = None,
) -> Iterator[ProjectCheck]:
    """Yield a check after every change until Ctrl-C. Reports invalid settings on stderr."""
    changed = changes(read_settings(folder).root, pause)
    while True:
        try:
            next(changed)
            yield again() if again else _check_folder(folder)
        except KeyboardInterrupt:
            return
        except PenstockError as error:
            note(f"Error: {error}")


def show(result: ProjectCheck, *, as_json: bool | None) -> None:
    """Print findings and their counts: as JSON (True), for GitHub (False), or as text (None)."""
    if as_json:
        print_json(to_wire(result))
        return
    for diagnostic in result.diagnostics:
        say(annotation(diagnostic) if as_json is False else str(diagnostic))
    counts = {
        "tool": result.tools,
        "skill": result.skills,
        "flow": result.flows,
        "error": result.errors,
        "warning": result.warnings,
    }
    say(", ".join(count(number, noun) for noun, number in counts.items()))


def to_wire(result: ProjectCheck) -> dict[str, Any]:
    """Return a check as JSON."""
    return {
        "problems": [each.to_wire() for each in result.diagnostics],
        "tools": result.tools,
        "skills": result.skills,
        "flows": result.flows,
        "errors": result.errors,
        "warnings": result.warnings,
    }


def annotation(diagnostic: Diagnostic) -> str:
    """Return a finding as a GitHub Actions workflow command, which GitHub shows at the line."""
    wire = diagnostic.to_wire()
    place = {
        "file": diagnostic.file,
        "line": diagnostic.line,
        "col": diagnostic.column,
        "endLine": wire["end_line"],
        "endColumn": wire["end_column"],
        "title": diagnostic.code,
    }
    shown = ",".join(f"{name}={_escaped(clean(str(value)), ',:')}" for name, value in place.items())
    return f"::{diagnostic.severity} {shown}::{_escaped(clean(diagnostic.text))}"


def changes(
    root: Path, pause: Callable[[], object], outputs: Sequence[int] = OUTPUTS
) -> Iterator[None]:
    """Yield whenever files of a project were changed, added or removed.

    Files that this command writes to (`penstock check --watch > report.txt`) are left out, because
    each report would trigger the next one.
    """
    own = frozenset(_file_ids(outputs))
    before = file_stamps(root, excluded=own)
    while True:
        pause()
        now = file_stamps(root, excluded=own)
        if now != before:
            before = now
            yield


def _file_ids(descriptors: Iterable[int]) -> Iterator[FileId]:
    for descriptor in descriptors:
        with suppress(OSError):  # the descriptor is closed
            status = os.fstat(descriptor)
            yield status.st_dev, status.st_ino


def _further(*, types: bool) -> tuple[FurtherCheck, ...]:
    """Return the checks that need an optional package. Exits with 2 if it is not installed."""
    if not types:
        return ()
    try:
        return (
            late("penstock.app.script_types.type_check:check_types", extra="deno", what="--types"),
        )
    except ConfigError as error:
        note(f"Error: {error}")
        raise typer.Exit(WRONG_USAGE) from None


def _check_folder(
    folder: Path | None, further: Sequence[FurtherCheck] = (), engine: Engine | None = None
) -> ProjectCheck:
    settings = read_settings(folder, **in_engine(engine))
    return check_project(
        settings,
        partial(check_flows, settings),
        partial(check_offers, settings),
        *further,
        engine=engine,
    )


def _check_in_utf16(folder: Path | None, again: Callable[[], ProjectCheck]) -> ProjectCheck:
    return in_utf16(again(), read_settings(folder).root)


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
