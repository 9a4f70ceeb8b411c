"""`penstock move`: from SQLite to Postgres, or back."""

import asyncio
from typing import Annotated

import typer
from msgspec import to_builtins

from penstock.cli.operations.backup import shown_progress
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.core.clock import SystemClock
from penstock.core.text import count
from penstock.store.blobs import open_blobs
from penstock.store.upkeep.backup_folder import Progress as Report
from penstock.store.upkeep.moving import Moved, abandon, open_move

To = Annotated[
    str | None,
    typer.Option("--to", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/NAME."),
]
BlobPlace = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        metavar="PLACE",
        help="Copy the blobs there, too: a folder or s3://BUCKET/PREFIX.",
    ),
]
Abort = Annotated[
    bool, typer.Option("--abort", help="End a move that was killed: the project is as before.")
]


def move(
    to: To = None,
    *,
    blobs: BlobPlace = None,
    abort: Abort = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Copy the whole database to another one, verify the copy, and close the old one.

    The target must be empty, and no other process may use either. Then set database_url.
    """
    if (to is None) != abort:
        raise typer.BadParameter("name either --to URL or --abort")
    settings = read_settings(project)
    if to is None:
        had_mark = asyncio.run(abandon(settings.database))
        text = "the move was ended; the project is as before" if had_mark else "no move to end"
        if as_json:
            print_json({"aborted": had_mark})
        else:
            say(text)
        return
    url = to

    async def work(report: Report) -> Moved:
        moving, databases = await open_move(settings.database, url, SystemClock(), report)
        try:
            place = None if blobs is None else open_blobs(blobs)
            return await moving.run(open_blobs(settings.blob_place), place)
        finally:
            for database in databases:
                await database.close()

    with shown_progress() as report:
        moved = asyncio.run(work(report))
    if as_json:
        print_json(to_builtins(moved))
    else:
        rows = count(sum(moved.rows.values()), "row")
        say(f"moved {rows} and {count(moved.blobs, 'blob')} to {moved.target}, verified")
    note(
        "Now set database_url in penstock.toml, or PENSTOCK_DATABASE_URL, to the new address"
        + ("." if blobs is None else f", and blobs to {blobs}.")
    )
