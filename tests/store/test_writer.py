"""One thread writes: batches, refusals, room, shutdown, and connections that are lost."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial

import psycopg
import pytest
from sqlalchemy import Connection, select, text

from penstock.core.errors import LeaseLost, StoreClosed, StoreError, StoreFull, StoreLocked
from penstock.store.database import Database, open_database
from penstock.store.tables import installation
from penstock.store.writer import Work, refused
from penstock.testing.clock import settle

Unit = Callable[[Connection], object]


def put(name: str, error: BaseException | None = None) -> Unit:
    def unit(connection: Connection) -> str:
        connection.execute(installation.insert().values(name=name, value=b""))
        if error is not None:
            raise error
        return name

    return unit


def names(connection: Connection) -> set[str]:
    return set(connection.execute(select(installation.c.name)).scalars()) - {"secret"}


class Gate:
    """A unit that holds the writer until it is opened, so that what follows is one batch."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def __call__(self, connection: Connection) -> None:
        self._opened.wait(5)

    def open(self) -> None:
        self._opened.set()


def submitted(database: Database, *units: Unit) -> list["asyncio.Future[object]"]:
    return [asyncio.ensure_future(database.write(unit)) for unit in units]


async def together(database: Database, *units: Unit) -> list[object]:
    """Do the units in one batch; each gives its result or its error."""
    gate = Gate()
    waiting = submitted(database, gate, *units)
    await settle()
    gate.open()
    return (await asyncio.gather(*waiting, return_exceptions=True))[1:]


# ---- batches -------------------------------------------------------------------------------------


async def test_each_caller_gets_its_own_result(database: Database) -> None:
    wanted = [str(number) for number in range(1000)]
    assert await together(database, *map(put, wanted)) == wanted
    assert await database.read(names) == set(wanted)


async def test_results_are_delivered_in_the_order_of_the_commits(database: Database) -> None:
    told: list[object] = []
    gate = Gate()
    database.writer.submit(Work(gate, lambda _: told.append("gate")))
    for name in "abc":
        database.writer.submit(Work(put(name), lambda work: told.append(work.outcome)))
    gate.open()
    await database.write(put("d"))
    assert told == ["gate", "a", "b", "c"]


async def test_a_refused_unit_harms_no_other_of_its_batch(database: Database) -> None:
    refusal = ValueError("no")
    done = await together(database, put("a"), put("b", refusal), put("c"), put("a"), put("d"))
    assert done[:3] == ["a", refusal, "c"]
    assert "UNIQUE" in str(done[3]).upper()
    assert done[4] == "d"
    assert await database.read(names) == {"a", "c", "d"}


async def test_a_refused_unit_makes_a_joint_batch_run_separately(database: Database) -> None:
    joined: list[int] = []

    def jointly(connection: Connection, units: Sequence[Unit]) -> list[object]:
        joined.append(len(units))
        return [unit(connection) for unit in units]

    refusal, gate = ValueError("no"), Gate()
    told: list[object] = []
    database.writer.submit(Work(gate))
    for unit in (put("a"), put("b"), put("c", refusal), put("d")):
        database.writer.submit(
            Work(unit, lambda w: told.append(w.error or w.outcome), joint=jointly)
        )
    gate.open()
    await database.write(put("e"))
    assert told == ["a", "b", refusal, "d"]
    assert joined == [4]
    assert await database.read(names) == {"a", "b", "d", "e"}


async def test_a_statement_that_is_wrong_harms_no_other(database: Database) -> None:
    done = await together(database, put("a"), lambda each: each.execute(text("NO SQL")), put("b"))
    assert (done[0], done[2]) == ("a", "b")
    assert isinstance(done[1], Exception)


async def test_a_unit_that_loses_every_deadlock_is_store_locked(database: Database) -> None:
    """Two processes cannot deadlock for ever: what gives way each time is StoreLocked."""
    gives_way = put("b", psycopg.errors.DeadlockDetected("in the way"))
    done = await together(database, put("a"), gives_way, put("c"))
    assert (done[0], done[2]) == ("a", "c")
    assert isinstance(done[1], StoreLocked)
    assert str(done[1]).endswith(": in the way")
    with pytest.raises(StoreLocked):
        await database.write(gives_way)


async def test_a_failure_of_the_database_fails_the_whole_batch(sqlite: Database) -> None:
    pages = await sqlite.write(lambda each: each.exec_driver_sql("PRAGMA page_count").scalar())
    full = text(f"PRAGMA max_page_count = {pages}")
    large = installation.insert().values(name="large", value=b"x" * 100_000)
    told: list[object] = []
    gate = Gate()
    sqlite.writer.submit(Work(gate))
    units: list[Unit] = [
        lambda each: each.execute(full).all(),
        put("a"),
        lambda each: each.execute(large),
    ]
    for unit in units:
        sqlite.writer.submit(Work(unit, lambda w: told.append((w.outcome, type(w.error)))))
    gate.open()
    with pytest.raises(StoreFull):
        await sqlite.write(lambda each: each.execute(large))
    assert told[1:] == [(None, StoreFull), (None, StoreFull)]
    assert await sqlite.read(names) == set()


async def test_a_signal_passes_through(database: Database) -> None:
    with pytest.raises(LeaseLost):
        await database.write(put("a", LeaseLost()))
    assert await together(database, put("b"), put("c", LeaseLost())) != []
    assert await database.read(names) == {"b"}


async def test_an_undeliverable_outcome_does_not_affect_other_units(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def deaf(work: Work) -> None:
        raise ValueError("deaf")

    undelivered = Work(put("a"), deaf)
    database.writer.submit(undelivered)
    assert await database.write(put("b")) == "b"
    assert "could not be delivered" in caplog.text
    with pytest.raises(ValueError, match="deaf"):
        await undelivered


async def test_a_unit_is_written_even_if_its_waiter_is_cancelled(database: Database) -> None:
    gate = Gate()
    waiting = submitted(database, gate, put("a"))
    await settle()
    waiting[1].cancel()
    gate.open()
    await database.write(put("b"))
    assert await database.read(names) == {"a", "b"}


# ---- room ----------------------------------------------------------------------------------------


async def test_callers_wait_while_too_many_units_wait(sqlite: Database) -> None:
    gate = Gate()
    waiting = submitted(sqlite, gate, *map(put, "abcdef"))
    room = asyncio.ensure_future(sqlite.writer.room())
    await settle()
    assert not room.done()
    gate.open()
    await asyncio.gather(*waiting, room)
    assert await sqlite.read(names) == set("abcdef")


async def test_room_that_a_cancelled_caller_got_is_given_to_the_next(sqlite: Database) -> None:
    writer, gate = sqlite.writer, Gate()
    waiting = submitted(sqlite, gate)
    await settle()

    def cancel(work: Work) -> None:
        # Runs after the room was given, and before those who got it resume.
        asyncio.get_running_loop().call_soon(lambda: [each.cancel() for each in impatient])

    for number in range(writer.max_queued - 1):
        writer.submit(Work(put(f"{number}"), cancel))
    await settle()
    # The gate gives its own room to the first of them, so there is one more.
    impatient = [asyncio.ensure_future(writer.room()) for _ in range(writer.max_queued + 1)]
    patient = asyncio.ensure_future(writer.room())
    await settle()
    gate.open()
    await asyncio.gather(*waiting, *impatient, return_exceptions=True)
    await asyncio.wait_for(patient, 1)
    assert sum(each.cancelled() for each in impatient) >= writer.max_queued


async def test_closing_refuses_units_that_wait_for_room(sqlite: Database) -> None:
    gate = Gate()
    waiting = submitted(sqlite, gate, *map(put, "abcd"))
    await settle()
    closing = asyncio.ensure_future(sqlite.close())
    await settle()
    gate.open()
    done = await asyncio.gather(*waiting, closing, return_exceptions=True)
    assert done[1:3] == ["a", "b"]
    assert [type(each) for each in done[3:5]] == [StoreClosed, StoreClosed]


# ---- shutdown ------------------------------------------------------------------------------------


async def test_closing_commits_submitted_units(database_url: str) -> None:
    database = await open_database(database_url)
    gate = Gate()
    waiting = submitted(database, gate, put("a"), put("b"))
    await settle()
    gate.open()
    await database.close()
    assert [each.result() for each in waiting[1:]] == ["a", "b"]
    again = await open_database(database_url)
    assert await again.read(names) == {"a", "b"}
    await again.close()


# ---- Postgres alone ------------------------------------------------------------------------------


async def test_a_lost_connection_of_postgres_is_reported_and_reopened(postgres_url: str) -> None:
    one, two = await open_database(postgres_url), await open_database(postgres_url)
    me = await one.write(lambda each: each.execute(text("SELECT pg_backend_pid()")).scalar())
    end = text("SELECT pg_terminate_backend(:pid)").bindparams(pid=me)
    await two.write(lambda each: each.execute(end).scalar())
    with pytest.raises(StoreError, match="terminating connection"):
        await one.write(put("a"))
    assert await one.write(put("b")) == "b"
    assert await two.read(names) == {"b"}
    await one.close()
    await two.close()


def crossing(first: str, second: str, meet: threading.Barrier) -> Unit:
    """Change two rows; before the second, at the first try, meet who does it the other way."""
    tries: list[int] = []

    def unit(connection: Connection) -> None:
        connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
        change = installation.update().values(value=b"x")
        connection.execute(change.where(installation.c.name == first))
        tries.append(1)
        if len(tries) == 1:
            meet.wait(30)
        connection.execute(change.where(installation.c.name == second))

    return unit


async def test_postgres_resolves_a_deadlock_between_two_writers(postgres_url: str) -> None:
    one, two = await open_database(postgres_url), await open_database(postgres_url)
    await one.write(put("a"))
    await one.write(put("b"))
    meet = threading.Barrier(2)
    first, second = crossing("a", "b", meet), crossing("b", "a", meet)
    await asyncio.gather(one.write(first), two.write(second))
    values = select(installation.c.value).where(installation.c.name.in_(["a", "b"]))
    written = await one.read(lambda each: each.execute(values).scalars().all())
    assert [bytes(each) for each in written] == [b"x", b"x"]
    await one.close()
    await two.close()


async def test_a_batch_is_sorted_by_log_on_postgres(postgres_url: str) -> None:
    """So that two processes do not wait for each other."""
    database = await open_database(postgres_url)
    ran: list[str] = []
    gate = Gate()
    waiting = submitted(database, gate)
    for name in ("b 1", "a 1", "b 2", "a 2"):
        unit = partial(lambda done, _: ran.append(done), name)
        waiting.append(asyncio.ensure_future(database.write(unit, order=name[0])))
    await settle()
    gate.open()
    await asyncio.gather(*waiting)
    assert ran == ["a 1", "a 2", "b 1", "b 2"]
    await database.close()


# ---- forgotten -----------------------------------------------------------------------------------


def test_a_database_that_outlives_its_loop_closes_itself(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    async def forget() -> None:
        database = await open_database(sqlite_url)
        database.writer.submit(Work(gate))

    asyncio.run(forget())
    gate.open()
    for thread in threading.enumerate():
        if thread.name == "penstock-writer":
            thread.join(5)
    assert "was not closed before its event loop" in caplog.text


async def wait(work: Work) -> object:
    return await work


async def test_all_waiters_get_the_outcome(database: Database) -> None:
    work = Work(put("a"))
    waiting = [asyncio.ensure_future(wait(work)) for _ in range(3)]
    await settle()
    database.writer.submit(work)
    assert await asyncio.gather(*waiting) == ["a"] * 3
    assert await work == "a"


async def test_a_cancelled_waiter_does_not_affect_others(database: Database) -> None:
    work = Work(put("a"))
    impatient, patient = (asyncio.ensure_future(wait(work)) for _ in range(2))
    await settle()
    impatient.cancel()
    await settle()
    database.writer.submit(work)
    assert await patient == "a"
    assert impatient.cancelled()


async def test_all_waiters_get_the_error(database: Database) -> None:
    work = Work(put("a", LeaseLost("gone")))
    waiting = asyncio.ensure_future(wait(work))
    await settle()
    database.writer.submit(work)
    for each in (waiting, work, refused(LeaseLost("gone"))):
        with pytest.raises(LeaseLost, match="gone"):
            await each


async def test_a_unit_that_cannot_be_submitted_fails_for_its_waiters(database: Database) -> None:
    work = Work(put("a"))
    waiting = asyncio.ensure_future(wait(work))
    await settle()
    database.writer.fail(work, LeaseLost("gone"))
    with pytest.raises(LeaseLost, match="gone"):
        await waiting
    assert await database.read(names) == set()


@pytest.mark.parametrize("error", [None, StoreError("unread")])
async def test_waiters_also_wait_for_what_its_delivery_reads(
    database: Database, error: StoreError | None
) -> None:
    async def read_more(work: Work) -> None:
        await settle()
        if error is not None:
            raise error
        work.outcome = ["before", work.outcome]

    work = Work(put("a"), read_more)
    database.writer.submit(work)
    (outcome,) = await asyncio.gather(work, return_exceptions=True)
    assert outcome == (error or ["before", "a"])
