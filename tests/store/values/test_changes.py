"""State and files of a conversation are deleted with it, with bytes that nothing else uses."""

from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import Connection, Table, select

from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment
from penstock.core.ids import BlobId, MediaId, ProfileId
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import (
    FileChange,
    MediaChange,
    StateChange,
    StateVerb,
    WorkspaceChange,
)
from penstock.core.stored.subjects import SubjectChange, SubjectVerb
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair import rebuild
from penstock.store.statements import Statements
from penstock.store.tables import files, loose_blobs, scopes, state
from penstock.store.values.changes import Changes
from penstock.testing.clock import START, FakeClock
from tests.kit.log_entries import CHAT, ONE, ended, held, started

TALK, ANN = Scope(ScopeKind.SESSION, CHAT), Scope(ScopeKind.PROFILE, "ann")
MINE = Scope(ScopeKind.TASK, ONE)


@pytest.fixture
def log(database: Database, blobs: Blobs, clock: FakeClock) -> SqlLog:
    return SqlLog(database, blobs, clock)


@pytest.fixture
def erasure(database: Database, blobs: Blobs, clock: FakeClock) -> Erasure:
    return Erasure(database, blobs, clock)


async def write(database: Database, scope: Scope, blob_id: BlobId, path: str = "a") -> None:
    """Keep a file and a value in a scope."""
    file = FileChange(scope=scope, path=path, blob_id=blob_id, size=1)
    put = StateChange(verb=StateVerb.PUT, scope=scope, key=path, revision="r", value=1)
    changes = Changes(Statements(database.dialect), Limits())
    for change in (WorkspaceChange(files=(file,)), put):
        await database.write(partial(changes.make, change=change, at=Moment(0)))


async def owners(database: Database) -> set[str]:
    """Return the owners of files, values, and their counts."""
    found: set[str] = set()
    for table in (files, state, scopes):
        found |= set(await database.read(partial(scope_ids, table)))
    return found


def scope_ids(table: Table, connection: Connection) -> Sequence[str]:
    return connection.execute(select(table.c.scope_id)).scalars().all()


async def test_deleting_a_conversation_deletes_its_values_and_blobs(
    database: Database, blobs: Blobs, log: SqlLog, erasure: Erasure
) -> None:
    await held(log)
    gone, stays = await blobs.put(b"gone"), await blobs.put(b"stays")
    for scope, blob_id in ((TALK, gone), (MINE.part("x"), gone), (ANN, stays)):
        await write(database, scope, blob_id)
    await write(database, TALK, stays, "b")
    await erasure.erase_log(CHAT)
    assert await owners(database) == {"ann"}
    assert (await blobs.exists(gone), await blobs.exists(stays)) == (False, True)


async def test_bytes_of_an_ended_task_are_deleted_by_the_next_sweep(
    database: Database, blobs: Blobs, log: SqlLog, erasure: Erasure
) -> None:
    lease = await held(log)
    gone, stays = await blobs.put(b"gone"), await blobs.put(b"stays")
    await write(database, MINE, gone)
    await write(database, MINE, stays, "b")
    await write(database, TALK, stays, "b")
    await log.append(lease, [started(), ended()])
    assert await blobs.exists(gone)
    assert await erasure.sweep() == 2
    assert (await blobs.exists(gone), await blobs.exists(stays)) == (False, True)
    left = select(loose_blobs)
    assert await database.read(lambda each: each.execute(left).all()) == []


async def test_overwritten_bytes_are_loose_too(
    database: Database, blobs: Blobs, erasure: Erasure
) -> None:
    first, second = await blobs.put(b"first"), await blobs.put(b"second")
    for blob_id in (first, second):
        await write(database, TALK, blob_id)
    await erasure.sweep()
    assert (await blobs.exists(first), await blobs.exists(second)) == (False, True)


async def test_bytes_of_media_stay_until_they_expire(
    database: Database, blobs: Blobs, erasure: Erasure
) -> None:
    both, other = await blobs.put(b"both"), await blobs.put(b"other")
    for number, blob_id in enumerate((both, other)):
        kept = MediaChange(
            media_id=MediaId(str(number)),
            profile_id=ProfileId("ann"),
            blob_id=blob_id,
            media_type="text/plain",
            size=5,
            filename=None,
            expires_at=Moment(START + 1000 + number),
        )
        changes = Changes(Statements(database.dialect), Limits())
        await database.write(partial(changes.make, change=kept, at=Moment(START + 1000 * number)))
        if blob_id == both:
            for written in (both, other):
                await write(database, TALK, written)
            await erasure.sweep()
            assert await blobs.exists(both)
    await erasure.sweep()
    assert (await blobs.exists(both), await blobs.exists(other)) == (False, True)


async def test_a_profile_that_is_erased_takes_its_dispatchers_along(
    database: Database, erasure: Erasure
) -> None:
    near = Scope(ScopeKind.PROFILE, "annette").part("dispatcher/mail")
    for scope in (ANN, ANN.part("dispatcher/mail"), near):
        changes = Changes(Statements(database.dialect), Limits())
        subjects = ({"subject_key": "a"},)
        change = SubjectChange(
            verb=SubjectVerb.SYNC, scope=scope, dispatcher_id="mail", task_id=ONE, subjects=subjects
        )
        await database.write(partial(changes.make, change=change, at=Moment(START)))
    await erasure.erase_profile(ProfileId("ann"))
    assert await owners(database) == {near.id}


async def test_a_rebuild_of_the_lists_leaves_state_and_files(
    database: Database, blobs: Blobs, log: SqlLog
) -> None:
    await held(log)
    await write(database, MINE, BlobId("a" * 64))
    await rebuild(database, log)
    assert await owners(database) == {ONE}


async def test_a_scope_that_dropped_expired_values_counts_the_rest(database: Database) -> None:
    limits = Limits(state_entries=2)
    changes = Changes(Statements(database.dialect), limits)

    async def put(key: str, at: int, ttl: int | None = None) -> None:
        change = StateChange(
            verb=StateVerb.PUT, scope=ANN, key=key, revision="r", value=1, ttl_seconds=ttl
        )
        await database.write(partial(changes.make, change=change, at=Moment(at)))

    def counted(connection: Connection) -> tuple[int, ...]:
        row = connection.execute(select(scopes.c.entries, scopes.c.file_bytes)).one()
        kept = connection.execute(select(state.c.key)).all()
        return row.entries, row.file_bytes, len(kept)

    await put("a", 0, ttl=1)
    await put("b", 0, ttl=1)
    await put("c", 5_000)
    assert await database.read(counted) == (1, 0, 1)
    await put("d", 5_000)
    with pytest.raises(ToolFailed, match="has 2 values"):
        await put("e", 5_000)
    assert await database.read(counted) == (2, 0, 2)
