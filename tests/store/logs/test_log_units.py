"""Units of work on logs are pure functions of their connection, for they may run twice."""

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import Connection, delete, text

from penstock.core.clock import Moment
from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import Entry
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.lease_units import AcquireLease
from penstock.store.logs.log_units import (
    AppendUnit,
    LeaseProgress,
    SendUnit,
    append_all,
    drafts_of,
    insert_all,
    placed,
)
from penstock.store.logs.quarantine import Quarantine
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import ProjectionWriter
from penstock.store.statements import Statements
from penstock.store.tables import events, logs
from tests.kit.log_entries import CHAT, asked, cancelled, ended, message, note, opened, started

AT, UNTIL = Moment(1000), 4000
Unit = Callable[[Connection], object]


class Units:
    """Makes units about one log."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.sql = Statements(database.dialect)
        self._projections = ProjectionWriter(self.sql, Limits())

    def send(self, *entries: Entry) -> SendUnit:
        drafts = drafts_of(entries, AT)
        return SendUnit(self.sql, self._projections, CHAT, entries, drafts)

    def append(self, progress: LeaseProgress, *entries: Entry) -> AppendUnit:
        drafts, kinds = drafts_of(entries, AT), {type(each.event) for each in entries}
        parts = (self.sql, self._projections, CHAT, entries, kinds, drafts, UNTIL)
        return AppendUnit(*parts, progress)

    def take(self, owner: str) -> AcquireLease:
        return AcquireLease(self.sql, Quarantine(Limits()), CHAT, owner, AT, UNTIL)


@pytest.fixture
def units(database: Database, blobs: Blobs) -> Units:
    return Units(database, blobs)


def twice(unit: Unit) -> Unit:
    """Run the unit, undo it and run it again, as the writer does after a refusal."""

    def run(connection: Connection) -> object:
        connection.exec_driver_sql("SAVEPOINT first")
        first = unit(connection)
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT first")
        second = unit(connection)
        assert first == second
        return second

    return run


async def test_every_unit_is_repeatable(database: Database, units: Units) -> None:
    progress = LeaseProgress(epoch=1, written=0, known=2, outside=2)
    steps: list[tuple[Unit, object]] = [
        (units.send(opened(), message()), None),
        (units.take("me"), None),
        (units.append(progress, started(), asked()), None),
        (units.send(cancelled()), None),
        (units.append(LeaseProgress(1, 2, 4, 2), note("a")), None),
    ]
    for unit, expected in steps:
        done = await database.write(twice(unit))
        assert expected in (None, done)


async def test_an_append_returns_interleaved_outside_events(
    database: Database, units: Units
) -> None:
    await database.write(units.send(opened(), message()))
    await database.write(units.take("me"))
    await database.write(units.send(cancelled()))
    advance = await database.write(units.append(LeaseProgress(1, 0, 2, 2), started()))
    assert advance is not None
    assert (advance.head, advance.outside) == (4, 3)
    assert [row[0] for row in advance.slipped] == [3]


async def test_appends_that_are_made_together_are_those_made_one_by_one(
    database: Database, units: Units
) -> None:
    """What slipped in is read with what was written just before, by the same statement for all."""
    await database.write(units.send(opened(), message()))
    await database.write(units.take("me"))
    first = units.append(LeaseProgress(1, 0, 2, 2), started())
    await database.write(units.send(cancelled()))
    second = units.append(LeaseProgress(1, 1, 2, 2), note("a"), note("b"))
    lost = units.append(LeaseProgress(1, 1, 2, 2), note("not after the first"))
    third = units.append(LeaseProgress(1, 3, 4, 3), note("c"))
    done = await database.write(lambda each: append_all(each, [first, second, lost, third]))
    heads = [(each.head, [row[0] for row in each.slipped]) if each else None for each in done]
    assert heads == [(4, [3]), (6, [3, 4]), None, (7, [])]
    seqs = text("SELECT seq, kind FROM events WHERE seq > 3 ORDER BY seq")
    rows = await database.read(lambda each: each.execute(seqs).all())
    assert [tuple(row) for row in rows] == [
        (4, "task_started"),
        (5, "note_emitted"),
        (6, "note_emitted"),
        (7, "note_emitted"),
    ]


async def test_nothing_is_written_after_an_append_that_failed(
    database: Database, units: Units
) -> None:
    """What is on disk follows from what is on disk before it."""
    await database.write(units.send(opened(), message()))
    await database.write(units.take("me"))
    assert await database.write(units.append(LeaseProgress(1, 1, 2, 2), note("second"))) is None
    assert await database.write(units.append(LeaseProgress(1, 0, 2, 2), note("first"))) is not None


async def test_without_a_lease_nothing_is_appended(database: Database, units: Units) -> None:
    await database.write(units.send(opened(), message()))
    assert await database.write(units.append(LeaseProgress(1, 0, 2, 2), started())) is None


async def test_rows_are_numbered_from_the_first(units: Units) -> None:
    drafts = units.send(note("a"), note("b")).drafts
    assert [row[:3] for row in placed(CHAT, 7, drafts)] == [(CHAT, 7, AT), (CHAT, 8, AT)]


def lose(seq: int, connection: Connection) -> None:
    connection.execute(delete(events).where(events.c.log_id == CHAT, events.c.seq == seq))


async def five_events(log: SqlLog) -> None:
    await log.send(CHAT, [opened("A title"), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), note("x" * 1000), ended()])


READS: dict[str, tuple[dict[str, int], set[int]]] = {
    "all": ({}, {1, 2, 3, 4, 5}),
    "from the middle to the end": ({"after": 2}, {3, 4, 5}),
    "one from the middle": ({"after": 2, "limit": 1}, {3}),
    "the last, by its number": ({"after": 4, "limit": 1}, {5}),
    "more than there are": ({"after": 3, "limit": 50}, {4, 5}),
    "what is behind the last": ({"after": 5}, set()),
    "by size": ({"after": 3, "size": 10}, {4}),
}


@pytest.mark.parametrize("lost", [1, 3, 4, 5])
@pytest.mark.parametrize(("part", "seen"), READS.values(), ids=list(READS))
async def test_a_reader_misses_an_event_exactly_where_it_reads(
    part: dict[str, int], seen: set[int], lost: int, log: SqlLog, database: Database
) -> None:
    await five_events(log)
    await database.write(partial(lose, lost))
    if lost not in seen:
        assert {each.seq for each in await log.read(CHAT, **part)} == seen
        return
    with pytest.raises(StoreCorrupt, match=f"event {lost} of log 'conv_1' is missing"):
        await log.read(CHAT, **part)


@pytest.mark.parametrize("lost", [1, 3, 5])
@pytest.mark.parametrize(("after", "until"), [(0, 5), (2, 4), (0, 1), (4, 5), (5, 5)])
async def test_a_range_is_checked_without_its_bodies(
    after: int, until: int, lost: int, log: SqlLog, database: Database
) -> None:
    await five_events(log)
    await log.check(CHAT, after=after, until=until)
    await database.write(partial(lose, lost))
    if not after < lost <= until:
        await log.check(CHAT, after=after, until=until)
        return
    with pytest.raises(StoreCorrupt, match=f"event {lost} of log 'conv_1' is missing"):
        await log.check(CHAT, after=after, until=until)


async def test_a_deleted_log_requires_nothing(log: SqlLog, database: Database) -> None:
    await five_events(log)
    await database.write(lambda each: each.execute(delete(events)))
    await database.write(lambda each: each.execute(delete(logs)))
    assert await log.read(CHAT) == []
    await log.check(CHAT, after=0, until=5)
    await log.check(LogId("conv_none"), after=0, until=5)


@pytest.mark.parametrize("seqs", [[], [1], [1, 2, 3]])
async def test_one_row_and_many_are_inserted_alike(database: Database, seqs: list[int]) -> None:
    def unit(connection: Connection) -> object:
        rows = [("conv_1", seq, 0, None, None, "kind", "{}", None) for seq in seqs]
        insert_all(connection.connection.cursor(), Statements(database.dialect).insert, rows)
        found = connection.exec_driver_sql("SELECT log_id, seq, kind FROM events ORDER BY seq")
        return [tuple(row) for row in found]

    assert await database.write(unit) == [("conv_1", seq, "kind") for seq in seqs]
