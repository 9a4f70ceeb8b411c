"""`penstock backup` and `penstock restore`: copies of a project's database and blobs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.exit_codes import FAILED
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.core.clock import SystemClock
from penstock.core.limits import MIB
from penstock.core.text import count
from penstock.store.blobs import open_blobs
from penstock.store.upkeep.backup import BackupWriter, open_unprepared
from penstock.store.upkeep.backup_folder import Backup
from penstock.store.upkeep.backup_folder import Progress as Report
from penstock.store.upkeep.restore import restore as restore_backup
from penstock.store.upkeep.restore import target_of

NewFolder = Annotated[
    Path, typer.Argument(metavar="PATH", help="The folder of the backup; it must not exist.")
]
OldFolder = Annotated[Path, typer.Argument(metavar="PATH", help="The folder of a backup.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the existing database of the project.")
]
_MOST_NAMED = 5


def backup(path: NewFolder, *, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Copy the database and the blobs into a folder, also while a server uses them.

    The copy is one moment of the database, and is verified. The key of the vault is not in it.
    Exit code 1 if anything in the project was already lost or contradictory.
    """
    settings = read_settings(project)

    async def work(report: Report) -> Backup:
        database, blobs = await open_unprepared(
            settings.database, settings.blob_place, settings.limits
        )
        try:
            writer = BackupWriter(
                database, blobs, SystemClock(), progress=report, version=version("penstock")
            )
            return await writer.write(path.resolve())
        finally:
            await database.close()

    with shown_progress() as report:
        made = asyncio.run(work(report))
    _print("backed up", made, path, as_json=as_json)
    if made.secrets:
        note(
            f"{count(made.secrets, 'secret')} of the vault stay encrypted: keep their key"
            f" (PENSTOCK_SECRET_KEY, or {settings.data_path / 'secret.key'}) in another place."
        )
    lost = [f"blob {each} was lost before" for each in made.missing]
    if wrong := [*lost, *made.problems]:
        for each in wrong[:_MOST_NAMED]:
            note(f"Warning: {each}")
        if len(wrong) > _MOST_NAMED:
            note(f"Warning: {len(wrong) - _MOST_NAMED} more; they are in {path / 'backup.json'}")
        note("The backup is complete but for this. `penstock doctor` checks the project.")
        raise typer.Exit(FAILED)


def restore(
    path: OldFolder,
    *,
    force: Force = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the project's database and blobs.

    Every byte is verified first. Unfinished tasks of the backup continue when a server starts.
    """
    settings = read_settings(project)

    async def work(report: Report) -> Backup:
        target = target_of(settings.database, open_blobs(settings.blob_place))
        return await restore_backup(path.resolve(), target, is_forced=force, progress=report)

    with shown_progress() as report:
        made = asyncio.run(work(report))
    _print("restored", made, path, as_json=as_json)
    if made.secrets:
        note(
            f"{count(made.secrets, 'secret')} of the vault need the key that they were encrypted"
            f" with, as PENSTOCK_SECRET_KEY or in {settings.data_path / 'secret.key'}."
        )


def _print(done: str, made: Backup, path: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(path.resolve()), **to_builtins(made)})
        return
    sizes = f"{count(made.logs, 'log')}, {count(made.events, 'event')}, {count(made.blobs, 'blob')}"
    say(f"{done} {path}: {sizes}, {made.bytes / MIB:,.1f} MiB, verified ({made.made_at})")


@contextmanager
def shown_progress(console: Console | None = None) -> Iterator[Report]:
    """Return a function that shows progress in a terminal, and nothing elsewhere."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda what, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        rows = dict[str, TaskID]()

        def report(what: str, done: int, total: int) -> None:
            if what not in rows:
                rows[what] = shown.add_task(what)
            shown.update(rows[what], completed=done, total=total)

        yield report
