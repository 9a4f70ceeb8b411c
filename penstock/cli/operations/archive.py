"""`penstock archive`: move old bodies of long logs into compressed blobs."""

import asyncio
from typing import Annotated

import typer
from msgspec import to_builtins

from penstock.app.settings import Settings
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, print_json, say
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.limits import MIB
from penstock.core.text import count
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.archive import Archive, ArchivedPart, before_days

Days = Annotated[
    float | None,
    typer.Option("--days", min=0, help="The age of the events; usually limits.archive_days."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be archived; store nothing.")
]


def archive(
    *,
    days: Days = None,
    dry_run: DryRun = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Move old bodies of long logs into compressed blobs; nothing else changes.

    A server does the same every hour if limits.archive_days is set. Every history, stream and
    export reads archived events like others, and an erasure deletes them.
    """
    settings = read_settings(project)
    age = settings.limits.archive_days if days is None else days
    if days is None and not age:
        raise ConfigError(
            "there is no age from which on events are archived. Name one, as in `penstock archive "
            "--days 90`, or set archive_days under [limits] in penstock.toml"
        )
    parts = asyncio.run(_archived(settings, age, dry_run=dry_run))
    if as_json:
        print_json({"dryRun": dry_run, "parts": to_builtins(parts)})
        return
    before, after = sum(each.before for each in parts), sum(each.after for each in parts)
    logs, events = len({each.log_id for each in parts}), sum(each.events for each in parts)
    say(
        f"{'would archive' if dry_run else 'archived'} {count(events, 'event')} of "
        f"{count(logs, 'log')}: {before / MIB:,.1f} MiB as {after / MIB:,.1f} MiB"
    )


async def _archived(settings: Settings, days: float, *, dry_run: bool) -> list[ArchivedPart]:
    clock = SystemClock()
    database = await open_database(
        settings.database, synchronous=settings.synchronous, limits=settings.limits
    )
    try:
        blobs = open_blobs(settings.blob_place)
        steps = Archive(database, blobs, clock).steps(before_days(clock, days), dry_run=dry_run)
        parts = [part async for part in steps]
        await Erasure(database, blobs, clock).finish()
    finally:
        await database.close()
    return parts
