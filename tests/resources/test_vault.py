"""Access to secrets, and their form on disk."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from sqlalchemy import select

from penstock.core.call_errors import VaultDenied, VaultNotFound
from penstock.core.errors import ConfigError
from penstock.core.scopes import Scope, ScopeKind
from penstock.manifest.bindings import VaultKey
from penstock.resources.cipher import Cipher
from penstock.resources.vault import SecretHandles, SqlVault, permit_secret, warning_of
from penstock.store.database import Database, open_database
from penstock.store.tables import secrets
from penstock.testing.clock import FakeClock

ANN = Scope(ScopeKind.PROFILE, "ann")
OLD, NEW = Cipher([bytes(32)]), Cipher([bytes([1]) * 32, bytes(32)])
DECLARED = [
    VaultKey(key="both", scope_kinds=frozenset({"profile", "shared"})),
    VaultKey(key="mine", scope_kinds=frozenset({"profile"})),
]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await open_database(database_url, synchronous="NORMAL")
    yield opened
    await opened.close()


def vault(database: Database, cipher: Cipher) -> SqlVault:
    return SqlVault(database, cipher, FakeClock())


PERMITTED = [
    ("both", ScopeKind.PROFILE, True),
    ("both", ScopeKind.SHARED, True),
    ("mine", ScopeKind.PROFILE, True),
    ("mine", ScopeKind.SHARED, False),
    ("none", ScopeKind.PROFILE, False),
    ("min", ScopeKind.PROFILE, False),
]


@pytest.mark.parametrize(("key", "kind", "permitted"), PERMITTED)
def test_a_tool_gets_what_it_declares(key: str, kind: ScopeKind, permitted: bool) -> None:
    """V1: "`key` and scope kind must be in the tool's `vault`, else `VAULT_DENIED`"."""
    if permitted:
        permit_secret("t", DECLARED, kind, key)
        return
    message = f'"t" does not declare the vault key "{key}" for scope {kind}'
    with pytest.raises(VaultDenied) as denied:
        permit_secret("t", DECLARED, kind, key)
    assert str(denied.value) == message


def test_a_short_secret_is_warned_of() -> None:
    """V5: "Values under 4 bytes cannot be redacted; setting one warns"."""
    assert "cannot be redacted" in (warning_of("abc") or "")
    assert warning_of("äbc") is None


async def test_no_secret_is_on_disk_in_plain_text(database: Database) -> None:
    await vault(database, OLD).set(ANN, "mine", "s3same-open")
    (row,) = await database.read(lambda each: each.execute(select(secrets)).all())
    assert b"s3same" not in bytes(row.sealed)


async def test_after_a_rotation_the_old_key_is_not_needed(database: Database) -> None:
    await vault(database, OLD).set(ANN, "mine", "s3same")
    assert await vault(database, NEW).rotate() == 1
    assert await vault(database, Cipher([bytes([1]) * 32])).get(ANN, "mine") == "s3same"
    with pytest.raises(VaultNotFound, match="the secret 'mine' of profile:ann cannot be decrypted"):
        await vault(database, OLD).get(ANN, "mine")


async def test_a_rotation_that_cannot_open_one_changes_none(database: Database) -> None:
    """`rotate`: "encrypts all again with the first key, in one transaction"."""
    await vault(database, OLD).set(ANN, "a", "s3same")
    await vault(database, Cipher([bytes([9]) * 32])).set(ANN, "b", "s3same")
    with pytest.raises(ConfigError, match="the secret 'b' of profile:ann cannot be decrypted"):
        await vault(database, NEW).rotate()
    assert await vault(database, OLD).get(ANN, "a") == "s3same"


def test_a_handle_is_a_random_text_that_opens_in_place() -> None:
    """V7: "an object whose string form is a random placeholder"."""
    handles = SecretHandles()
    one, two = handles.new("token", "s3 same"), handles.new("token", "s3 same")
    assert one != two
    assert "s3" not in one
    assert handles.open(f"Bearer {one}") == "Bearer s3 same"
    assert handles.open(f"q={two}&r", quote) == "q=s3%20same&r"
    assert handles.keys_in("x", f"a{one}b") == {"token"}


def test_handles_of_another_entry_are_inert() -> None:
    handle = SecretHandles().new("token", "s3same")
    other = SecretHandles()
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
    other.new("b", "other")
    assert (other.open(handle), other.keys_in(handle)) == (handle, set())
