"""A part of a log is read whole, or it is said which event is missing."""

from functools import partial

import pytest
from sqlalchemy import Connection, delete

from penstock.core.errors import StoreCorrupt
from penstock.core.ids import LogId
from penstock.store.database import Database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.tables import events, logs
from tests.kit.entries import CHAT, ended, message, note, opened, started


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


async def test_a_log_that_was_deleted_lacks_nothing(log: SqlLog, database: Database) -> None:
    await five_events(log)
    await database.write(lambda each: each.execute(delete(events)))
    await database.write(lambda each: each.execute(delete(logs)))
    assert await log.read(CHAT) == []
    await log.check(CHAT, after=0, until=5)
    await log.check(LogId("conv_none"), after=0, until=5)
