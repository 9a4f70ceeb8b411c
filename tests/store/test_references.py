"""Which blobs events name, which runs belong to a log, and which bytes a sweep deletes."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import StoreFull
from penstock.core.events.codec import encode, kind_of
from penstock.core.events.events import CallSettled, Entry, Event, MessageReceived, NoteEmitted
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import BlobId, LogId, MediaId, MessageId, ProfileId, TaskId
from penstock.core.limits import Limits
from penstock.core.messages import StoredFile
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import FileChange, MediaChange, WorkspaceChange
from penstock.store.blobs import Blobs, Disk
from penstock.store.bucket import open_bucket
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.sql_log import SqlLog
from penstock.store.references import NAMING, erased_since, files_of, named_in, waiter_of
from penstock.store.statements import Statements
from penstock.store.upkeep.sweeper import Sweeper
from penstock.store.values.changes import Changes
from penstock.testing.clock import FakeClock
from tests.kit.cancelled_put import cancelled_put
from tests.kit.log_entries import opened

ONE, TWO = BlobId("1" * 64), BlobId("2" * 64)
FILE = StoredFile(blob_id=ONE, mime_type="text/plain", size=1, is_image=False)
SETTLED = CallSettled(
    tool_id="t", envelope=Envelope.success(None), files=(FILE,), artifact_blob=TWO
)
TALK = LogId("conv_1")
ASKED = FlowRequested(
    command="look", profile_id=ProfileId("ann"), waiter_log=TALK, waiter=TaskId("task_1")
)


def test_an_outcome_names_its_files_and_its_whole_output() -> None:
    assert files_of(SETTLED) == named_in("call_settled", encode(SETTLED)) == {ONE, TWO}
    assert files_of(NoteEmitted(event_type="t")) == set()


def test_a_message_names_its_attachments() -> None:
    file = StoredFile(blob_id=ONE, mime_type="image/png", size=1, is_image=True)
    asked = MessageReceived(message_id=MessageId("m"), content="Hi", attachments=(file,))
    assert files_of(asked) == named_in("message_received", encode(asked)) == {ONE}


def test_blobs_named_in_a_broken_body_are_found_by_their_form() -> None:
    assert named_in("call_settled", f'{{"broken": "{ONE}') == {ONE}


def test_no_other_kind_of_event_names_a_blob() -> None:
    """`files_of` reads only outcomes and messages."""
    naming = {
        kind
        for kind in get_args(Event)
        if any("BlobId" in str(each) or "StoredFile" in str(each) for each in hints_of(kind))
    }
    assert naming == {CallSettled, MessageReceived}
    assert {kind_of(SETTLED), "message_received"} == set(NAMING)


def hints_of(kind: type) -> list[object]:
    return list(get_type_hints(kind).values())


@pytest.mark.parametrize(
    ("body", "waiter"),
    [
        (encode(ASKED), ("conv_1", "task_1")),
        ('{"command":"look","profile_id":"ann","task":"conv_1"}', (None, None)),
        ("", (None, None)),
        ("broken", (None, None)),
    ],
)
def test_a_run_belongs_to_the_call_that_waits_for_it(
    body: str, waiter: tuple[str | None, str | None]
) -> None:
    assert waiter_of("flow_requested", body) == waiter
    assert waiter_of("note_emitted", '{"event_type":"conv_1"}') == (None, None)


async def test_any_number_of_logs_is_compared_in_one_call(log: SqlLog, database: Database) -> None:
    many = [LogId(f"conv_{number}") for number in range(1100)]
    await asyncio.gather(*(log.send(each, [opened()]) for each in many[1:]))
    assert await database.read(partial(erased_since, dict.fromkeys(many, 0))) == {many[0]}


HOUR = 3600
SESSION = Scope(ScopeKind.SESSION, "ses_1")


@pytest.fixture
def blobs(clock: FakeClock) -> Blobs:
    return Blobs(open_bucket("memory:///"), clock)


@pytest.fixture
async def sweeper(database: Database, blobs: Blobs, clock: FakeClock) -> AsyncIterator[Sweeper]:
    swept = Sweeper(database, blobs, clock)
    yield swept
    await swept.close()


async def change(
    database: Database, clock: FakeClock, wanted: WorkspaceChange | MediaChange
) -> None:
    changes = Changes(Statements(database.dialect), Limits())
    await database.write(partial(changes.make, change=wanted, at=clock.now()))


def file(blob_id: BlobId | None, path: str = "a") -> WorkspaceChange:
    """Write a file, or remove it."""
    return WorkspaceChange(files=(FileChange(scope=SESSION, path=path, blob_id=blob_id, size=1),))


async def pass_by(database: Database, clock: FakeClock, seconds: float) -> None:
    """Let the clock move, and the threads of the database finish their work."""
    await clock.elapse(seconds)
    while not clock.sleepers:
        await database.read(lambda _: None)


async def test_the_bytes_of_a_removed_file_go_an_hour_later(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    gone, stays = await blobs.put(b"gone"), await blobs.put(b"stays")
    for blob_id in (gone, stays):
        await change(database, clock, file(blob_id))
    sweeper.open()
    await pass_by(database, clock, HOUR)
    assert await blobs.exists(gone)
    await pass_by(database, clock, HOUR)
    assert (await blobs.exists(gone), await blobs.exists(stays)) == (False, True)


async def test_bytes_that_were_put_again_are_kept_until_their_file_is_written(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    """A call puts bytes first; the file that names them comes with the call's outcome."""
    blob_id = await blobs.put(b"again")
    for wanted in (blob_id, None):
        await change(database, clock, file(wanted))
    clock.advance(2 * HOUR)
    await blobs.put(b"again")
    sweeper.open()
    await pass_by(database, clock, 0)
    assert await blobs.exists(blob_id)
    await change(database, clock, file(blob_id))
    await pass_by(database, clock, 3 * HOUR)
    assert await blobs.exists(blob_id)


async def test_the_hour_begins_when_the_last_file_goes(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    """Another task may be about to copy that one."""
    blob_id = await blobs.put(b"twice")
    for path in ("a", "b"):
        await change(database, clock, file(blob_id, path))
    await change(database, clock, file(None, "a"))
    clock.advance(2 * HOUR)
    await change(database, clock, file(None, "b"))
    sweeper.open()
    await pass_by(database, clock, HOUR)
    assert await blobs.exists(blob_id)
    await pass_by(database, clock, HOUR)
    assert not await blobs.exists(blob_id)


async def test_expired_media_are_deleted_without_a_new_upload(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    blob_id = await blobs.put(b"picture")
    media = MediaChange(
        media_id=MediaId("med_1"),
        profile_id=ProfileId("ann"),
        blob_id=blob_id,
        media_type="image/png",
        size=7,
        filename=None,
        expires_at=Moment(clock.now() + 1),
    )
    await change(database, clock, media)
    sweeper.open()
    for _ in range(4):
        await pass_by(database, clock, HOUR)
    assert not await blobs.exists(blob_id)


async def test_two_sweepers_do_not_delete_the_same_blobs(
    database: Database, blobs: Blobs, clock: FakeClock
) -> None:
    for number in range(10):
        await change(database, clock, file(await blobs.put(b"%d" % number)))
    clock.advance(HOUR)
    before, erasure = Moment(clock.now()), Erasure(database, blobs, clock)
    other = Erasure(database, blobs, clock)
    assert [await each.sweep(before=before) for each in (erasure, other)] == [9, 0]


def settled(envelope: Envelope, change: WorkspaceChange | MediaChange) -> Entry:
    event = CallSettled(tool_id="write", envelope=envelope, call_id=None)
    return Entry(event, TaskId("task_1"), None, change)


FAILED, MADE = ToolFailed("no").envelope(), Envelope.success(None)


async def settle_with(
    database: Database, clock: FakeClock, envelope: Envelope, change: WorkspaceChange | MediaChange
) -> Envelope:
    """Record a call with a change; returns what is written of it."""
    changes, entry = Changes(Statements(database.dialect), Limits()), settled(envelope, change)
    settle = partial(changes.settle, entry=entry, at=clock.now())
    written = await database.write(settle)
    assert isinstance(written.event, CallSettled)
    return written.event.envelope


async def test_bytes_of_a_call_that_failed_go_and_none_that_others_have(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    """It has put them before, and its file is never there; a copy names those of another file."""
    vain, kept = await blobs.put(b"vain"), await blobs.put(b"kept")
    assert await settle_with(database, clock, FAILED, file(vain, "v")) == FAILED
    assert await settle_with(database, clock, MADE, file(kept, "k")) == MADE
    assert await settle_with(database, clock, FAILED, file(kept, "copy")) == FAILED
    sweeper.open()
    await pass_by(database, clock, HOUR)
    assert await blobs.exists(vain)
    await pass_by(database, clock, 2 * HOUR)
    assert (await blobs.exists(vain), await blobs.exists(kept)) == (False, True)


async def test_bytes_of_a_file_that_could_not_be_made_go(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    there, below = await blobs.put(b"there"), await blobs.put(b"below")
    await settle_with(database, clock, MADE, file(there, "a"))
    assert not (await settle_with(database, clock, MADE, file(below, "a/b"))).ok
    sweeper.open()
    for _ in range(3):
        await pass_by(database, clock, HOUR)
    assert (await blobs.exists(below), await blobs.exists(there)) == (False, True)


async def test_bytes_that_failed_once_and_were_put_again_since_are_kept(
    database: Database, blobs: Blobs, clock: FakeClock, sweeper: Sweeper
) -> None:
    """The call that tries again may not have noted them yet."""
    blob_id = await blobs.put(b"again")
    await settle_with(database, clock, FAILED, file(blob_id))
    clock.advance(2 * HOUR)
    await blobs.put(b"again")
    sweeper.open()
    await pass_by(database, clock, 0)
    assert await blobs.exists(blob_id)


class FullBlobs(Blobs):
    """Blobs whose disk fails once."""

    fails = 1

    async def tidy(self, before: Moment) -> None:
        """Fail, the first time."""
        self.fails -= 1
        if self.fails >= 0:
            raise StoreFull


async def test_a_disk_that_fails_ends_no_sweeper(database: Database, clock: FakeClock) -> None:
    blobs = FullBlobs(open_bucket("memory:///"), clock)
    gone = await blobs.put(b"gone")
    for wanted in (gone, None):
        await change(database, clock, file(wanted))
    clock.advance(2 * HOUR)
    sweeper = Sweeper(database, blobs, clock)
    sweeper.open()
    await pass_by(database, clock, 0)
    assert await blobs.exists(gone)
    await pass_by(database, clock, HOUR)
    assert not await blobs.exists(gone)
    await sweeper.close()


@pytest.mark.parametrize("is_put_again", [False, True])
async def test_bytes_of_a_cancelled_put_go_unless_another_caller_puts_them(
    database: Database, clock: FakeClock, tmp_path: Path, *, is_put_again: bool
) -> None:
    """The second caller has not committed the event that names them when the sweep runs."""
    blobs, cut = await cancelled_put(tmp_path, b"text", clock)
    erasure = Erasure(database, blobs, clock)
    await erasure.sweep(before=clock.now())
    await clock.elapse(HOUR)
    if is_put_again:
        await Blobs(Disk(tmp_path), clock).put(b"text")
    await clock.elapse(1)
    await erasure.sweep(before=Moment(clock.now() - 1000))
    found = await Disk(tmp_path).find(cut)
    assert (found == b"text") is is_put_again


class RunningClock(FakeClock):
    """A clock that is a millisecond on at each look."""

    def now(self) -> Moment:
        """Return the time, and let some pass."""
        self.advance(0.001)
        return super().now()


async def test_a_cancelled_put_does_not_protect_its_bytes_from_a_sweep(
    database: Database, tmp_path: Path
) -> None:
    """An erasing sweeps without waiting; it leaves bytes that were put since then."""
    clock = RunningClock()
    blobs, cut = await cancelled_put(tmp_path, b"text", clock)
    await Erasure(database, blobs, clock).sweep()
    assert await Disk(tmp_path).find(cut) is None
