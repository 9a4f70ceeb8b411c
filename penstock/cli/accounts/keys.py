"""API keys: create one, list them, revoke one."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.accounts.keys import NEW_KEY, KeyRecord, Keys
from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import Moment, SystemClock, to_iso
from penstock.core.text import count
from penstock.manifest.bundle import load_bundle
from penstock.store.database import open_database

_MAX_DAYS = 36_500
Value = TypeVar("Value")
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.")]
Permissions = Annotated[
    list[str] | None,
    typer.Option(
        "--permission",
        metavar="NAME",
        help=f"A permission of the key; repeatable. [default: {', '.join(NEW_KEY)}]",
    ),
]
Days = Annotated[
    int | None,
    typer.Option(
        "--days", min=1, max=_MAX_DAYS, help="Days until the key expires; default: never."
    ),
]
_DAY_MS = 24 * 3600 * 1000


def create_key(
    name: KeyName,
    *,
    permission: Permissions = None,
    days: Days = None,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is shown only once."""

    async def work(keys: Keys) -> str:
        until = None if days is None else Moment(SystemClock().now() + days * _DAY_MS)
        return await keys.create(name, permissions=permission or NEW_KEY, expires_at=until)

    key = _with_keys(project, work)
    if as_json:
        print_json({"name": name, "key": key})
    else:
        say(key)
        note("Store it now: it is not shown again. Send it as `Authorization: Bearer pk_…`.")


def list_keys(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """List all keys, also expired and revoked ones. The secrets themselves are not shown."""
    keys_listed = _with_keys(project, lambda keys: keys.list())
    if as_json:
        print_json({"keys": [key_part(each) for each in keys_listed]})
        return
    rows = [
        (
            key.name,
            ", ".join(map(partial(_shown, key), key.permissions)),
            key.session_id or "",
            when(key.created_at),
            when(key.expires_at),
            when(key.revoked_at),
            when(key.last_used_at),
        )
        for key in keys_listed
    ]
    print_table(("key", "may", "only in", "created", "expires", "revoked", "last used"), rows)
    note(count(len(keys_listed), "key"))


def revoke_key(name: KeyName, *, project: ProjectFolder = None) -> None:
    """Revoke a key. Requests with it are refused, and the schedules that it made are paused."""
    paused = _with_keys(project, lambda keys: keys.revoke(name))
    say(f"{name} is revoked")
    if paused:
        note(f"{count(paused, 'schedule')} of it paused; penstock schedules list shows them")


COMMANDS = {"create": create_key, "list": list_keys, "revoke": revoke_key}


def key_part(key: KeyRecord) -> dict[str, Any]:
    """Return a key as JSON."""
    return {
        "name": key.name,
        "permissions": list(key.permissions),
        "conversation": key.session_id,
        "stale": list(key.stale),
        "created_at": _iso(key.created_at),
        "expires_at": _iso(key.expires_at),
        "revoked_at": _iso(key.revoked_at),
        "last_used_at": _iso(key.last_used_at),
    }


def _with_keys(folder: Path | None, work: Callable[[Keys], Awaitable[Value]]) -> Value:
    settings = read_settings(folder)
    catalog = load_bundle(settings.root).permissions

    async def whole() -> Value:
        database = await open_database(
            settings.database, synchronous=settings.synchronous, limits=settings.limits
        )
        try:
            return await work(Keys(database, SystemClock(), catalog=catalog))
        finally:
            await database.close()

    return asyncio.run(whole())


def _shown(key: KeyRecord, permission: str) -> str:
    return f"{permission} (stale)" if permission in key.stale else permission


def _iso(moment: Moment | None) -> str | None:
    return None if moment is None else to_iso(moment)
