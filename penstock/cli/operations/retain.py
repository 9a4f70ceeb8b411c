"""`penstock retain` and `penstock compact`: delete what is old, and give its space back."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from penstock.app.settings import Settings
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import SystemClock, to_iso
from penstock.core.errors import ConfigError, StoreLocked
from penstock.core.limits import MIB
from penstock.core.text import count
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.erasure import Erasure
from penstock.store.upkeep.retention import Retention
from penstock.store.upkeep.rules import OldLog
from penstock.store.upkeep.space import FAST, Space, give_back, space_of

Value = TypeVar("Value")
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List what would be deleted; delete nothing.")
]
Rewrite = Annotated[
    bool,
    typer.Option(
        "--rewrite", help="Rewrite the whole file once; other writers wait about 10 ms per MiB."
    ),
]
_MOST_LISTED = 50
_NO_RULES = """there are no rules, so everything is kept. Write some into penstock.toml:

[[retention.rules]]
of = "conversations"
days = 90"""


def retain(
    *, dry_run: DryRun = False, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Delete what the rules of [retention] match: a server does the same every hour.

    Nothing that is open is deleted: running, waiting, or asked.
    """
    settings = read_settings(project)
    plan = settings.retention.plan
    if not plan.rules:
        raise ConfigError(_NO_RULES)

    async def work(database: Database, blobs: Blobs) -> list[OldLog]:
        clock = SystemClock()
        erasure = Erasure(database, blobs, clock)
        retention = Retention(database, erasure, clock, plan.rules)
        if dry_run:
            return [each async for each in retention.due()]
        deleted, since_pause = list[OldLog](), 0
        async for some in retention.steps(plan.step):
            deleted += some
            since_pause += len(some)
            if since_pause >= plan.step:
                await clock.sleep(plan.pause_seconds)
                since_pause = 0
        if deleted:
            await erasure.finish()
        return deleted

    found = _with_store(settings, work)
    if as_json:
        print_json({"dryRun": dry_run, "logs": [_part(each) for each in found]})
        return
    if dry_run:
        rows = [_row(each) for each in found[:_MOST_LISTED]]
        print_table(("log", "kind", "agent", "newest event", "ended"), rows)
        if len(found) > _MOST_LISTED:
            note(f"{len(found) - _MOST_LISTED} more; --json lists all")
    counts = Counter(each.of for each in found)
    parts = [count(number, of.removesuffix("s")) for of, number in sorted(counts.items())]
    listed = ", ".join(parts) or "nothing"
    say(f"{'would delete' if dry_run else 'deleted'} {listed}")


def compact(
    *, rewrite: Rewrite = False, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Give the space of deleted rows back to the disk, in small steps while a server runs.

    A database that an older penstock created needs --rewrite once.
    """
    settings = read_settings(project)

    async def work(database: Database, blobs: Blobs) -> tuple[Space, Space]:
        before = await space_of(database)
        if before is None:
            raise ConfigError(
                f"{settings.database_shown} is not a file of SQLite. Postgres gives space back by"
                " itself (VACUUM)"
            )
        if rewrite and not await database.rewrite():
            raise StoreLocked("another process reads the database; try again")
        if not rewrite and not before.is_incremental:
            seconds = before.pages * before.page_bytes // MIB // 100 + 1
            raise ConfigError(
                "this database was created by an older penstock, and cannot be made smaller in"
                f" steps. Rewrite it once, which takes about {seconds} s and blocks other"
                " writers: penstock compact --rewrite"
            )
        await give_back(database, SystemClock(), FAST)
        return before, await space_of(database) or before

    before, after = _with_store(settings, work)
    sizes = [each.pages * each.page_bytes for each in (before, after)]
    if as_json:
        print_json({"before": sizes[0], "after": sizes[1], "incremental": after.is_incremental})
    else:
        say(f"{sizes[0] / MIB:,.1f} MiB before, {sizes[1] / MIB:,.1f} MiB now")


def _with_store(settings: Settings, work: Callable[[Database, Blobs], Awaitable[Value]]) -> Value:
    async def whole() -> Value:
        database = await open_database(
            settings.database, synchronous=settings.synchronous, limits=settings.limits
        )
        try:
            return await work(database, open_blobs(settings.blob_place))
        finally:
            await database.close()

    return asyncio.run(whole())


def _part(log: OldLog) -> dict[str, Any]:
    return {
        "log": log.log_id,
        "kind": log.of,
        "agent": log.agent,
        "newestEvent": to_iso(log.at),
        "statuses": sorted(log.status),
    }


def _row(log: OldLog) -> tuple[str, ...]:
    ended = ", ".join(sorted(log.status))
    return log.log_id, log.of, log.agent, when(log.at) or "", ended
