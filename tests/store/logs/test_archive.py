"""The archive: old bodies move into compressed blobs, and every reader gets the same events."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import func, select, update

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import CallSettled, Entry, Record
from penstock.core.ids import BlobId, CallId, TaskId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs
from penstock.store.database import Database, open_database
from penstock.store.erasure import Erasure
from penstock.store.logs.archive import Archive, ArchivedPart
from penstock.store.logs.sql_log import SqlLog
from penstock.store.references import LOOSE_SECONDS
from penstock.store.repair import read_back, rebuild
from penstock.store.rows import body_at, packed, unpacked
from penstock.store.tables import events, logs, loose_blobs
from penstock.store.upkeep.contents import named_blobs
from penstock.store.upkeep.sweeper import ARCHIVE_PAUSE_SECONDS, Sweeper
from penstock.testing.clock import FakeClock, settle
from tests.kit.log_entries import CHAT, ONE, ended, held, message, started

LATER = Moment(2**50)
WORD = "pineapple"


def call(number: int, task_id: TaskId, text: str) -> Entry:
    output = text * 40 + f" {number}"
    settled = CallSettled(
        tool_id="look",
        envelope=Envelope.success(output),
        call_id=CallId(f"c{number}"),
        context=output,
    )
    return Entry(settled, task_id, CallPath(f"{task_id}/{number}/look#1"))


class Old:
    """A long log, and what moves its bodies."""

    def __init__(self, log: SqlLog, database: Database, blobs: Blobs, clock: FakeClock) -> None:
        self.log, self.database, self.blobs, self.clock = log, database, blobs, clock
        self.archive = Archive(database, blobs, clock)
        self.erasure = Erasure(database, blobs, clock)

    async def fill(self, tasks: int = 3, calls: int = 200) -> Sequence[Record]:
        lease = await held(self.log)
        for number in range(1, tasks + 1):
            task_id = TaskId(f"task_{number}")
            if number > 1:
                await self.log.send(CHAT, [message(task_id)])
            text = WORD if number == 2 else "lemon "
            work = [call(each, task_id, text) for each in range(calls)]
            await self.log.append(lease, [started(task_id), *work, ended(task_id)])
        await self.log.release(lease, head=await self.log.head(CHAT))
        return await self.log.read(CHAT)

    async def run(self, before: Moment = LATER, **more: Any) -> list[ArchivedPart]:
        return [each async for each in self.archive.steps(before, **more)]

    async def archived(self) -> int:
        own = select(func.count()).where(events.c.blob_id.is_not(None))
        return await self.database.read(lambda each: each.execute(own).scalar_one())

    async def parts(self) -> set[BlobId]:
        own = select(events.c.blob_id).where(events.c.blob_id.is_not(None)).distinct()
        rows = await self.database.read(lambda each: each.execute(own).scalars().all())
        return {BlobId(each) for each in rows if each}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database in which a body of some hundred characters is small."""
    limits = Limits(archive_days=30)
    opened = await open_database(database_url, synchronous="NORMAL", limits=limits)
    yield opened
    await opened.close()


@pytest.fixture
def old(log: SqlLog, database: Database, blobs: Blobs, clock: FakeClock) -> Old:
    return Old(log, database, blobs, clock)


async def test_every_reader_gets_the_same_events(old: Old) -> None:
    records = await old.fill()
    parts = await old.run()
    assert (sum(each.events for each in parts), await old.archived()) == (600, 600)
    assert all(each.after < each.before / 10 for each in parts)
    assert await old.log.read(CHAT) == records
    assert await old.log.read(CHAT, after=300, limit=7) == records[300:307]
    assert len(await old.log.read(CHAT, size=2000)) < 20
    assert await read_back(old.database, old.blobs) == (len(records), ())
    assert (await rebuild(old.database, old.log)).left == ()
    assert set(await named_blobs(old.database, old.blobs)) == await old.parts()


async def test_a_second_run_finds_nothing_and_a_dry_run_stores_nothing(old: Old) -> None:
    await old.fill()
    planned = await old.run(dry_run=True)
    assert (len(planned), await old.archived()) == (2, 0)
    assert await old.run() == planned
    assert await old.run() == []


@pytest.mark.parametrize(("before", "calls"), [(Moment(1), 200), (LATER, 20)])
async def test_young_events_and_short_logs_stay(old: Old, before: Moment, calls: int) -> None:
    await old.fill(calls=calls)
    assert await old.run(before) == []


async def test_what_names_a_blob_stays(old: Old) -> None:
    lease = await held(old.log)
    blob_id = await old.blobs.put(b"bytes")
    work = [call(each, ONE, f"{blob_id} lemon") for each in range(600)]
    await old.log.append(lease, [started(), *work, ended()])
    await old.log.release(lease, head=604)
    assert await old.run() == []


async def test_erasing_a_task_leaves_nothing_of_it_in_a_part(old: Old) -> None:
    records = await old.fill()
    await old.run()
    before = await old.parts()
    await old.erasure.erase_messages(CHAT, TaskId("task_2"), user=True, answer=True)
    assert not any([await old.blobs.exists(each) for each in before])
    kept = await old.log.read(CHAT)
    assert WORD not in repr(kept)
    assert [each for each in kept if each.task_id == ONE] == [
        each for each in records if each.task_id == ONE
    ]
    await old.run()
    assert await old.archived() == 400
    assert await old.log.read(CHAT) == kept


async def test_erasing_a_log_deletes_its_parts(old: Old) -> None:
    await old.fill()
    await old.run()
    before = await old.parts()
    await old.erasure.erase_log(CHAT)
    assert before
    assert not any([await old.blobs.exists(each) for each in before])


async def test_a_server_archives_what_is_old_enough(old: Old) -> None:
    records = await old.fill()
    old.clock.advance(29 * 24 * 3600)
    sweeper = Sweeper(old.database, old.blobs, old.clock)
    sweeper.open()
    async with asyncio.timeout(5):
        while not old.clock.sleepers:
            await settle()
        assert await old.archived() == 0
        old.clock.advance(2 * 24 * 3600)
        while await old.archived() < 600:
            old.clock.advance(ARCHIVE_PAUSE_SECONDS)
            await settle()
    await sweeper.close()
    assert await old.log.read(CHAT) == records


class Stop(Exception):
    """The process ends here."""


@pytest.mark.parametrize("stop", range(1, 8))
async def test_a_stop_at_any_write_loses_no_event(
    old: Old, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    records = await old.fill()
    writes = 0

    def counted(whole: Any) -> Any:
        async def write(*given: Any, **more: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == stop:
                raise Stop
            return await whole(*given, **more)

        return write

    with monkeypatch.context() as patch:
        patch.setattr(old.database, "write", counted(old.database.write))
        patch.setattr(old.blobs, "put", counted(old.blobs.put))
        try:
            await old.run()
            await old.archive.restore(CHAT, ONE)
        except Stop:
            pass
    assert await old.log.read(CHAT) == records
    old.clock.advance(2 * LOOSE_SECONDS)
    while await old.erasure.sweep():
        pass
    assert await old.log.read(CHAT) == records
    rows = await old.database.read(lambda each: each.execute(select(loose_blobs)).all())
    assert rows == []
    await old.run()
    assert await old.log.read(CHAT) == records


async def test_a_sweep_that_claims_the_bytes_makes_the_part_give_up(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = await old.fill()
    put = old.blobs.put

    async def swept(data: bytes) -> BlobId:
        blob_id = await put(data)
        await old.erasure.sweep()
        return blob_id

    monkeypatch.setattr(old.blobs, "put", swept)
    assert await old.run() == []
    assert await old.log.read(CHAT) == records


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_log_that_is_erased_while_it_is_archived_leaves_no_bytes(
    old: Old, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    await old.fill()
    put, stored = old.blobs.put, list[BlobId]()

    async def erased(data: bytes) -> BlobId:
        if is_first:
            await old.erasure.erase_log(CHAT)
        stored.append(await put(data))
        if not is_first:
            await old.erasure.erase_log(CHAT)
        return stored[-1]

    monkeypatch.setattr(old.blobs, "put", erased)
    assert await old.run() == []
    await old.erasure.finish()
    assert [await old.blobs.exists(each) for each in stored] == [False]


async def test_a_log_that_is_archived_while_it_is_erased_leaves_no_bytes(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    await old.fill()
    write, parts = old.database.write, set[BlobId]()

    async def archived(unit: Any, **more: Any) -> Any:
        monkeypatch.setattr(old.database, "write", write)
        await old.run()
        parts.update(await old.parts())
        return await write(unit, **more)

    monkeypatch.setattr(old.database, "write", archived)
    await old.erasure.erase_log(CHAT)
    assert parts
    assert not any([await old.blobs.exists(each) for each in parts])


@pytest.mark.parametrize(
    "damage",
    [{"body": "9999"}, {"body": "x"}, {"blob_id": "0" * 64}, {"body": "-1"}],
)
async def test_a_damaged_row_is_reported(old: Old, damage: dict[str, str]) -> None:
    await old.fill()
    await old.run()
    own = update(events).where(events.c.seq == 300).values(damage)
    await old.database.write(lambda each: each.execute(own))
    with pytest.raises(StoreCorrupt):
        await old.log.read(CHAT)
    _, broken = await read_back(old.database, old.blobs)
    assert broken == ("event 300 of log 'conv_1'",)


def test_a_part_of_another_log_is_refused() -> None:
    assert unpacked(CHAT, packed(CHAT, ["é", "b"])) == ["é", "b"]
    for data in (b"", b"{}", packed(CHAT, ["a"])[:-3]):
        with pytest.raises(StoreCorrupt):
            unpacked(CHAT, data)
    with pytest.raises(StoreCorrupt):
        unpacked(CHAT, packed(CHAT.__class__("conv_2"), ["a"]))
    with pytest.raises(StoreCorrupt):
        body_at(["a"], "1")


async def test_a_log_without_bulky_events_is_looked_at_once(old: Old) -> None:
    lease = await held(old.log)
    notes = [started() for _ in range(2_100)]
    await old.log.append(lease, notes)
    await old.log.release(lease, head=2_102)
    assert await old.run() == []
    place = await old.database.read(lambda each: each.execute(select(logs.c.archived)).scalar())
    assert place == 2_000
