"""The log in a database, beyond the contract: broken rows, full disks, processes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest
from sqlalchemy import Connection, text

from penstock.core.clock import Moment, SystemClock
from penstock.core.errors import AlreadyAnswered, LeaseLost, StoreClosed, StoreCorrupt, StoreFull
from penstock.core.events.events import Entry, MessageReceived, Record
from penstock.core.ids import BlobId, MessageId
from penstock.store.blobs import Blobs
from penstock.store.bucket import open_bucket
from penstock.store.database import Database
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog
from penstock.testing.clock import FakeClock, settle
from tests.kit.log_entries import (
    CHAT,
    ONE,
    THREE,
    TWO,
    answered,
    asked,
    held,
    keyed,
    message,
    note,
    opened,
    started,
    taken,
)


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


# ---- parts ---------------------------------------------------------------------------------------


async def test_no_more_than_the_size_is_fetched(database: Database, log: SqlLog) -> None:
    """Postgres returns all rows of a statement together, and bodies have at most 200 bytes here."""
    lease = await held(log)
    await log.append(lease, [note(str(number)) for number in range(60)])
    seen, parts = 0, []
    while part := await log.read(CHAT, after=seen, limit=1000, size=4_000):
        parts.append(len(part))
        seen = part[-1].seq
    most = 20 if database.dialect == "postgresql" else 62
    assert (max(parts) <= most, sum(parts), seen) == (True, 62, 62)


# ---- broken rows ---------------------------------------------------------------------------------


async def test_a_row_that_does_not_read_back_is_named(database: Database, log: SqlLog) -> None:
    await held(log)
    await database.write(partial(do, "UPDATE events SET body = 'x' WHERE seq = 2"))
    with pytest.raises(StoreCorrupt, match="event 2 of log 'conv_1' cannot be read"):
        await log.read(CHAT)
    assert [each.seq for each in await log.read(CHAT, limit=1)] == [1]


@pytest.mark.parametrize(
    ("damage", "after", "missing"),
    [
        ("DELETE FROM events WHERE seq = 2", 0, 2),
        ("DELETE FROM events WHERE seq = 1", 0, 1),
        ("DELETE FROM events WHERE seq = 2", 1, 2),
        ("DELETE FROM events WHERE seq IN (2, 3)", 0, 2),
        ("UPDATE events SET seq = 9 WHERE seq = 3", 1, 3),
    ],
)
async def test_a_row_that_is_missing_is_named(
    database: Database, log: SqlLog, damage: str, after: int, missing: int
) -> None:
    await log.send(CHAT, [opened(), message(), message(TWO), message(THREE)])
    await database.write(lambda each: each.execute(text(damage)))
    with pytest.raises(StoreCorrupt, match=f"event {missing} of log 'conv_1' is missing") as told:
        await log.read(CHAT, after=after)
    assert told.value.details == {"log": CHAT, "event": missing}
    assert (await log.read(CHAT, after=missing, limit=0)) == []


async def test_a_row_of_a_newer_kind_is_named(database: Database, log: SqlLog) -> None:
    await held(log)
    await database.write(partial(do, "UPDATE events SET kind = 'dreamt' WHERE seq = 1"))
    with pytest.raises(StoreCorrupt, match=r"event 1 .*'dreamt'.*newer penstock"):
        await log.read(CHAT)


# ---- large bodies --------------------------------------------------------------------------------


async def test_a_large_message_that_arrives_in_between_is_complete(log: SqlLog) -> None:
    lease = await held(log)
    large = MessageReceived(message_id=MessageId("m"), content="é" * 10_000)
    await log.send(CHAT, [Entry(large, TWO)])
    assert (await log.append(lease, [started()]))[0].event == large


async def test_a_large_answer_is_returned_to_a_later_one(log: SqlLog) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked()])
    await log.send(CHAT, [answered("x" * 10_000)])
    with pytest.raises(AlreadyAnswered) as refused:
        await log.send(CHAT, [answered("y")])
    assert refused.value.details == {"answer": {"text": "x" * 10_000}}


class FullBlobs(Blobs):
    """Blobs without space."""

    async def put(self, data: bytes) -> BlobId:
        raise StoreFull


async def test_nothing_follows_a_large_event_that_could_not_be_kept(
    database: Database, clock: FakeClock
) -> None:
    log = SqlLog(database, FullBlobs(open_bucket("memory:///")), clock)
    lease = await held(log)
    large, small = log.append(lease, [note("x" * 1000)]), log.append(lease, [note("small")])
    with pytest.raises(StoreFull):
        await large
    with pytest.raises(LeaseLost, match="an earlier append to it failed"):
        await small
    assert await log.head(CHAT) == 2


# ---- full disks ----------------------------------------------------------------------------------


async def test_a_full_disk_stops_the_holder_and_loses_nothing(
    sqlite: Database, blobs: Blobs, clock: FakeClock
) -> None:
    log = SqlLog(sqlite, blobs, clock)
    lease = await held(log)
    pages = await sqlite.write(lambda each: each.exec_driver_sql("PRAGMA page_count").scalar())
    await sqlite.write(partial(do, f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreFull):
        await log.append(lease, [note("x" * 30_000)])
    with pytest.raises(LeaseLost):
        await log.append(lease, [note("small")])
    await sqlite.write(partial(do, "PRAGMA max_page_count = 9999"))
    assert [each.seq for each in await log.read(CHAT)] == [1, 2]
    await log.surrender(lease)
    again = await taken(log)
    assert [each.seq for each in await log.append(again, [note("x" * 30_000)])] == [3]


# ---- requests that are cancelled -----------------------------------------------------------------


@pytest.mark.parametrize("is_told", [False, True], ids=["before it is written", "as it is told"])
async def test_a_cancelled_begin_leaves_no_lease(
    database: Database, log: SqlLog, *, is_told: bool
) -> None:
    """Nothing crashed: the next process that acquires the log resumes the task at once."""
    entries = [opened(), message(), started()]
    beginning = asyncio.ensure_future(log.begin(CHAT, entries, "me", head=0))

    def cancel(records: Sequence[Record]) -> None:
        beginning.cancel()

    if is_told:
        log.listen(cancel)
    else:
        await settle(rounds=1)
        beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    while not (pending := await log.pending(limit=9)):  # the lease is released a moment later
        await settle(rounds=1)
    assert [each.log_id for each in pending] == [CHAT]
    lease = await taken(log, "me")
    assert (lease.head, lease.crashed) == (3, False)


async def test_a_cancelled_begin_does_not_affect_the_holder(
    database: Database, log: SqlLog
) -> None:
    lease = await held(log)
    beginning = asyncio.ensure_future(log.begin(CHAT, [message(TWO), started(TWO)], "me", head=2))
    await settle(rounds=1)
    beginning.cancel()
    await database.write(partial(do, "SELECT 1"))
    assert [each.seq for each in await log.append(lease, [note("mine")])] == [3]


# ---- keys of requests ----------------------------------------------------------------------------


async def test_expired_keys_are_deleted(database: Database, log: SqlLog, clock: FakeClock) -> None:
    """limits.idempotency_seconds: "how long an Idempotency-Key is remembered"."""
    await log.send(CHAT, [opened(), keyed(ONE, "old")])
    clock.advance(24 * 3600 + 1)
    await log.send(CHAT, [keyed(TWO, "new")])
    wanted = text("SELECT key FROM idempotency")
    assert await database.read(lambda each: each.execute(wanted).scalars().all()) == ["new"]


# ---- closed --------------------------------------------------------------------------------------


async def test_an_append_to_a_closed_database_raises_when_it_is_awaited(
    database: Database, log: SqlLog
) -> None:
    lease = await held(log)
    await database.close()
    appended = log.append(lease, [note("late")])
    with pytest.raises(StoreClosed):
        await appended
    with pytest.raises(StoreClosed):
        await log.send(CHAT, [message(TWO)])
    with pytest.raises(StoreClosed):
        await log.read(CHAT)


async def test_an_unawaited_append_is_silent(log: SqlLog, caplog: pytest.LogCaptureFixture) -> None:
    lease = await held(log)
    await log.release(lease, head=2)
    unwanted = [log.append(lease, [note("lost")]), log.append(lease, [note("x" * 1000)])]
    await settle()
    assert len(unwanted) == 2
    assert caplog.text == ""


# ---- several processes ---------------------------------------------------------------------------

HOLD = """
import asyncio, sys
from penstock.core.clock import SystemClock
from penstock.core.errors import LeaseLost
from penstock.core.events.events import Entry, NoteEmitted
from penstock.store.blobs import open_blobs
from penstock.store.database import open_database
from penstock.store.logs.owners import this_process
from penstock.store.logs.sql_log import SqlLog

async def main(url):
    database = await open_database(url, synchronous="NORMAL")
    log = SqlLog(database, open_blobs("memory:///"), SystemClock())
    lease = await log.acquire("conv_1", this_process("child"))
    await log.append(lease, [Entry(NoteEmitted(event_type="t"))])
    print("held", flush=True)
    sys.stdin.readline()
    try:
        await log.append(lease, [Entry(NoteEmitted(event_type="late"))])
    except LeaseLost:
        print("lost", flush=True)
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Holder:
    """Another process that holds the log."""

    def __init__(self, url: str) -> None:
        command, pipe = [sys.executable, "-c", HOLD, url], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
async def holder(database_url: str, database: Database, log: SqlLog) -> AsyncIterator[Holder]:
    """A process that has taken the log, and has written one event."""
    await log.send(CHAT, [opened(), message()])
    other = Holder(database_url)
    assert other.says() == "held"
    yield other
    other.end()


def log_at(seconds: float, database: Database, blobs: Blobs) -> SqlLog:
    """Return the log of a process whose clock is ahead by this much."""
    now = SystemClock().now() + int(1000 * seconds)
    return SqlLog(database, blobs, FakeClock(Moment(now)))


@pytest.mark.programs
@pytest.mark.slow(reason="starts an interpreter")
async def test_a_process_that_was_frozen_and_came_back_can_change_nothing(
    holder: Holder, database: Database, blobs: Blobs
) -> None:
    """Architecture: a stale epoch is refused."""
    assert await log_at(0, database, blobs).acquire(CHAT, this_process("me")) is None
    log = log_at(60, database, blobs)
    lease = await taken(log, this_process("me"))
    assert (lease.epoch, lease.head, lease.crashed) == (2, 3, True)
    await log.append(lease, [note("mine")])
    holder.go_on()
    assert holder.says() == "lost"
    assert [each.seq for each in await log.read(CHAT)] == [1, 2, 3, 4]


@pytest.mark.programs
@pytest.mark.slow(reason="starts an interpreter")
async def test_the_log_of_a_process_that_was_killed_is_free_at_once(
    holder: Holder, database: Database, blobs: Blobs
) -> None:
    log = log_at(0, database, blobs)
    assert await log.pending(limit=9) == []
    holder.kill()
    assert [each.log_id for each in await log.pending(limit=9)] == [CHAT]
    lease = await taken(log, this_process("me"))
    assert (lease.crashed, lease.recoveries, lease.head) == (True, 1, 3)
