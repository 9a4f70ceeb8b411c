"""Damage to a database is named, and the lists are rebuilt from the logs."""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from penstock.core.events.events import Record
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.sql_log import SqlLog
from penstock.store.repair import (
    Rebuilt,
    check,
    damaged_logs,
    gaps,
    mismatched_rows,
    probe,
    read_back,
    rebuild,
    space_problem,
)
from penstock.store.tables import REVISION, questions, sessions, tasks
from penstock.testing.clock import FakeClock
from tests.kit.backups import damage_file
from tests.kit.log_entries import (
    CHAT,
    ONE,
    TWO,
    answered,
    asked,
    ended,
    expired,
    live_a_little,
    message,
    opened,
    started,
    suspended,
)
from tests.kit.server import in_memory


async def test_a_new_database_is_sound_and_empty(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/new.db")
    health = await check(database)
    await database.close()
    assert (health.revision, health.logs, health.events, health.problems) == (REVISION, 0, 0, ())


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    await (await open_database(f"sqlite:///{path}")).close()
    damage_file(path)
    database = await open_database(f"sqlite:///{path}")
    health = await check(database)
    await database.close()
    assert health.problems


async def test_events_that_do_not_read_back_are_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    async with in_memory(url=url) as runtime:
        reply = await runtime.chat("Hi")
    database = await open_database(url)
    blobs = open_blobs("memory:///")
    read, broken = await read_back(database, blobs)
    assert (read > 3, broken) == (True, ())
    await database.write(
        lambda each: each.execute(text("UPDATE events SET body = '{bro' WHERE seq = 3"))
    )
    await database.write(
        lambda each: each.execute(text("UPDATE events SET blob_id = 'blob_lost' WHERE seq = 2"))
    )
    named = tuple(f"event {seq} of log {reply.session!r}" for seq in (2, 3))
    assert await read_back(database, blobs) == (read, named)
    assert (await read_back(database, blobs, most=1))[0] == 1
    await database.close()


GAPS = [
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq = 2", 2, "2 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq < 3", 1, "1 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1' AND seq > 1", 2, "1 of 3"),
    ("DELETE FROM events WHERE log_id = 'conv_1'", 1, "0 of 3"),
    ("UPDATE logs SET head = 4 WHERE log_id = 'conv_1'", 4, "3 of 4"),
    ("UPDATE logs SET head = 2 WHERE log_id = 'conv_1'", 4, "3 of 2"),
    ("UPDATE events SET seq = 7 WHERE log_id = 'conv_1' AND seq = 3", 3, "3 of 3"),
]


@pytest.mark.parametrize(("damage", "seq", "found"), GAPS)
async def test_a_log_in_which_events_are_missing_is_named(
    database: Database, log: SqlLog, damage: str, seq: int, found: str
) -> None:
    await log.send(CHAT, [opened(), message(), message(TWO)])
    await log.send(LogId("conv_2"), [opened()])
    assert await gaps(database) == ()
    await database.write(lambda each: each.execute(text(damage)))
    assert await gaps(database) == (f"event {seq} of log 'conv_1', which has {found}",)


async def wrong(place: Path, *statements: str, limits: Limits | None = None) -> dict[str, str]:
    """Return the findings after this change of a store."""
    database = await open_database(f"sqlite:///{place / 'one.db'}", limits=limits)
    for statement in statements:
        await database.write(lambda each, do=statement: each.execute(text(do)))  # type: ignore[misc]
    checks = await probe(database, open_blobs(str(place / "blobs")))
    await database.close()
    assert [each.name for each in checks] == ["database", "migrations", "disk", "blobs"]
    return {each.name: each.why for each in checks if each.why}


async def test_a_store_that_works(tmp_path: Path) -> None:
    """The try leaves nothing behind."""
    assert await wrong(tmp_path) == {}
    assert list((tmp_path / "blobs").iterdir()) == []


async def test_a_store_whose_tables_are_of_another_version(tmp_path: Path) -> None:
    found = await wrong(tmp_path, "UPDATE alembic_version SET version_num = '9999'")
    said = f"the tables are at revision 9999, this version needs {REVISION}"
    assert found == {"migrations": said}


async def test_a_store_that_has_lost_a_table(tmp_path: Path) -> None:
    found = await wrong(tmp_path, "DROP TABLE logs")
    assert list(found) == ["database"]


async def test_a_store_with_little_space(tmp_path: Path) -> None:
    found = await wrong(tmp_path, limits=Limits(free_bytes=2**62))
    assert list(found) == ["disk"]


async def test_blobs_that_cannot_be_written(tmp_path: Path) -> None:
    database = await open_database("sqlite://")
    blobs = open_blobs(str(tmp_path / "blobs"))
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("a file where the folder was")
    checks = await probe(database, blobs)
    await database.close()
    (why,) = [each.why for each in checks if each.why and each.name == "blobs"]
    assert why == "The database or its disk failed. `penstock doctor` checks both."


async def test_a_database_that_was_closed(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    await database.close()
    checks = await probe(database, open_blobs("memory:///"))
    assert {each.name: each.why for each in checks if each.why} == dict.fromkeys(
        ("database", "migrations"), "The database was closed."
    )


async def test_a_check_that_takes_too_long_is_abandoned(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'one.db'}")
    checks = await probe(database, open_blobs(str(tmp_path / "blobs")), seconds=-1)
    await database.close()
    assert {each.why for each in checks} == {"no answer within -1 s"}


@pytest.mark.parametrize(("least", "is_little"), [(0, False), (2**62, True)])
def test_space_is_little_or_enough(tmp_path: Path, least: int, *, is_little: bool) -> None:
    assert bool(space_problem([tmp_path], least)) is is_little
    assert space_problem([], least) == ""
    assert space_problem([tmp_path / "none"], least).startswith("the free space cannot be read")


async def test_no_database_that_works_has_problems(database: Database) -> None:
    assert (await check(database)).problems == ()


async def test_a_closed_database_leaves_no_reader_behind(database: Database) -> None:
    before = {*threading.enumerate()}
    await asyncio.gather(*(check(database) for _ in range(3)))
    await database.close()
    first = {each.name for each in {*threading.enumerate()} - before}
    assert not [name for name in first if name.startswith("penstock-reader")]


def do(statement: str, connection: Connection) -> None:
    connection.execute(text(statement))


async def talk(log: SqlLog) -> None:
    """A conversation with two tasks and an answered question, and an empty one."""
    await log.send(CHAT, [opened("A title"), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked(), suspended()])
    await log.send(CHAT, [answered("Yes")])
    await log.append(lease, [ended()])
    await log.send(CHAT, [message(TWO)])
    await log.surrender(lease)


UNFIT = {
    "UPDATE tasks SET status = 'odd' WHERE task_id = 'task_1'": (
        "task 'task_1' has the status 'odd', which does not exist"
    ),
    "UPDATE questions SET status = 'odd'": "question 'q_1' has the status 'odd'",
    "UPDATE tasks SET log_id = 'conv_gone' WHERE task_id = 'task_1'": (
        "task 'task_1' belongs to log 'conv_gone', which does not exist"
    ),
    "UPDATE questions SET log_id = 'conv_gone'": "question 'q_1' belongs to log 'conv_gone'",
    "UPDATE sessions SET session_id = 'conv_gone'": "conversation 'conv_gone' belongs to",
    "UPDATE tasks SET status = 'running' WHERE task_id = 'task_1'": "task 'task_1' has the status",
    "UPDATE tasks SET status = 'failed' WHERE task_id = 'task_2'": "task 'task_2' has the status f",
    "UPDATE tasks SET first_seq = 1 WHERE task_id = 'task_1'": (
        "the beginning of task 'task_1' is listed as event 1 of log 'conv_1'"
    ),
    "UPDATE tasks SET ended_seq = 8 WHERE task_id = 'task_1'": "the end of task 'task_1' is listed",
    "UPDATE questions SET asked_seq = 8": "question 'q_1' is listed as event 8 of log 'conv_1'",
}


@pytest.mark.parametrize(("damage", "expected"), UNFIT.items(), ids=list(UNFIT))
async def test_a_row_that_does_not_fit_its_log_is_named_and_rebuilt(
    damage: str, expected: str, log: SqlLog, database: Database
) -> None:
    await talk(log)
    assert await mismatched_rows(database) == []
    await database.write(partial(do, damage))
    found = await mismatched_rows(database)
    assert any(each.startswith(expected) for each in found), found
    assert (await rebuild(database, log)).left == ()
    assert (await mismatched_rows(database), await damaged_logs(database)) == ([], [])


ODD = {
    "UPDATE logs SET epoch = 0": "log 'conv_1' was held, and its epoch went back to 0",
    "INSERT INTO logs (log_id, profile_id, agent) VALUES ('conv_2', 'ann', 'a')": (
        "log 'conv_2' has no events"
    ),
}


@pytest.mark.parametrize(("damage", "expected"), ODD.items(), ids=list(ODD))
async def test_a_log_with_an_inconsistent_row_is_named(
    damage: str, expected: str, log: SqlLog, database: Database
) -> None:
    await talk(log)
    assert await damaged_logs(database) == []
    await database.write(partial(do, damage))
    assert await damaged_logs(database) == [expected]
    assert await mismatched_rows(database) == []


def projections(connection: Connection) -> dict[str, set[object]]:
    return {
        table.name: set(map(tuple, connection.execute(select(table))))
        for table in (tasks, sessions, questions)
    }


async def test_rebuilt_projections_equal_the_earlier_ones(
    database: Database, log: SqlLog, clock: FakeClock
) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    counts = {name: len(rows) for name, rows in before.items()}
    assert counts == {"tasks": 4, "sessions": 2, "questions": 1}
    assert await rebuild(database, log) == Rebuilt(3, ())
    assert await database.read(projections) == before


DAMAGES = [
    "DELETE FROM tasks",
    "UPDATE tasks SET status = 'failed', messages = 7",
    "UPDATE sessions SET title = 'wrong', message_count = 99",
    "DELETE FROM questions",
    "INSERT INTO sessions VALUES ('conv_9', 'ann', 'a', 'of no log', 0, 0, 0)",
]


async def test_damage_is_mended(database: Database, log: SqlLog, clock: FakeClock) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    for damage in DAMAGES:
        await database.write(partial(do, damage))
        assert await database.read(projections) != before
        await rebuild(database, log)
        assert await database.read(projections) == before


COPY = (
    "INSERT INTO events SELECT log_id, 14, at, task_id, path, kind, body, blob_id FROM events "
    "WHERE log_id = 'conv_1' AND"
)
LONGER = "UPDATE logs SET head = 14 WHERE log_id = 'conv_1'"
HOLES = [
    (
        "DELETE FROM events WHERE log_id = 'conv_1' AND seq = 2",
        "event 2 of log 'conv_1' is missing",
    ),
    (
        "DELETE FROM events WHERE log_id = 'conv_1' AND seq = 13",
        "event 13 of log 'conv_1' is missing",
    ),
    ("UPDATE logs SET head = 12 WHERE log_id = 'conv_1'", "has 13 events in place of 12"),
    (f"{COPY} seq = 5; {LONGER}", "event 14 of log 'conv_1' starts 'q_1' a second time"),
    (f"{COPY} seq = 2; {LONGER}", "event 14 of log 'conv_1' starts 'task_1' a second time"),
    (f"{COPY} seq = 1; {LONGER}", "event 14 of log 'conv_1' starts 'conv_1' a second time"),
    ("UPDATE events SET body = '{' WHERE log_id = 'conv_1' AND seq = 2", "event 2 of log 'conv_1'"),
]


@pytest.mark.parametrize(("damage", "message"), HOLES)
async def test_an_unreadable_log_is_reported_and_the_others_are_rebuilt(
    database: Database, log: SqlLog, clock: FakeClock, damage: str, message: str
) -> None:
    await live_a_little(log, clock)
    before = await database.read(projections)
    for statement in damage.split("; "):
        await database.write(partial(do, statement))
    await database.write(partial(do, "DELETE FROM tasks WHERE log_id = 'task_call'"))
    rebuilt = await rebuild(database, log)
    assert (rebuilt.logs, len(rebuilt.left)) == (2, 1)
    assert message in rebuilt.left[0]
    assert await database.read(projections) == before


async def test_the_task_of_an_erased_message_stays(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    await log.send(CHAT, [message(TWO)])
    erase = text("UPDATE events SET kind = 'erased', body = '{}' WHERE seq = 2")
    await database.write(lambda connection: connection.execute(erase))
    await rebuild(database, log)
    wanted = select(tasks.c.task_id, tasks.c.first_seq, tasks.c.messages).order_by("task_id")
    rows = await database.read(lambda each: each.execute(wanted).all())
    assert list(map(tuple, rows)) == [(ONE, 2, 0), (TWO, 3, 1)]


class BusyLog(SqlLog):
    """A log that another process appends to just after it was first read."""

    reads = 0

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        self.reads += 1
        if self.reads == 1:
            await self.send(log_id, [message(TWO)])
        return records


async def test_a_changing_log_is_read_again_until_it_is_stable(
    database: Database, blobs: Blobs, clock: FakeClock
) -> None:
    log = BusyLog(database, blobs, clock)
    await log.send(CHAT, [opened(), message()])
    assert await rebuild(database, log) == Rebuilt(1, ())
    assert log.reads == 2
    rows = await database.read(lambda each: each.execute(select(tasks.c.task_id)).scalars().all())
    assert sorted(rows) == [ONE, TWO]


async def test_the_first_answer_counts_again(database: Database, log: SqlLog) -> None:
    await log.send(CHAT, [opened(), message()])
    lease = await log.acquire(CHAT, "me")
    assert lease is not None
    await log.append(lease, [started(), asked(), answered("first", by=None), expired()])
    before = await database.read(projections)
    await rebuild(database, log)
    assert await database.read(projections) == before
    status = select(questions.c.status)
    assert await database.read(lambda each: each.execute(status).scalar()) == "answered"
