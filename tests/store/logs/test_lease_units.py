"""Units of work on leases: they may run twice, and those that take one bury and admit."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
import pytest
from sqlalchemy import Connection, text

from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost
from penstock.core.ids import LogId, TaskId
from penstock.core.limits import Limits
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.lease_units import (
    AcquiredLease,
    AcquireLease,
    ReleaseLease,
    RenewLease,
    suspects,
)
from penstock.store.logs.quarantine import Quarantine, QuarantinedLog
from penstock.store.logs.sql_log import SqlLog
from penstock.store.statements import Statements
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, message, opened

AT, UNTIL = Moment(1000), 4000
LOGS = [LogId(f"conv_{letter}") for letter in "abcd"]
RULES = Quarantine(Limits())
Done = TypeVar("Done")
Take = Callable[..., Awaitable[AcquiredLease | str | None]]


@pytest.fixture
def sql(database: Database) -> Statements:
    return Statements(database.dialect)


@pytest.fixture
async def take(database: Database, blobs: Blobs, sql: Statements) -> Take:
    """Takes the lease of one of five logs; each unit runs twice; the first run is undone."""
    log = SqlLog(database, blobs, FakeClock())
    for log_id in (CHAT, *LOGS):
        await log.send(log_id, [opened(), message(TaskId(f"task_{log_id}"))])

    async def take(
        log_id: LogId = CHAT, owner: str = "me", at: int = AT, dead: str | None = None
    ) -> AcquiredLease | str | None:
        unit = AcquireLease(sql, RULES, log_id, owner, Moment(at), at + 3000, dead)
        return await database.write(twice(unit))

    return take


def twice(unit: Callable[[Connection], Done]) -> Callable[[Connection], Done]:
    """Run the unit, undo it and run it again, as the writer does after a refusal."""

    def run(connection: Connection) -> Done:
        connection.exec_driver_sql("SAVEPOINT first")
        first = unit(connection)
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT first")
        second = unit(connection)
        assert first == second
        return second

    return run


async def test_every_unit_is_repeatable(database: Database, sql: Statements, take: Take) -> None:
    assert await take() == AcquiredLease(1, 2, 2, 0)
    assert await database.write(twice(RenewLease(sql, CHAT, 1, UNTIL, 2))) == ()
    assert await database.write(twice(ReleaseLease(sql, CHAT, 1, 2, None))) == ()
    assert await take(LogId("nowhere")) is None


async def test_a_stale_holder_is_refused(database: Database, sql: Statements, take: Take) -> None:
    for unit in (RenewLease(sql, CHAT, 1, UNTIL, 2), ReleaseLease(sql, CHAT, 1, 2, None)):
        with pytest.raises(LeaseLost, match="conv_1"):
            await database.write(unit)


async def test_a_lease_that_is_held_names_its_holder(take: Take) -> None:
    await take()
    assert await take(owner="you") == "me"
    assert await take(owner="you", dead="me") == AcquiredLease(2, 2, 2, 0, deaths=1, alone=1)


async def test_the_deaths_of_all_logs_of_a_process_are_counted_with_the_first_acquired(
    database: Database, sql: Statements, take: Take
) -> None:
    """Two deaths make suspects of all of them; then one half is admitted, and no more."""
    for log_id in LOGS:
        await take(log_id, "first")
    again = [await take(log_id, "second", dead="first") for log_id in LOGS]
    assert [each[4:] for each in again if isinstance(each, AcquiredLease)] == [(1, 0)] * 4
    third = [await take(log_id, "third", dead="second") for log_id in LOGS]
    assert third == [
        AcquiredLease(3, 2, 2, 0, deaths=2),
        AcquiredLease(3, 2, 2, 0, deaths=2),
        None,
        None,
    ]
    found = await database.read(lambda each: suspects(sql, each))
    at_work = {LOGS[0]: True, LOGS[1]: True, LOGS[2]: False, LOGS[3]: False}
    assert found == [
        QuarantinedLog(log_id=log_id, deaths=2, alone=0, is_at_work=is_at_work)
        for log_id, is_at_work in at_work.items()
    ]
    assert await take(CHAT, "third") == AcquiredLease(1, 2, 2, 0), (
        "what was never cut starts at once"
    )
    assert await take(LOGS[2], "third", at=AT + 9999) is None, "the others are still watched"
    assert await take(LOGS[2], "third", at=AT + 10_000) == AcquiredLease(3, 2, 2, 0, deaths=2)


async def test_a_suspect_that_gets_on_makes_room_for_the_next(
    database: Database, sql: Statements, take: Take
) -> None:
    for owner, dead in (("first", None), ("second", "first"), ("third", "second")):
        for log_id in LOGS[:2]:
            await take(log_id, owner, dead=dead)
    assert await take(LOGS[1], "third") is None
    on = text("UPDATE logs SET head = head + 1 WHERE log_id = :log_id")
    await database.write(lambda each: each.execute(on, {"log_id": LOGS[0]}))
    assert await take(LOGS[1], "third") == AcquiredLease(3, 2, 2, 0, deaths=2)
    found = await database.read(lambda each: suspects(sql, each))
    assert [each.log_id for each in found] == [LOGS[1]]


LOCK = "SELECT pg_advisory_xact_lock(7072616002)"


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_while_another_transaction_buries_logs_nothing_waits_and_no_death_is_lost(
    database_url: str, take: Take
) -> None:
    await take(owner="first")
    with psycopg.connect(database_url) as another:
        another.execute(LOCK)
        assert await take(owner="second", dead="first") is None
        assert await take(LOGS[0], "second") == AcquiredLease(1, 2, 2, 0), (
            "what was released is taken"
        )
    assert await take(owner="second", dead="first") == AcquiredLease(2, 2, 2, 0, deaths=1, alone=1)
    assert await take(owner="third", dead="second") == AcquiredLease(3, 2, 2, 0, deaths=2, alone=2)
    with psycopg.connect(database_url) as another:
        another.execute(LOCK)
        assert await take(owner="fourth", dead="third") is None
    assert await take(owner="fourth", dead="third") == AcquiredLease(4, 2, 2, 0, deaths=3, alone=3)
