"""Erases a profile: what was said with it, and all that is kept of it."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.arguments.options import AsJson, ProjectFolder
from penstock.cli.arguments.project import read_settings
from penstock.cli.terminal.output import print_json, say
from penstock.core.clock import SystemClock
from penstock.core.ids import LogId, ProfileId
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.erasing.erasure import Erasure

Name = Annotated[str, typer.Argument(metavar="PROFILE", help="Whose traces are erased.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it: nothing of it can be brought back.")]


def erase(
    profile: Name, *, yes: Yes = False, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Erase a profile: conversations, calls, runs, state, files, secrets, media, keys.

    What is at work is cut. What tools put into shared state stays: it is no profile's.
    """
    if not yes:
        raise typer.BadParameter(f"nothing of {profile!r} can be brought back: add --yes")
    settings = read_settings(project)

    async def work() -> set[LogId]:
        database = await open_database(
            settings.database, synchronous=settings.synchronous, limits=settings.all_limits
        )
        try:
            erasure = Erasure(database, open_blobs(settings.blob_place), SystemClock())
            return await erasure.erase_profile(ProfileId(profile))
        finally:
            await database.close()

    erased = asyncio.run(work())
    if as_json:
        print_json({"profile": profile, "logs": len(erased)})
    else:
        say(f"erased {profile}: {len(erased)} conversations, calls and runs, and what it kept")
