"""Snapshots in the database: damage is found, and an erasure leaves nothing of them."""

import pytest
from sqlalchemy import select, update

from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.log import StoredState
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair import rebuild
from penstock.store.tables import snapshots
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, ONE, ended, held, started

KEPT = StoredState(4, "v", b"\x00secret\xff" * 50)


@pytest.fixture
async def kept(log: SqlLog) -> SqlLog:
    """A log with a snapshot."""
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.release(lease, head=4)
    assert await log.snapshots.write(CHAT, KEPT)
    return log


@pytest.mark.parametrize(
    "damage",
    [
        {"body": KEPT.body.replace(b"s", b"r", 1)},
        {"body": KEPT.body[:-1]},
        {"seq": 3},
        {"version": "w"},
        {"checksum": "0" * 32},
    ],
)
async def test_a_row_with_a_flipped_byte_is_not_believed(
    kept: SqlLog, database: Database, damage: dict[str, object]
) -> None:
    await database.write(lambda each: each.execute(update(snapshots).values(damage)))
    assert await kept.snapshots.read(CHAT) is None


@pytest.mark.parametrize("whole", [False, True])
async def test_an_erasure_deletes_the_snapshot_in_its_own_transaction(
    kept: SqlLog, database: Database, blobs: Blobs, clock: FakeClock, *, whole: bool
) -> None:
    erasure = Erasure(database, blobs, clock)
    if whole:
        await erasure.erase_log(CHAT)
    else:
        await erasure.erase_messages(CHAT, ONE, answer=True)
    rows = await database.read(lambda each: each.execute(select(snapshots.c.log_id)).all())
    assert rows == []
    assert not await kept.snapshots.write(CHAT, KEPT)


async def test_a_rebuild_reads_no_snapshot_and_drops_all(kept: SqlLog, database: Database) -> None:
    assert (await rebuild(database, kept)).left == ()
    assert await kept.snapshots.read(CHAT) is None
