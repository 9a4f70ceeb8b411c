"""Events as rows, and back; large bodies that no event names after all are swept."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost, NameTaken, StoreCorrupt
from penstock.core.events.events import (
    CallSettled,
    Entry,
    MessageReceived,
    NoteEmitted,
    Record,
)
from penstock.core.ids import BlobId, LogId, MessageId, ProfileId, TaskId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import FileChange, StateChange, StateVerb, WorkspaceChange
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.log_units import EventDrafts, drafts_of
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import Page
from penstock.store.rows import (
    EventRows,
    Row,
    check_columns,
    moment_or_first,
    record_of,
    records_of,
)
from penstock.store.sql_projections import SqlProjections
from penstock.store.statements import Statements
from penstock.store.tables import events, loose_blobs
from penstock.store.values.changes import loosen
from penstock.testing.clock import FakeClock, settle
from tests.kit.log_entries import ANN, CHAT, ONE, asked, held, message, opened, settled, started

LOG = LogId("conv_1")
AT = Moment(5)
EMPTY = len('{"event_type":"t","message":""}')


def note(text: str) -> Entry:
    return Entry(NoteEmitted(event_type="t", message=text), TaskId("task_1"))


@pytest.fixture
def rows(blobs: Blobs) -> EventRows:
    return EventRows(blobs)


@pytest.fixture
def drafts(blobs: Blobs) -> EventDrafts:
    return EventDrafts(blobs, body_bytes=EMPTY + 10)


SIZES = [("x" * 10, True), ("x" * 11, False), ("é" * 5, True), ("é" * 6, False)]


@pytest.mark.parametrize(("text", "stays"), SIZES)
async def test_a_body_over_its_limit_in_bytes_goes_to_the_blobs(
    drafts: EventDrafts, text: str, *, stays: bool
) -> None:
    made, are_small = drafts.from_entries([note(text)], AT)
    assert are_small is stays
    ((*_, body, blob_id),) = await drafts.put_away(made)
    assert (blob_id is None, body != "") == (stays, stays)


async def test_large_and_small_bodies_read_back_alike(rows: EventRows, drafts: EventDrafts) -> None:
    entries = [note("small"), note("x" * 100), note("é" * 100)]
    made = await drafts.put_away(drafts_of(entries, AT))
    stored: list[Row] = [(seq, *draft) for seq, draft in enumerate(made, 1)]
    expected = [
        Record(LOG, seq, AT, entry.task_id, None, entry.event)
        for seq, entry in enumerate(entries, 1)
    ]
    assert await rows.records(LOG, stored) == expected
    assert records_of(LOG, stored) is None, "some bodies are elsewhere"
    assert records_of(LOG, stored[:1]) == expected[:1]


BROKEN = [("note_emitted", "{"), ("note_emitted", "[]"), ("note_emitted", "{}"), ("no_kind", "{}")]


@pytest.mark.parametrize(("kind", "body"), BROKEN)
def test_a_row_that_does_not_read_back_is_named(kind: str, body: str) -> None:
    with pytest.raises(StoreCorrupt, match="event 7 of log 'conv_1' cannot be read"):
        record_of(LOG, (7, AT, None, None, kind, body, None))


async def test_a_row_whose_blob_is_missing_is_named(rows: EventRows) -> None:
    gone: Row = (7, AT, None, None, "note_emitted", "", BlobId("0" * 64))
    with pytest.raises(StoreCorrupt, match=r"event 7 of log 'conv_1'.*no blob"):
        await rows.records(LOG, [gone])


# ---- bodies that no event names ----


def file_written(output: str) -> Entry:
    """Return the large outcome of a call that also writes a file."""
    write = FileChange(scope=Scope(ScopeKind.SESSION, CHAT), path="a", blob_id=BlobId("0" * 64))
    outcome = settled(output)
    return Entry(outcome.event, ONE, outcome.path, WorkspaceChange(files=(write,)))


async def loose(database: Database, fewest: int = 0) -> set[str]:
    """Return the rows that a sweep reads, once there are this many."""
    while len(found := await database.read(loose_ids)) < fewest:
        await settle()
    return found


def loose_ids(connection: Connection) -> set[str]:
    return set(connection.execute(select(loose_blobs.c.blob_id)).scalars())


async def bodies(database: Database) -> set[str]:
    named = select(events.c.blob_id).where(events.c.blob_id.is_not(None))
    return set(await database.read(lambda each: each.execute(named).scalars().all()))


async def test_a_large_outcome_that_names_what_its_change_replaced_is_in_its_row(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock
) -> None:
    """The transaction of the change adds it, when the blob of the outcome is written already."""
    lease = await held(log)
    (record,) = await log.append(lease, [file_written("x" * 1000)])
    assert isinstance(record.event, CallSettled)
    assert [each.name for each in record.event.replaced] == ["a"]
    assert await bodies(database) == set()
    (left,) = await loose(database)
    await Erasure(database, blobs, clock).sweep()
    assert not await blobs.exists(BlobId(left))
    assert (await log.read(CHAT, after=record.seq - 1)) == [record]


async def test_a_large_outcome_that_becomes_another_is_swept(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock
) -> None:
    """What the change gave takes the place of what the tool said."""
    lease = await held(log)
    put = StateChange(
        verb=StateVerb.PUT, scope=Scope(ScopeKind.SESSION, CHAT), key="k", revision="r", value=1
    )
    outcome = settled("x" * 1000)
    await log.append(lease, [Entry(outcome.event, ONE, outcome.path, put)])
    (left,) = await loose(database)
    assert await blobs.exists(BlobId(left))
    await Erasure(database, blobs, clock).sweep()
    assert not await blobs.exists(BlobId(left))


async def test_bodies_that_were_refused_are_swept(
    database: Database, log: SqlLog, blobs: Blobs, clock: FakeClock
) -> None:
    lease = await held(log)
    large = MessageReceived(message_id=MessageId("m"), content="é" * 1000)
    with pytest.raises(NameTaken):
        await log.send(CHAT, [Entry(large, ONE)])
    surrender = Statements(database.dialect).surrender
    await database.write(lambda each: each.exec_driver_sql(surrender, (CHAT, lease.epoch)))
    assert await SqlLog(database, blobs, clock).acquire(CHAT, "another")
    late = log.append(lease, [note("x" * 1000)])
    with pytest.raises(LeaseLost):
        await late
    left = await loose(database, fewest=2)
    await Erasure(database, blobs, clock).sweep()
    assert not [each for each in left if await blobs.exists(BlobId(each))]


async def test_a_body_that_an_event_names_after_all_is_left(
    database: Database, log: SqlLog, drafts: EventDrafts, blobs: Blobs, clock: FakeClock
) -> None:
    """The answer to a commit may be lost, and the append is refused when it is made again."""
    await log.append(await held(log), [note("x" * 1000)])
    (named,) = await bodies(database)
    await drafts.share([BlobId(named)])
    await database.write(lambda connection: loosen(connection, [named], AT))
    await Erasure(database, blobs, clock).sweep()
    assert await blobs.exists(BlobId(named))


WRONG: list[Any] = ["odd", b"\xff\xfe", -1, 2**62, 3.5, "9" * 40]
OTHER = LogId("conv_2")
COLUMNS = [
    *(("tasks", name) for name in ("created_at", "started_at", "first_seq", "ended_seq")),
    *(("sessions", name) for name in ("created_at", "updated_at", "message_count")),
    *(("questions", name) for name in ("asked_at", "asked_seq", "answered_at")),
    *(("logs", name) for name in ("head", "wake_at", "recoveries", "tried_at", "epoch")),
    ("events", "at"),
]


@pytest.mark.parametrize("value", [*WRONG, None, 0, "text"], ids=repr)
def test_a_column_holds_its_kind_or_nothing(value: Any) -> None:
    row = SimpleNamespace(at=value, seq=value, name=value)
    for names, good in (
        ({"moments": ("at",)}, {None, 0}),
        ({"numbers": ("seq",)}, {None, 0}),
        ({"texts": ("name",)}, {None, "text", "odd", "9" * 40}),
    ):
        usual = {"moments": (), "numbers": (), "texts": ()}
        if value in good:
            check_columns(row, **(usual | names))
            continue
        with pytest.raises(StoreCorrupt, match=r"must contain (a time|a number|text), found"):
            check_columns(row, **(usual | names))


def test_a_moment_that_is_none_is_the_first() -> None:
    assert [moment_or_first(each) for each in (*WRONG, None)] == [0] * 7
    assert moment_or_first(1_795_406_660_583) == 1_795_406_660_583


def put(table: str, column: str, value: Any, connection: Connection) -> None:
    key = "session_id" if table == "sessions" else "log_id"
    statement = f"UPDATE {table} SET {column} = :value WHERE {key} = 'conv_1'"  # noqa: S608
    connection.execute(text(statement), {"value": value})


@pytest.mark.chaos
@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
async def test_lists_show_the_neighbours_of_a_damaged_row(
    table: str, column: str, value: Any, sqlite: Database, blobs: Blobs, clock: FakeClock
) -> None:
    log = SqlLog(sqlite, blobs, clock)
    for log_id in (CHAT, OTHER):
        await log.send(log_id, [opened("A title", profile_id=ANN)])
    await log.send(CHAT, [message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked()])
    await sqlite.write(partial(put, table, column, value))
    projections = SqlProjections(sqlite, blobs)
    shown, _ = await projections.sessions(profile_id=ProfileId(ANN), page=Page())
    assert OTHER in {LogId(each.session_id) for each in shown}
    assert {each.task_id for each in (await projections.tasks(page=Page()))[0]} <= {ONE}
    assert len((await projections.questions(page=Page()))[0]) <= 1
    assert OTHER in {each.log_id for each in await log.pending(limit=10)}


async def test_only_events_from_outside_are_read_as_such(rows: EventRows) -> None:
    own = (1, Moment(0), None, None, "note_emitted", '{"event_type":"t"}', None)
    slipped = (2, Moment(0), None, None, "cancel_requested", "{}", None)
    assert [each.seq for each in await rows.outside(LOG, [own, slipped])] == [2]
