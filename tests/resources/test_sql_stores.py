"""Secrets and values in their tables: their form on disk, a new key, two writers at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from penstock.core.call_errors import VaultNotFound
from penstock.core.errors import ConfigError
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.resources.cipher import Cipher
from penstock.resources.sql_stores import SqlState, SqlVault
from penstock.store.database import Database, open_database
from penstock.store.tables import secrets
from penstock.testing.clock import FakeClock

ANN = Scope(ScopeKind.PROFILE, "ann")
OLD, NEW = Cipher([bytes(32)]), Cipher([bytes([1]) * 32, bytes(32)])


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await open_database(database_url, synchronous="NORMAL")
    yield opened
    await opened.close()


def vault(database: Database, cipher: Cipher) -> SqlVault:
    return SqlVault(database, cipher, FakeClock())


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


@pytest.mark.slow("two writers of one database take turns")
async def test_exactly_one_of_two_processes_wins(database_url: str) -> None:
    """T11: "Writes are atomic between processes"."""
    first, second = [await open_database(database_url) for _ in range(2)]
    states = [SqlState(each, FakeClock()) for each in (first, second)]
    for number in range(20):
        key = f"k{number % 4}"
        now = await states[0].find(ANN, key)
        expected = (None if now is None else now.revision,)
        puts = [
            StateChange(
                verb=StateVerb.PUT,
                scope=ANN,
                key=key,
                revision=f"r{number}.{each}",
                value=each,
                expected=expected,
            )
            for each in range(4)
        ]
        made = await asyncio.gather(
            *(states[place % 2].make(put) for place, put in enumerate(puts))
        )
        assert [each.ok for each in made].count(True) == 1
    await first.close()
    await second.close()


@pytest.mark.slow("two writers of one database take turns")
async def test_many_appends_of_two_processes_are_all_there(database_url: str) -> None:
    first, second = [await open_database(database_url) for _ in range(2)]
    states = [SqlState(each, FakeClock()) for each in (first, second)]
    appends = [
        StateChange(verb=StateVerb.APPEND, scope=ANN, key="k", revision=f"r{each}", value=each)
        for each in range(40)
    ]
    await asyncio.gather(*(states[at % 2].make(each) for at, each in enumerate(appends)))
    entry = await states[0].find(ANN, "k")
    assert entry is not None
    assert sorted(entry.value) == list(range(40))
    await first.close()
    await second.close()
