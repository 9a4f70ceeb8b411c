"""Erases everything stored for a profile, or one conversation, call or run."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, print_json, say
from penstock.core.clock import SystemClock
from penstock.core.errors import NotFound
from penstock.core.ids import LogId, ProfileId
from penstock.core.text import count
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.erasure import Erasure

Name = Annotated[str | None, typer.Argument(metavar="PROFILE", help="The profile to erase.")]
OneLog = Annotated[
    str | None,
    typer.Option(
        "--log", metavar="LOG", help="Erase one conversation, call or run, even a damaged one."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm. Erased data cannot be restored.")]


def erase(
    profile: Name = None,
    *,
    one: OneLog = None,
    yes: Yes = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Erase a profile: conversations, calls, runs, state, files, secrets, media, keys.

    Running tasks are stopped. Shared state stays, because it belongs to no profile. With --log,
    erase one conversation, call or run, and the runs that it started.
    """
    if (profile is None) == (one is None):
        raise typer.BadParameter("name either a PROFILE or a --log")
    if not yes:
        raise typer.BadParameter(f"{profile or one!r} cannot be restored later; confirm with --yes")
    settings = read_settings(project)

    async def work() -> set[LogId]:
        database = await open_database(
            settings.database, synchronous=settings.synchronous, limits=settings.limits
        )
        try:
            erasure = Erasure(database, open_blobs(settings.blob_place), SystemClock())
            if one is None:
                return await erasure.erase_profile(ProfileId(profile or ""))
            if not await erasure.knows(LogId(one)):
                raise NotFound(f"There is no log {one!r}; `penstock doctor` lists damaged logs.")
            return await erasure.erase_log(LogId(one))
        finally:
            await database.close()

    erased = asyncio.run(work())
    if as_json:
        named = {"profile": profile} if one is None else {"log": one}
        print_json(named | {"logs": len(erased)})
    elif one is None:
        logs = count(len(erased), "log")
        say(f"erased {profile}: {logs} (conversations, calls, runs) and all other data")
    else:
        say(f"erased {one}" + (f" and {count(len(erased) - 1, 'run')}" if erased - {one} else ""))
