"""Whether the store works, and whether its database is sound."""

import asyncio
import shutil
from collections.abc import Awaitable, Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct
from sqlalchemy import Connection, func, or_, select, text
from sqlalchemy.exc import SQLAlchemyError

from penstock.core.errors import PenstockError, StoreCorrupt
from penstock.core.ids import LogId
from penstock.core.limits import MIB
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.rows import Row as EventRow
from penstock.store.rows import Rows, record_of
from penstock.store.tables import REVISION, events, logs

_SOUND = "ok"
MOST_READ = 100_000
MOST_NAMED = 20


class Check(Struct, frozen=True):
    """One thing that every request needs."""

    name: str
    why: str = ""
    """Why it does not work, without places and secrets; nothing if it does."""


class Health(Struct, frozen=True, kw_only=True):
    """What was found."""

    revision: str
    """Of the tables, as this version wants them."""
    logs: int
    events: int
    problems: tuple[str, ...] = ()
    """What the engine says is broken; SQLite checks its file, Postgres checks its own."""


async def look(
    database: Database, blobs: Blobs, *, seconds: float | None = None
) -> tuple[Check, ...]:
    """Try what every request needs: all at once, each for `limits.ready_seconds` at most."""
    most = database.limits.ready_seconds if seconds is None else seconds
    places = {each for each in (database.folder, blobs.folder) if each is not None}
    tried = {
        "database": _reads_and_writes(database),
        "migrations": _is_current(database),
        "disk": asyncio.to_thread(little_space, places, database.limits.free_bytes),
        "blobs": blobs.try_write(),
    }
    whys = await asyncio.gather(*[_why_not(each, most) for each in tried.values()])
    return tuple(map(Check, tried, whys))


def little_space(places: Iterable[Path], least: int) -> str:
    """Return how little space is left, if it is less than that."""
    try:
        free = min((shutil.disk_usage(each).free for each in places), default=least)
    except OSError as error:
        return f"the free space cannot be read: {error.strerror}"
    if free >= least:
        return ""
    return f"{free // MIB:,} MiB are free, at least {least // MIB:,} are wanted"


async def check(database: Database) -> Health:
    """Return how a database is; it is read once, wholly."""
    try:
        problems = await database.read(_problems)
        sizes = await database.read(_sizes)
    except StoreCorrupt as error:
        return Health(revision=REVISION, logs=0, events=0, problems=(str(error),))
    return Health(revision=REVISION, logs=sizes[0], events=sizes[1], problems=problems)


async def read_back(
    database: Database, blobs: Blobs, *, most: int = MOST_READ
) -> tuple[int, tuple[str, ...]]:
    """Read the newest events; returns how many, and where some do not read back."""
    read, broken, large = await database.read(partial(_read_back, most))
    rows = Rows(blobs, 0)
    for log_id, row in large:
        try:
            await rows.records(log_id, [row])
        except StoreCorrupt:
            broken.append(_named(log_id, row[0]))
    return read, tuple(sorted(broken)[:MOST_NAMED])


async def gaps(database: Database) -> tuple[str, ...]:
    """Compare each log with its head; returns the logs of which events are missing."""
    return await database.read(_gaps)


async def _reads_and_writes(database: Database) -> str:
    await database.read(lambda each: each.execute(select(logs.c.log_id).limit(1)).first())
    await database.try_write()
    return ""


async def _is_current(database: Database) -> str:
    wanted = text("SELECT version_num FROM alembic_version")
    found = await database.read(lambda each: each.execute(wanted).scalar())
    if found == REVISION:
        return ""
    return f"the tables are at revision {found}, this version wants {REVISION}"


async def _why_not(trial: Awaitable[str | None], seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await trial or ""
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except PenstockError as error:  # its own message may name places of this machine
        return (type(error).__doc__ or error.code).strip()
    except SQLAlchemyError as error:
        return f"the database cannot do that: {type(error).__name__}"


def _read_back(
    most: int, connection: Connection
) -> tuple[int, list[str], list[tuple[LogId, EventRow]]]:
    """Return how many were read, those that are broken, and those whose bodies stand elsewhere."""
    read, broken, large = 0, list[str](), list[tuple[LogId, EventRow]]()
    newest = select(events).order_by(events.c.at.desc()).limit(most)
    for log_id, *columns in connection.execute(newest):
        seq, at, task_id, path, kind, body, blob_id = columns
        row = (seq, at, task_id, path, kind, body, blob_id)
        read += 1
        if blob_id is not None:
            large.append((log_id, row))
            continue
        try:
            record_of(log_id, row)
        except StoreCorrupt:
            broken.append(_named(log_id, seq))
    return read, broken, large


def _named(log_id: str, seq: int) -> str:
    return f"event {seq} of log {log_id!r}"


def _gaps(connection: Connection) -> tuple[str, ...]:
    found = func.count(events.c.seq)
    wanted = (
        select(logs.c.log_id, logs.c.head, found.label("found"))
        .outerjoin(events, events.c.log_id == logs.c.log_id)
        .group_by(logs.c.log_id, logs.c.head)
        .having(or_(found != logs.c.head, func.max(events.c.seq) != logs.c.head))
        .order_by(logs.c.log_id)
        .limit(MOST_NAMED)
    )
    return tuple(
        f"{_named(log_id, _first_gap(connection, log_id))}, which has {number} of {head}"
        for log_id, head, number in connection.execute(wanted).all()
    )


def _first_gap(connection: Connection, log_id: str) -> int:
    own = select(events.c.seq).where(events.c.log_id == log_id).order_by(events.c.seq)
    seqs = connection.execute(own).scalars().all()
    return next((wanted for wanted, seq in enumerate(seqs, 1) if seq != wanted), len(seqs) + 1)


def _problems(connection: Connection) -> tuple[str, ...]:
    if connection.dialect.name != "sqlite":
        return ()
    said = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return tuple(str(each) for each in said if each != _SOUND)


def _sizes(connection: Connection) -> tuple[int, ...]:
    return tuple(
        connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in (logs, events)
    )
