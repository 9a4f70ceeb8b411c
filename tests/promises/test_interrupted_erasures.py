"""An interrupted erasure is finished by the next sweep, or by the same request."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, select

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import StoreFull
from penstock.core.events.events import CallSettled, Entry
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import ArtifactId, BlobId, LogId, MediaId, TaskId
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import (
    Change,
    FileChange,
    MediaChange,
    StateChange,
    StateVerb,
    WorkspaceChange,
)
from penstock.store.blobs import Blobs, Disk
from penstock.store.database import Database, open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.log import Lease
from penstock.store.logs.sql_log import SqlLog
from penstock.store.references import LooseBlob, erased, erased_at, forget, release_erased
from penstock.store.tables import state
from penstock.store.upkeep.sweeper import Sweeper
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import ANN, CHAT, ONE, ended, held, opened, started

SECRET = "sesame"  # noqa: S105  what is to be erased
HOUR = 3600
CONVERSATION = Scope(ScopeKind.SESSION, CHAT)
PROFILE = Scope(ScopeKind.PROFILE, ANN)


class BrittleBlobs(Blobs):
    """Blobs that cannot be deleted while broken, and that report each read."""

    is_broken = False
    on_read: Callable[[], Awaitable[None]] | None = None

    async def delete(self, blob_id: BlobId) -> None:
        """Delete, unless it is broken."""
        if self.is_broken:
            raise StoreFull
        await super().delete(blob_id)

    async def get(self, blob_id: BlobId) -> bytes:
        """Run an action the first time."""
        on_read, self.on_read = self.on_read, None
        if on_read is not None:
            await on_read()
        return await super().get(blob_id)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A new database, on SQLite and on Postgres."""
    opened = await open_database(database_url, synchronous="NORMAL", limits=Limits(body_bytes=200))
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, synchronous="NORMAL")
    yield opened
    await opened.close()


@pytest.fixture
def log(database: Database, blobs: Blobs, clock: FakeClock) -> SqlLog:
    return SqlLog(database, blobs, clock)


@pytest.fixture
def blobs(tmp_path: Path, clock: FakeClock) -> BrittleBlobs:
    return BrittleBlobs(Disk(tmp_path / "blobs"), clock)


@pytest.fixture
def erasure(database: Database, blobs: BrittleBlobs, clock: FakeClock) -> Erasure:
    return Erasure(database, blobs, clock)


@pytest.fixture
async def sweep_once(
    database: Database, erasure: Erasure, blobs: BrittleBlobs, clock: FakeClock
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Do what a process does first, before any time has passed."""
    sweeper = Sweeper(database, blobs, clock, erasure=erasure)

    async def sweep() -> None:
        sweeper.open()
        while not clock.sleepers:
            await database.read(lambda _: None)

    yield sweep
    await sweeper.close()


def kept(blobs: Blobs) -> list[str]:
    """Return the names of the blobs in which the word is."""
    assert blobs.folder is not None
    files = [each for each in blobs.folder.rglob("*") if each.is_file()]
    return [each.name for each in files if SECRET.encode() in each.read_bytes()]


async def outcome(blobs: Blobs, name: str, *, size: int = 1) -> Entry:
    """Return a result of this size that is stored outside the log."""
    artifact = await blobs.put(f"{SECRET} {name}".encode())
    done = Envelope.success(f"{SECRET} {name} " * size)
    settled = CallSettled(
        tool_id="t", envelope=done, artifact_id=ArtifactId(name), artifact_blob=artifact
    )
    return Entry(settled, ONE, CallPath(f"task_1/1/t#{name}"))


def with_change(entry: Entry, change: Change) -> Entry:
    return Entry(entry.event, entry.task_id, entry.path, change)


async def talk(log: SqlLog, blobs: Blobs) -> Lease:
    """Leave the word in large bodies, in a result, in a file and in media."""
    lease = await held(log)
    file = await blobs.put(f"{SECRET} in a file".encode())
    picture = await blobs.put(f"{SECRET} in a picture".encode())
    write = FileChange(scope=CONVERSATION, path="a", blob_id=file, size=1)
    keep = MediaChange(
        media_id=MediaId("med_1"),
        profile_id=ANN,
        blob_id=picture,
        media_type="image/png",
        size=1,
        filename=None,
        expires_at=Moment(1 << 50),
    )
    entries = [
        started(),
        await outcome(blobs, "large", size=100),
        with_change(await outcome(blobs, "one"), WorkspaceChange(files=(write,))),
        with_change(await outcome(blobs, "two"), keep),
    ]
    await log.append(lease, entries)
    return lease


async def erase_messages(erasure: Erasure) -> None:
    await erasure.erase_messages(CHAT, ONE, user=True, answer=True)


async def erase_log(erasure: Erasure) -> None:
    await erasure.erase_log(CHAT)


async def erase_profile(erasure: Erasure) -> None:
    await erasure.erase_profile(ANN)


@pytest.mark.parametrize(
    ("erase", "left"), [(erase_messages, 2), (erase_log, 1), (erase_profile, 0)]
)
async def test_the_next_process_deletes_blobs_that_were_left(
    log: SqlLog,
    blobs: BrittleBlobs,
    erasure: Erasure,
    sweep_once: Callable[[], Awaitable[None]],
    erase: Callable[[Erasure], Awaitable[None]],
    left: int,
) -> None:
    """Erased data is due at once, without an hour of grace. Files and media of others remain."""
    await log.append(await talk(log, blobs), [ended()])
    assert len(kept(blobs)) == 6
    blobs.is_broken = True
    with pytest.raises(StoreFull):
        await erase(erasure)
    assert len(kept(blobs)) == 6
    blobs.is_broken = False
    await sweep_once()
    assert len(kept(blobs)) == left


@contextmanager
def cut_at(statement: str, number: int) -> Iterator[None]:
    """Fail a statement after this many with the same beginning."""
    seen = 0

    def fail(connection: Any, cursor: Any, sql: str, *_: Any) -> None:
        nonlocal seen
        if sql.startswith(statement):
            seen += 1
            if seen > number:
                raise StoreFull

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", fail)


async def begin_runs(log: SqlLog, *waiters: LogId) -> list[LogId]:
    """Begin a run for a call of each of these logs."""
    runs = [LogId(f"run_{number}") for number, _ in enumerate(waiters)]
    for run, waiter in zip(runs, waiters, strict=True):
        asked = FlowRequested(
            command="look", profile_id=ANN, task=SECRET, waiter_log=waiter, waiter=ONE
        )
        await log.send(run, [Entry(asked, TaskId(run))])
    return runs


@pytest.mark.parametrize("deleted", range(4))
async def test_the_same_request_finds_the_runs_that_a_crash_left(
    log: SqlLog, erasure: Erasure, deleted: int
) -> None:
    await held(log)
    waiters = (CHAT, LogId("run_0"), LogId("run_1"))
    every = [CHAT, *await begin_runs(log, *waiters)]
    with cut_at("DELETE FROM logs", deleted), pytest.raises(StoreFull):
        await erasure.erase_log(CHAT)
        raise StoreFull  # nothing is cut if all four went
    left = [each for each in every if await log.head(each)]
    assert left == every[: 4 - deleted]
    assert await erasure.erase_log(CHAT) >= set(left)
    assert [each for each in every if await log.head(each)] == []


async def test_a_message_is_erased_after_its_runs(log: SqlLog, erasure: Erasure) -> None:
    """A repeated request finds the message, and with it the runs."""
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    runs = await begin_runs(log, CHAT, LogId("run_0"))
    with cut_at("DELETE FROM logs", 1), pytest.raises(StoreFull):
        await erase_messages(erasure)
    events = [each.event for each in await log.read(CHAT)]
    assert not [each for each in events if isinstance(each, MessagesErased)]
    assert await erasure.erase_messages(CHAT, ONE, answer=True) == {runs[0]}
    assert [await log.head(each) for each in runs] == [0, 0]


async def test_events_appended_during_an_erasure_are_erased(
    log: SqlLog, blobs: BrittleBlobs, erasure: Erasure
) -> None:
    """One result is in the log and one in the blob store; both refer to bytes."""
    lease = await talk(log, blobs)
    more = [await outcome(blobs, "small"), await outcome(blobs, "more", size=100)]

    async def append() -> None:
        await log.append(lease, more)

    blobs.on_read = append
    await erasure.erase_log(CHAT)
    assert blobs.on_read is None
    assert len(kept(blobs)) == 1  # the picture is the profile's


async def test_writes_for_a_profile_during_its_erasure_are_erased(
    log: SqlLog, database: Database, blobs: BrittleBlobs, erasure: Erasure
) -> None:
    lease = await talk(log, blobs)
    put = StateChange(verb=StateVerb.PUT, scope=PROFILE, key="k", revision="r", value=SECRET)
    file = FileChange(scope=PROFILE, path="b", blob_id=await blobs.put(b"sesame b"), size=1)
    last = [
        with_change(await outcome(blobs, "put"), put),
        with_change(await outcome(blobs, "write"), WorkspaceChange(files=(file,))),
    ]

    async def append() -> None:
        await log.append(lease, last)

    blobs.on_read = append
    await erasure.erase_profile(ANN)
    assert blobs.on_read is None
    assert kept(blobs) == []
    assert await database.read(lambda each: each.execute(select(state)).all()) == []


async def test_freed_pages_are_overwritten_when_the_next_process_starts(
    sqlite: Database, blobs: BrittleBlobs, clock: FakeClock
) -> None:
    """The process ended after the rows were deleted: the write-ahead log has them yet."""

    def add(connection: Connection) -> None:
        row = ("profile", "ann", b"k", f'"{SECRET}"', "rev_1", None)
        connection.execute(state.insert().values(row))

    def drop(connection: Connection) -> None:
        connection.execute(state.delete())
        release_erased(connection, (), erased_at(clock.now()))

    for unit in (add, drop):
        await sqlite.write(unit)
    assert is_in_wal(sqlite)
    await Erasure(sqlite, blobs, clock).finish()
    assert not is_in_wal(sqlite)
    assert await sqlite.read(erased) == []


def is_in_wal(database: Database) -> bool:
    """Whether the word is in the write-ahead log."""
    return SECRET.encode() in Path(f"{database.place}-wal").read_bytes()


async def test_bytes_that_are_released_again_stay_recorded(
    database: Database, clock: FakeClock
) -> None:
    """Of two who erase at once, the first leaves the note of the second."""

    async def give_up() -> Sequence[LooseBlob]:
        due = erased_at(clock.now())
        await database.write(partial(release_erased, blob_ids=[BlobId("1" * 64)], due=due))
        clock.advance(1)
        return await database.read(erased)

    first, second = await give_up(), await give_up()
    await database.write(partial(forget, first))
    assert await database.read(erased) == second
    assert {each.blob_id for each in second} == {"", "1" * 64}


CUTS = (
    "DELETE FROM loose_blobs",
    "UPDATE loose_blobs",
    "VACUUM",
    "PRAGMA wal_checkpoint(TRUNCATE)",
)
"""Statements of what follows when rows are gone, in their order."""


@pytest.mark.parametrize("statement", CUTS)
async def test_an_interrupted_erasure_is_finished_at_the_next_start(
    sqlite: Database,
    blobs: BrittleBlobs,
    clock: FakeClock,
    statement: str,
) -> None:
    """The files that the task removed at its end wait for a sweep: nothing else names them."""
    log, erasure = SqlLog(sqlite, blobs, clock), Erasure(sqlite, blobs, clock)
    lease = await talk(log, blobs)
    scope, bytes_of = Scope(ScopeKind.TASK, ONE), await blobs.put(f"{SECRET} of a task".encode())
    write = FileChange(scope=scope, path="t", blob_id=bytes_of, size=1)
    await log.append(
        lease, [with_change(await outcome(blobs, "t"), WorkspaceChange(files=(write,)))]
    )
    await log.append(lease, [ended()])
    with cut_at(statement, 0), pytest.raises(StoreFull):
        await erasure.erase_log(CHAT)
    assert await log.head(CHAT) == 0
    sweeper = Sweeper(sqlite, blobs, clock)
    sweeper.open()
    while not clock.sleepers:
        await sqlite.read(lambda _: None)
    await sweeper.close()
    assert (len(kept(blobs)), is_in_wal(sqlite), await sqlite.read(erased)) == (1, False, [])


async def test_bytes_that_a_task_puts_again_while_they_are_erased_are_left_to_it(
    log: SqlLog, blobs: BrittleBlobs, erasure: Erasure, clock: FakeClock
) -> None:
    """Its event is not committed yet, so nothing but the time of the put shows it."""
    lease = await talk(log, blobs)
    await log.append(lease, [await outcome(blobs, "large"), ended()])
    await log.send(LogId("conv_2"), [opened(), await outcome(blobs, "other", size=100)])
    read, words = list[None](), f"{SECRET} large".encode()

    async def put_again() -> None:
        """Act at the second read: the first one is of the log that goes."""
        if not read:
            read.append(None)
            blobs.on_read = put_again
            return
        clock.advance(1)
        await blobs.put(words)

    blobs.on_read = put_again
    await erasure.erase_log(CHAT)
    assert blobs.on_read is None
    assert await blobs.exists(BlobId(sha256(words).hexdigest()))
