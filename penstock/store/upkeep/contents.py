"""Finds the blobs that a database names, and folds its logs again to check the lists.

Guarantees: `named_blobs` returns every blob that an event, a file or a medium of the database
names, also those that are named inside large bodies. `drifted` compares the rows of the lists with
the rows that the same events give when they are folded again, field by field.

How it works. Events are read in pages, by key, so a live database is never read in one long
transaction. A log is folded by the code that writes the lists (`ProjectionWriter.follow`), in a
database in memory. Any table with a column `blob_id` counts as naming blobs, so a new table needs
no change here.

Proof: tests/store/upkeep/test_contents.py.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection, Table, func, or_, select, tuple_

from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.events import Record
from penstock.core.ids import BlobId, LogId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.projections import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.references import NAMING, named_in
from penstock.store.rows import EventRows
from penstock.store.statements import Statements
from penstock.store.tables import (
    events,
    logs,
    loose_blobs,
    metadata,
    questions,
    sessions,
    tasks,
)

_PAGE = 500
"""Events in one read: at most 16 MB of bodies."""
LISTS = (tasks, sessions, questions)
"""The tables that follow from the logs."""
_HOLDERS = [
    each for each in metadata.sorted_tables if "blob_id" in each.c and each is not loose_blobs
]
_LOG = {tasks: tasks.c.log_id, sessions: sessions.c.session_id, questions: questions.c.log_id}
_SHA256 = re.compile(r"[0-9a-f]{64}")


async def named_blobs(database: Database, blobs: Blobs) -> Counter[BlobId]:
    """Return the blobs that the database names, with the number of rows that name each.

    `blobs` has the large bodies. One that is lost counts as named, but what it names is not known.
    """
    found = Counter[BlobId]()
    async for kind, body, blob_id in _naming_events(database):
        if blob_id is None:
            found.update(named_in(kind, body))
            continue
        found[blob_id] += 1
        if kind in NAMING and not body:  # an archived body names no blob
            with suppress(NotFound, StoreCorrupt):
                found.update(named_in(kind, (await blobs.get(blob_id)).decode()))
    for table in _HOLDERS:
        if table is not events:
            held = select(table.c.blob_id).where(table.c.blob_id.is_not(None))
            found.update(await database.read(partial(_column, held)))
    return Counter({each: number for each, number in found.items() if _SHA256.fullmatch(each)})


async def _naming_events(
    database: Database,
) -> AsyncGenerator[tuple[str, str, BlobId | None], None]:
    """Yield kind, body and blob of every event that can name blobs."""
    place: tuple[str, int] = ("", 0)
    key = tuple_(events.c.log_id, events.c.seq)
    names = or_(events.c.blob_id.is_not(None), events.c.kind.in_(NAMING))
    columns = (events.c.log_id, events.c.seq, events.c.kind, events.c.body, events.c.blob_id)
    while True:
        page = select(*columns).where(key > place, names).order_by(*key.clauses).limit(_PAGE)
        rows = await database.read(partial(_rows, page))
        for log_id, seq, kind, body, blob_id in rows:
            place = (log_id, seq)
            yield kind, body, blob_id
        if len(rows) < _PAGE:
            return


def _rows(statement: Any, connection: Connection) -> Sequence[Any]:
    return connection.execute(statement).all()


def _column(statement: Any, connection: Connection) -> Sequence[Any]:
    return connection.execute(statement).scalars().all()


# ---- the lists, folded again ----


class Folder:
    """Folds logs into the rows of the lists; made by `open_folder`."""

    def __init__(self, scratch: Database, limits: Limits) -> None:
        self._scratch = scratch
        self._projections = ProjectionWriter(Statements(scratch.dialect), limits)

    async def rows(self, log: Sequence[Any], records: Sequence[Record]) -> dict[str, Any]:
        """Return the rows that follow from a log, by table and key. `log` is its row in `logs`."""
        return await self._scratch.write(partial(self._fold, log, records))

    def _fold(
        self, log: Sequence[Any], records: Sequence[Record], connection: Connection
    ) -> dict[str, Any]:
        for table in (logs, *LISTS):
            connection.execute(table.delete())
        log_id, profile_id, agent, _ = log
        row = {"log_id": log_id, "profile_id": profile_id, "agent": agent}
        connection.execute(logs.insert().values(row))
        cursor = connection.connection.cursor()
        for record in records:
            if type(record.event) in HAVE_CONSEQUENCES:
                self._projections.follow(cursor, record)
        return list_rows(log_id, connection)


@asynccontextmanager
async def open_folder(limits: Limits) -> AsyncIterator[Folder]:
    """Open a database in memory to fold logs in, until the block ends."""
    scratch = await open_database("sqlite:///:memory:", limits=limits)
    try:
        yield Folder(scratch, limits)
    finally:
        await scratch.close()


def list_rows(log_id: LogId, connection: Connection) -> dict[str, Any]:
    """Return the rows of a log in the lists, by table and key."""
    return {
        f"{_noun(table)} {row[0]}": dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name
        for table in LISTS
        for row in connection.execute(select(table).where(_LOG[table] == log_id))
    }


def _noun(table: Table) -> str:
    return {"tasks": "task", "sessions": "conversation", "questions": "question"}[table.name]


async def drifted(
    database: Database,
    blobs: Blobs,
    *,
    most_events: int,
    most_logs: int = 2**31,
    skips_unreadable: bool = False,
) -> tuple[int, list[str]]:
    """Fold the newest logs again. Return how many, and how their rows differ from the fold.

    Reads logs until `most_events` are read. A log that cannot be read is reported, too, unless
    `skips_unreadable`.
    """
    newest = select(logs.c.log_id, logs.c.head).outerjoin(tasks, tasks.c.log_id == logs.c.log_id)
    newest = newest.group_by(logs.c.log_id, logs.c.head)
    newest = newest.order_by(func.max(tasks.c.created_at).desc()).limit(most_logs)
    count, left, differences = 0, most_events, list[str]()
    async with open_folder(database.limits) as folder:
        for log_id, head in await database.read(partial(_rows, newest)):
            if left <= 0:
                break
            left -= head
            count += 1
            try:
                differences += await _compared(database, blobs, folder, LogId(log_id))
            except StoreCorrupt as error:
                differences += () if skips_unreadable else (str(error),)
    return count, differences


async def _compared(
    database: Database, blobs: Blobs, folder: Folder, log_id: LogId
) -> Sequence[str]:
    log, rows, stored = await database.read(partial(_snapshot, log_id))
    if log is None:  # it was erased meanwhile
        return ()
    if len(rows) != log[3]:
        raise StoreCorrupt(f"log {log_id!r} has {len(rows)} events in place of {log[3]}")
    try:
        records = await EventRows(blobs).records(log_id, rows)
    except StoreCorrupt:
        if (await database.read(partial(_snapshot, log_id)))[0] is None:  # erased since then
            return ()
        raise
    folded = await folder.rows(log, records)
    return [
        f"{name} of log {log_id!r}: {_difference(stored.get(name), folded.get(name))}"
        for name in sorted({*stored, *folded})
        if stored.get(name) != folded.get(name)
    ]


def _snapshot(
    log_id: LogId, connection: Connection
) -> tuple[Sequence[Any] | None, Sequence[Any], dict[str, Any]]:
    """Return the row of a log, its events and its rows in the lists, as of one moment."""
    begin = "BEGIN"
    if connection.dialect.name == "postgresql":
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    connection.exec_driver_sql(begin)
    try:
        own = (logs.c.log_id, logs.c.profile_id, logs.c.agent, logs.c.head)
        log = connection.execute(select(*own).where(logs.c.log_id == log_id)).first()
        columns = [each for each in events.c if each is not events.c.log_id]
        of_log = select(*columns).where(events.c.log_id == log_id).order_by(events.c.seq)
        rows = [tuple(each) for each in connection.execute(of_log)]
        return (None if log is None else tuple(log)), rows, list_rows(log_id, connection)
    finally:
        connection.exec_driver_sql("ROLLBACK")


def _difference(stored: Any, folded: Any) -> str:
    if stored is None:
        return "is missing"
    if folded is None:
        return "is in the list, but not in the log"
    differing = [name for name in stored if stored[name] != folded[name]]
    return ", ".join(
        f"{name} is {stored[name]!r}, the log gives {folded[name]!r}" for name in differing
    )
