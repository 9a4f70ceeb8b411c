"""Finds what a live database has that it should not: stuck leases, orphan blobs, a wrong clock.

Guarantees: `collect_orphans` deletes only bytes that no row names, that were not put for a day, and
that are not put while it works; `expire` changes only leases that are not renewed. Both are safe
beside running servers.

How it works. A lease is stuck if its end is further in the future than a lease lasts (the clock
went back since), or if it ended long ago and no process took over. A process that is killed while
it holds a log without work leaves such a lease for ever. A lease in the future is watched for the
time of a lease: a live holder renews it. If a frozen holder comes back after all, the epoch of the
next holder keeps it from writing. Orphans are all stored blobs without those that are named
(`contents.py`). Bytes that are put again get a mark, which is checked last.

Proof: tests/store/upkeep/test_health.py.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection, func, or_, select

from penstock.core.clock import Clock, Moment
from penstock.core.ids import BlobId, LogId
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.owners import is_dead
from penstock.store.tables import events, logs, loose_blobs
from penstock.store.upkeep.contents import named_blobs

ORPHAN_SECONDS = 24 * 3600
"""How long bytes must not have been put: longer than any call takes to name what it stored."""
_LATE_LEASES = 20
"""A log that is due should be acquired within so many durations of a lease."""
_MOST = 200


class LeaseProblem(StrEnum):
    """Why a log does not continue."""

    FUTURE = "future"
    """The lease ends later than a new one would: the clock went back."""
    LATE = "late"
    """It ended long ago, and no process has taken the log over."""
    IDLE = "idle"
    """It ended long ago, and nothing in the log has to be continued: no process will take it over,
    and retention keeps it."""


class StuckLease(Struct, frozen=True, kw_only=True):
    """A log that no process continues."""

    log_id: LogId
    problem: LeaseProblem
    seconds: int
    """How far its end is in the future, or in the past."""
    owner: str
    is_dead: bool
    """Whether the owner is known to have ended."""


async def stuck_leases(database: Database, clock: Clock) -> Sequence[StuckLease]:
    """Return logs whose lease keeps them from continuing."""
    return await database.read(partial(_stuck, clock.now(), database.limits.lease_seconds))


async def expire(database: Database, clock: Clock, stuck: Sequence[StuckLease]) -> Sequence[LogId]:
    """End the leases in the future that are not renewed, and those of idle logs. Return the logs.

    Waits for the duration of a lease. The next process that sweeps takes over what has work to do.
    """
    suspects = [each.log_id for each in stuck if each.problem is not LeaseProblem.LATE]
    if not suspects:
        return ()
    before = await database.read(partial(_leases, suspects))
    await clock.sleep(database.limits.lease_seconds)
    expired = []
    for log_id, lease in before.items():
        unit = partial(_expire, log_id, lease, clock.now())
        if await database.write(unit, order=log_id):
            expired.append(log_id)
    return expired


def _stuck(now: Moment, lease_seconds: float, connection: Connection) -> list[StuckLease]:
    lease = int(1000 * lease_seconds)
    # twice, because clocks of two machines may differ a little
    future, late = now + 2 * lease, now - _LATE_LEASES * lease
    held = logs.c.owner.is_not(None)
    ends = or_(logs.c.lease_until > future, logs.c.lease_until < late)
    columns = (logs.c.log_id, logs.c.owner, logs.c.lease_until, logs.c.needs_run)
    rows = connection.execute(select(*columns).where(held, ends).limit(_MOST)).all()
    ended = {0: LeaseProblem.IDLE, 1: LeaseProblem.LATE}
    return [
        StuckLease(
            log_id=log_id,
            problem=LeaseProblem.FUTURE if until > now else ended[needs_run],
            seconds=abs(until - now) // 1000,
            owner=owner,
            is_dead=is_dead(owner),
        )
        for log_id, owner, until, needs_run in rows
    ]


def _leases(log_ids: Collection[LogId], connection: Connection) -> dict[LogId, tuple[int, int]]:
    columns = (logs.c.log_id, logs.c.epoch, logs.c.lease_until)
    rows = connection.execute(select(*columns).where(logs.c.log_id.in_(log_ids))).all()
    return {log_id: (epoch, until) for log_id, epoch, until in rows}


def _expire(log_id: LogId, lease: tuple[int, int], now: Moment, connection: Connection) -> bool:
    """End a lease that is still the same. Return False if it was renewed, released or taken."""
    epoch, until = lease
    same = (logs.c.epoch == epoch, logs.c.lease_until == until, logs.c.owner.is_not(None))
    mine = logs.update().where(logs.c.log_id == log_id, *same)
    idle = mine.where(logs.c.needs_run == 0).values(owner=None, lease_until=0)
    if connection.execute(idle).rowcount == 1:
        return True
    return connection.execute(mine.values(lease_until=now)).rowcount == 1


# ---- bytes that no row names ----


async def orphans(database: Database, blobs: Blobs, clock: Clock) -> set[BlobId]:
    """Return the stored blobs that no row names and that were not put for a day."""
    before = Moment(clock.now() - 1000 * ORPHAN_SECONDS)
    # listed before the rows are read: what is put meanwhile is not listed
    stored = await blobs.unwritten_since(before)
    if not stored:
        return stored
    listed = select(loose_blobs.c.blob_id)  # the sweeper deletes these
    loose = await database.read(lambda each: each.execute(listed).scalars().all())
    return stored - (await named_blobs(database, blobs)).keys() - {*loose}


async def collect_orphans(database: Database, blobs: Blobs, clock: Clock) -> int:
    """Delete the orphans. Return how many."""
    start, count = clock.now(), 0
    for blob_id in await orphans(database, blobs, clock):
        # put again since then: the event that names it may come later
        if not await blobs.is_wanted_since(blob_id, start):
            await blobs.delete(blob_id)
            count += 1
    return count


# ---- clocks ----


class Skew(Struct, frozen=True, kw_only=True):
    """Differences from the clock of this machine, in seconds; positive is ahead."""

    newest_event: float | None
    """The newest event; only a positive one is wrong."""
    server: float | None
    """The clock of Postgres; None for SQLite."""


async def skew(database: Database, clock: Clock) -> Skew:
    """Compare the clock of this machine with the newest event and with the server."""
    newest, server = await database.read(_clocks)
    now = clock.now()
    return Skew(
        newest_event=None if newest is None else (newest - now) / 1000,
        server=None if server is None else (server - now) / 1000,
    )


def _clocks(connection: Connection) -> tuple[int | None, float | None]:
    newest = connection.execute(select(func.max(events.c.at))).scalar()
    if connection.dialect.name != "postgresql":
        return newest, None
    server = "SELECT extract(epoch FROM clock_timestamp()) * 1000"
    return newest, float(connection.exec_driver_sql(server).scalar_one())
