"""The contract of every vault."""

from collections.abc import AsyncIterator

import pytest

from penstock.core.call_errors import VaultNotFound
from penstock.core.errors import InvalidRequest
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.resources.cipher import Cipher
from penstock.resources.sql_stores import SqlVault
from penstock.resources.vault import SecretListing, Vault
from penstock.store.database import open_database
from penstock.testing.clock import START, FakeClock
from penstock.testing.resources import MemoryVault

ANN, TEAM = Scope(ScopeKind.PROFILE, "ann"), Scope(ScopeKind.SHARED, "team")


@pytest.fixture
async def vault(address: str | None) -> AsyncIterator[Vault]:
    clock = FakeClock()
    if address is None:
        yield MemoryVault(clock)
        return
    database = await open_database(address, limits=Limits())
    yield SqlVault(database, Cipher([bytes(32)]), clock)
    await database.close()


async def test_a_secret_is_found_only_under_its_key_and_scope(vault: Vault) -> None:
    await vault.set(ANN, "token", "s3säme")
    await vault.set(TEAM, "token", "other")
    await vault.set(ANN, "token", "newer")
    assert await vault.get(ANN, "token") == "newer"
    assert await vault.get(TEAM, "token") == "other"
    for scope, key in ((ANN, "other"), (Scope(ScopeKind.SHARED, "ann"), "token")):
        with pytest.raises(VaultNotFound, match="no value is stored"):
            await vault.get(scope, key)


async def test_the_error_of_a_missing_secret_names_the_command(vault: Vault) -> None:
    """V2: "Declared but not stored: `VAULT_NOT_FOUND`"."""
    local = Scope(ScopeKind.PROFILE, "local")
    odd = Scope(ScopeKind.SHARED, "a team")
    for scope, place in ((TEAM, "shared:team"), (ANN, "profile:ann"), (local, "profile"),
                         (odd, "'shared:a team'")):  # fmt: skip
        with pytest.raises(VaultNotFound, match=f"penstock vault set {place} token$"):
            await vault.get(scope, "token")


async def test_lists_hold_keys_and_dates_and_no_values(vault: Vault) -> None:
    for scope, key in ((TEAM, "b"), (ANN, "c"), (ANN, "a")):
        await vault.set(scope, key, "s3same")
    notes = [SecretListing(scope=ANN, key=key, updated_at=START) for key in ("a", "c")]
    assert await vault.notes(ANN) == notes
    assert [each.key for each in await vault.notes()] == ["a", "c", "b"]


async def test_a_delete_reports_whether_the_secret_existed(vault: Vault) -> None:
    await vault.set(ANN, "token", "s3same")
    assert [await vault.delete(ANN, "token") for _ in range(2)] == [True, False]
    assert await vault.notes() == []


REFUSED = [
    (Scope(ScopeKind.SESSION, "c"), "k", "long", "scope: is profile or shared"),
    (Scope(ScopeKind.SHARED, ""), "k", "long", "scopeId: is a name"),
    (ANN, "", "long", "key: is 1 to 128"),
    (ANN, "a b", "long", "key: is 1 to 128"),
    (ANN, ".a", "long", "key: is 1 to 128"),
    (ANN, "k" * 129, "long", "key: is 1 to 128"),
    (ANN, "k", "", "value: is empty"),
    (ANN, "k", "\ud800", "value: is Unicode text"),
    (ANN, "k", "é" * 32_769, "value: has 65538 bytes; at most 65536 are allowed"),
]


@pytest.mark.parametrize(("scope", "key", "value", "message"), REFUSED)
async def test_a_secret_that_cannot_be_stored_is_refused_without_showing_it(
    vault: Vault, scope: Scope, key: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await vault.set(scope, key, value)
    assert message in str(refused.value)
    assert not value or value not in str(refused.value)
    assert await vault.notes() == []


async def test_all_are_there_after_a_rotation(vault: Vault) -> None:
    await vault.set(ANN, "a", "one")
    await vault.set(TEAM, "b", "two")
    assert await vault.rotate() == 2
    assert [await vault.get(ANN, "a"), await vault.get(TEAM, "b")] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "key"), [("a\x00b", "k"), ("", "k"), ("team", "a\x00"), ("x", "")]
)
async def test_under_an_odd_name_there_is_nothing(vault: Vault, name: str, key: str) -> None:
    scope = Scope(ScopeKind.SHARED, name)
    assert await vault.notes(scope) == []
    assert await vault.delete(scope, key) is False
    with pytest.raises(VaultNotFound):
        await vault.get(scope, key)
