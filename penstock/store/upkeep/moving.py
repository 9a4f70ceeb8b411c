"""Moves everything from one database to another: SQLite to Postgres, or back.

Guarantees: the source is complete until the target is: both have a mark while the move works, and
with the mark no process opens them. A move that was killed is run again from the beginning, or
ended (`abandon`); nothing is lost in either case. At the end every table has the same rows on both
sides, and the target's lists are what its events give.

How it works. Rows are copied in chunks, in the order of their primary keys; every chunk is one
transaction, and the marks make the whole atomic. Tables are compared by their counts and by a sum
of hashes, which does not depend on the order of rows: the two databases sort texts differently.

Relies on: no other process has the source or the target open. For a file, SQLite tells (see
`restore.py`); Postgres lists the names of the connected processes (`database.py`).
Proof: tests/store/upkeep/test_moving.py.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Table, func, select, tuple_

from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, NotFound, StoreCorrupt, StoreLocked
from penstock.core.text import count
from penstock.store.blobs import Blobs
from penstock.store.database import Database, Opening, file_of, open_database, parse_url, place_of
from penstock.store.logs.owners import is_dead
from penstock.store.schema import MOVED, MOVING, marks_of
from penstock.store.tables import installation, logs, metadata
from penstock.store.upkeep.backup_folder import Progress
from penstock.store.upkeep.contents import drifted, named_blobs
from penstock.store.upkeep.restore import held_alone

TABLES: Sequence[Table] = metadata.sorted_tables
_CHUNK = 500
"""Rows in one transaction: at most 16 MB of bodies."""
Row = dict[str, Any]
_OTHERS = """
SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'penstock %%' AND application_name <> current_setting('application_name')
"""
_encode = msgspec.json.Encoder(order="deterministic").encode


class Moved(Struct, frozen=True, kw_only=True):
    """The result of a move."""

    source: str
    target: str
    rows: dict[str, int]
    """By table."""
    digest: str
    """Of all rows, the same on both sides."""
    blobs: int = 0
    """How many were copied to another place."""


class Digest(Struct, frozen=True):
    """The number of rows of a table, and the sum of their hashes."""

    rows: int
    sum: int


class Move:
    """Moves one database; made by `open_move`."""

    def __init__(
        self, source: Database, target: Database, clock: Clock, progress: Progress
    ) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._progress = progress

    async def run(self, source_blobs: Blobs, target_blobs: Blobs | None) -> Moved:
        """Copy everything, verify it, and mark the source as moved.

        With `target_blobs` the blobs are copied there, too. Raises StoreLocked while another
        process works, ConfigError for a target with content, StoreCorrupt if both differ at the
        end; then the source is as before.
        """
        source, target = self._source, self._target
        await source.read(partial(_refuse_others, self._clock.now()))
        await target.read(partial(_refuse_content, target.place))
        await source.write(partial(_mark, MOVING, target.place))
        try:
            await target.write(partial(_empty, source.place))
            rows = await self._copy_tables()
            blobs = (
                0 if target_blobs is None else await self._copy_blobs(source_blobs, target_blobs)
            )
            digest = await self._verified(source_blobs, target_blobs or source_blobs)
        except BaseException:
            # as before; after a kill, the next run or `abandon` does this
            await asyncio.shield(source.write(_unmark))
            raise
        # In this order: a kill in between leaves a target that works, and a source that does not.
        await target.write(_unmark)
        await source.write(partial(_mark, MOVED, target.place))
        return Moved(
            source=source.place, target=target.place, rows=rows, digest=digest, blobs=blobs
        )

    async def _copy_tables(self) -> dict[str, int]:
        totals = [await self._source.read(partial(count_rows, table)) for table in TABLES]
        done, total, copied = 0, sum(totals), dict[str, int]()
        for table in TABLES:
            place: Any = None
            copied[str(table.name)] = 0
            while rows := await self._source.read(partial(chunk, table, place)):
                await self._target.write(partial(insert, table, rows))
                place = place_after(table, rows)
                copied[str(table.name)] += len(rows)
                done += len(rows)
                self._progress("rows", done, total)
        return copied

    async def _copy_blobs(self, source: Blobs, target: Blobs) -> int:
        named = await named_blobs(self._source, source)
        copied = 0
        for blob_id, times in named.items():
            self._progress("blobs", copied, len(named))
            try:
                await target.put(await source.get(blob_id))
            except NotFound:  # it was lost before; `penstock doctor` names it
                continue
            if times > 1 or await source.is_shared(blob_id):
                await target.share(blob_id)
            copied += 1
        return copied

    async def _verified(self, source_blobs: Blobs, target_blobs: Blobs) -> str:
        """Compare all tables, and fold the target's logs. Return the digest of both sides."""
        whole = sha256()
        for table in TABLES:
            self._progress("verifying", TABLES.index(table), len(TABLES))
            both = [await _digest(each, table) for each in (self._source, self._target)]
            if both[0] != both[1]:
                raise StoreCorrupt(
                    f"the table {table.name} has {both[0].rows} rows in {self._source.place} and"
                    f" {both[1].rows} in {self._target.place}, or their contents differ. The source"
                    " is unchanged"
                )
            whole.update(_encode([str(table.name), both[0].rows, str(both[0].sum)]))
        found = await drifted(self._target, target_blobs, most_events=2**62)
        if found[1] and found != await drifted(self._source, source_blobs, most_events=2**62):
            raise StoreCorrupt(
                f"the lists of {self._target.place} are not what its events give:"
                f" {found[1][0]}. The source is unchanged"
            )
        self._progress("verifying", len(TABLES), len(TABLES))
        return whole.hexdigest()


async def open_move(
    source_url: str, target_url: str, clock: Clock, progress: Progress
) -> tuple[Move, Sequence[Database]]:
    """Open both sides. Raises ConfigError, and StoreLocked if a process has a file open."""
    if parse_url(source_url) == parse_url(target_url):
        raise ConfigError(f"the project uses {place_of(parse_url(source_url))} already")
    for url in (source_url, target_url):
        file = file_of(parse_url(url))
        if file is not None and file.exists():
            await asyncio.to_thread(_check_alone, file)
    source = await open_database(source_url, how=Opening.TO_MOVE)
    try:
        target = await open_database(target_url, how=Opening.TO_MOVE)
    except BaseException:
        await source.close()
        raise
    return Move(source, target, clock, progress), (source, target)


async def abandon(url: str) -> bool:
    """Remove the mark of an interrupted move from a source. Return whether it had one."""
    database = await open_database(url, how=Opening.TO_MOVE)
    try:
        has_mark = MOVING in await database.read(marks_of)
        if has_mark:
            await database.write(_unmark)
        return has_mark
    finally:
        await database.close()


def _check_alone(file: Any) -> None:
    with held_alone(file):
        pass


def _refuse_others(now: int, connection: Connection) -> None:
    """Raise StoreLocked if another process works on the database, or is connected to Postgres."""
    if MOVED in (marks := marks_of(connection)):
        raise ConfigError(f"this database was moved to {marks[MOVED]}")
    columns = select(logs.c.log_id, logs.c.owner)
    held = columns.where(logs.c.owner.is_not(None), logs.c.lease_until > now)
    rows = [row for row in connection.execute(held).all() if not is_dead(row.owner)]
    if rows:
        raise StoreLocked(
            f"{rows[0].owner} works on {rows[0].log_id}"
            + (f" and {count(len(rows) - 1, 'other log')}" if len(rows) > 1 else "")
            + ". Stop `penstock serve` and every other command of the project, and try again"
        )
    if connection.dialect.name == "postgresql" and (
        others := connection.exec_driver_sql(_OTHERS).scalars().all()
    ):
        raise StoreLocked(
            f"other processes are connected: {', '.join(others)}. Stop `penstock serve` and every"
            " other command of the project, and try again"
        )


def _refuse_content(place: str, connection: Connection) -> None:
    if marks_of(connection):  # of a move that was cut, or that is undone by this one
        return
    for table in TABLES:
        if table is not installation and (rows := count_rows(table, connection)):
            raise ConfigError(
                f"{place} is not empty: it has {count(rows, 'row')} in {table.name}. Name an empty"
                " database; nothing was changed"
            )


def _mark(name: str, place: str, connection: Connection) -> None:
    _unmark(connection)
    value = {"name": name, "value": place.encode()}
    connection.execute(installation.insert().values(value))


def _unmark(connection: Connection) -> None:
    connection.execute(installation.delete().where(installation.c.name.in_((MOVING, MOVED))))


def _empty(source: str, connection: Connection) -> None:
    """Delete all rows of the target, and mark it."""
    empty(connection)
    _mark(MOVING, source, connection)


# ---- rows of tables, which the backup of a Postgres database copies, too ----


def count_rows(table: Table, connection: Connection) -> int:
    """Return how many rows a table has."""
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def chunk(table: Table, place: Any, connection: Connection) -> list[Row]:
    """Return the next rows after a primary key, without marks; None is before the first one."""
    key = tuple_(*table.primary_key)
    rows = select(table).order_by(*table.primary_key).limit(_CHUNK)
    if place is not None:
        rows = rows.where(key > place)
    if table is installation:
        rows = rows.where(installation.c.name.not_in((MOVING, MOVED)))
    return [dict(each) for each in connection.execute(rows).mappings()]


def place_after(table: Table, rows: Sequence[Row]) -> Any:
    """Return the primary key of the last row."""
    return tuple(rows[-1][each.name] for each in table.primary_key)


def insert(table: Table, rows: Sequence[Row], connection: Connection) -> None:
    """Add rows to a table."""
    connection.execute(table.insert(), rows)


def empty(connection: Connection) -> None:
    """Delete all rows of all tables."""
    for table in reversed(TABLES):
        connection.execute(table.delete())


async def _digest(database: Database, table: Table) -> Digest:
    number, total, place = 0, 0, None
    while rows := await database.read(partial(chunk, table, place)):
        for row in rows:
            total += int.from_bytes(sha256(_encode(list(row.values()))).digest()[:16], "big")
        number += len(rows)
        place = place_after(table, rows)
    return Digest(number, total % 2**128)
