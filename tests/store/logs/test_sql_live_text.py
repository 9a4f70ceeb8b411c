"""Replies that are still being written, in a database: without a reader nothing is stored."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import Connection

from penstock.core.errors import LeaseLost
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.log import TextPiece, TextPosition
from penstock.store.logs.sql_log import SqlLog
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, ONE, ended, held, started, taken

PIECE = TextPiece(
    task_id=ONE, spot=TextPosition(2, 1), iteration=1, closing=True, kind="text", text="H"
)


@pytest.fixture
async def elsewhere(database_url: str, blobs: Blobs, clock: FakeClock) -> AsyncIterator[SqlLog]:
    """The same logs, in another process."""
    database = await open_database(database_url, synchronous="NORMAL")
    yield SqlLog(database, blobs, clock)
    await database.close()


def followed_until(connection: Connection) -> int:
    found = connection.exec_driver_sql("SELECT followed_until FROM logs").scalar()
    assert isinstance(found, int)
    return found


def rows(connection: Connection) -> int:
    found = connection.exec_driver_sql("SELECT count(*) FROM deltas").scalar()
    assert isinstance(found, int)
    return found


async def test_the_holder_reads_no_live_text_and_requests_none(
    database: Database, log: SqlLog
) -> None:
    lease = await held(log)
    await log.live_text.write(CHAT, lease.epoch, [PIECE])
    assert await log.live_text.read(CHAT) == ()
    assert await database.read(followed_until) == 0


async def test_a_holder_that_lost_the_log_reads_the_text_of_the_next(
    log: SqlLog, elsewhere: SqlLog, clock: FakeClock
) -> None:
    lost = await held(log)
    clock.advance(4)
    lease = await taken(elsewhere)
    await elsewhere.live_text.write(CHAT, lease.epoch, [PIECE])
    with pytest.raises(LeaseLost):
        await log.append(lost, [started()])
    assert await log.live_text.read(CHAT) == [PIECE]


async def test_that_a_log_is_followed_is_written_once_in_a_while(
    database: Database, log: SqlLog, elsewhere: SqlLog, clock: FakeClock
) -> None:
    """At most once a second, however many read however often."""
    await held(log)
    written = set()
    for _ in range(30):
        await elsewhere.live_text.read(CHAT)
        written.add(await database.read(followed_until))
        clock.advance(0.1)
    assert len(written) == 3


async def test_a_reader_continues_if_it_cannot_register(
    sqlite: Database, blobs: Blobs, clock: FakeClock
) -> None:
    """A full disk ends no stream: the pieces are missing, and the whole reply arrives."""
    lease = await held(SqlLog(sqlite, blobs, clock))
    reader = SqlLog(sqlite, blobs, clock).live_text
    await SqlLog(sqlite, blobs, clock).live_text.write(CHAT, lease.epoch, [PIECE])
    await sqlite.write(lambda each: each.exec_driver_sql("PRAGMA query_only = ON"))
    assert await reader.read(CHAT) == [PIECE]


async def test_a_log_without_a_holder_is_not_written_to(
    database: Database, log: SqlLog, elsewhere: SqlLog
) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.release(lease, head=4)
    assert await elsewhere.live_text.read(CHAT) == []
    assert await elsewhere.live_text.read(LogId("no_log")) == []
    assert await database.read(followed_until) == 0


@pytest.mark.parametrize("status", [TaskStatus.SUCCEEDED, TaskStatus.FAILED])
async def test_nothing_stays_behind(
    database: Database, log: SqlLog, elsewhere: SqlLog, status: TaskStatus
) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    await elsewhere.live_text.read(CHAT)
    await log.live_text.write(CHAT, lease.epoch, [PIECE])
    assert await database.read(rows) == 1
    await log.append(lease, [ended(status=status)])
    assert await database.read(rows) == 0


async def test_a_late_write_of_a_stale_holder_adds_no_row(
    database: Database, log: SqlLog, elsewhere: SqlLog, clock: FakeClock
) -> None:
    stale = await held(log)
    clock.advance(4)
    await taken(elsewhere, "another")
    await log.live_text.write(CHAT, stale.epoch, [PIECE])
    assert await database.read(rows) == 0


async def test_pieces_of_a_holder_that_died_go_with_the_next_reply(
    database: Database, log: SqlLog, elsewhere: SqlLog, clock: FakeClock
) -> None:
    """The next holder wrote none itself: it knows from the log that a reader follows it."""
    lease = await held(log)
    await elsewhere.live_text.read(CHAT)
    await log.renew(lease, after=2)
    await log.live_text.write(CHAT, lease.epoch, [PIECE])
    assert await database.read(rows) == 1
    clock.advance(4)
    await elsewhere.append(await taken(elsewhere), [started(), ended()])
    assert await database.read(rows) == 0
