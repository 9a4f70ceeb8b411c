"""Secrets of the vault: set, list, delete or re-encrypt them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli.options import ProjectFolder
from penstock.cli.project import read_settings
from penstock.cli.terminal.exit_codes import FAILED
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import print_table, when
from penstock.core.clock import SystemClock, to_iso
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.text import count
from penstock.resources.cipher import open_cipher
from penstock.resources.sql_stores import SqlVault
from penstock.resources.vault import SecretListing, Vault, warning_of
from penstock.store.database import open_database

Value = TypeVar("Value")
_SCOPE_HELP = "`profile`, or `profile:ID`, or `shared:ID`."
Place = Annotated[str, typer.Argument(metavar="SCOPE", help=_SCOPE_HELP)]
MaybePlace = Annotated[
    str | None,
    typer.Argument(
        metavar="SCOPE", help="`profile`, or `profile:ID`, or `shared`, or `shared:ID`."
    ),
]
SecretKey = Annotated[
    str, typer.Argument(metavar="KEY", help="The secret's name, as manifests declare it.")
]


def set_secret(
    place: Place, key: SecretKey, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Store a secret. The value is read from stdin; at a terminal you are prompted for it."""
    scope, value = _scope(place), _value()
    _with_vault(project, lambda vault: vault.set(scope, key, value))
    if warning := warning_of(value):
        note(f"Warning: {warning}")
    _print_result(_named(scope, key), f"{key} is set for {scope}", as_json=as_json)


def list_secrets(
    place: MaybePlace = None, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """List secrets without their values."""
    kind = place if place == ScopeKind.SHARED else None
    scope = None if place is None or kind else _scope(place)
    noted = _with_vault(project, lambda vault: vault.notes(scope))
    secrets = [each for each in noted if kind is None or each.scope.kind == kind]
    if as_json:
        print_json({"secrets": [_part(each) for each in secrets]})
        return
    rows = [(str(each.scope), each.key, when(each.updated_at)) for each in secrets]
    print_table(("scope", "key", "updated"), rows)
    note(count(len(secrets), "secret"))


def delete_secret(
    place: Place, key: SecretKey, *, project: ProjectFolder = None, as_json: AsJson = False
) -> None:
    """Delete a secret."""
    scope = _scope(place)
    if not _with_vault(project, lambda vault: vault.delete(scope, key)):
        note(f"there is no secret {key!r} for {scope}")
        raise typer.Exit(FAILED)
    _print_result(_named(scope, key), f"{key} is deleted for {scope}", as_json=as_json)


def rotate(*, project: ProjectFolder = None, as_json: AsJson = False) -> None:
    """Re-encrypt all secrets with the first key of PENSTOCK_SECRET_KEY."""
    sealed = _with_vault(project, lambda vault: vault.rotate())
    message = f"re-encrypted {count(sealed, 'secret')} with the first key"
    _print_result({"sealed": sealed}, message, as_json=as_json)


COMMANDS = {
    "set": set_secret,
    "list": list_secrets,
    "delete": delete_secret,
    "rotate": rotate,
}


def _scope(place: str) -> Scope:
    kind, _, name = place.partition(":")
    if kind == ScopeKind.PROFILE:
        return Scope(ScopeKind.PROFILE, name or LOCAL)
    if kind == ScopeKind.SHARED and name:
        return Scope(ScopeKind.SHARED, name)
    raise typer.BadParameter(f"expected profile, profile:ID or shared:ID, found {place!r}")


def _value() -> str:
    """Return the secret without the one line end that a shell or an editor appends."""
    if sys.stdin.isatty():
        return getpass("Value: ")
    text = sys.stdin.read()
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _print_result(part: dict[str, Any], message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(part)
    else:
        say(message)


def _part(secret: SecretListing) -> dict[str, Any]:
    return _named(secret.scope, secret.key) | {"updated_at": to_iso(secret.updated_at)}


def _named(scope: Scope, key: str) -> dict[str, Any]:
    return {"scope": scope.kind.value, "scope_id": scope.id, "key": key}


def _with_vault(folder: Path | None, work: Callable[[Vault], Awaitable[Value]]) -> Value:
    settings = read_settings(folder)
    cipher = open_cipher(settings.secret_key.get_secret_value(), settings.data_path)

    async def whole() -> Value:
        database = await open_database(
            settings.database, synchronous=settings.synchronous, limits=settings.limits
        )
        try:
            return await work(SqlVault(database, cipher, SystemClock()))
        finally:
            await database.close()

    return asyncio.run(whole())
