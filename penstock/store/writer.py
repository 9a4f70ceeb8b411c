"""The writing thread: it commits many units of work in one transaction.

Guarantees: when `write` returns, the unit's effects are on disk; a unit takes effect completely or
not at all; outcomes arrive on the event loop in the order of the commits. One refused unit does not
affect the others of its batch. Everything submitted before `close` is committed.

How it works. The event loop puts units into a queue. One thread takes all that wait (at most
`BATCH_UNITS`), runs them in one transaction and commits once: an fsync costs far more than
the statements of a unit. If a unit raises, the batch is rolled back and repeated with a savepoint
for each unit, so savepoints cost nothing as long as no unit fails. A transaction that gave way to
one of another process (a deadlock) is repeated after a pause, a few times. A failure of the
database itself (disk full, connection lost) is the outcome of the whole batch.

Relies on: a unit is a pure function of its connection, because it may run again; only this thread
uses the writing connection. A unit that keeps state between its runs breaks atomicity.

Proof: tests/store/test_writer.py; docs/durability.md lists the crash tests.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from itertools import groupby
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection

from penstock.core.errors import StoreClosed, StoreError
from penstock.store.failures import failure_of, final_error, is_conflict

BATCH_UNITS = 512
"""Most units of work in one transaction."""
_PAUSES = (0.01, 0.04, 0.16)
"""Seconds before each repetition of a transaction that a conflict with another process ended."""

log = logging.getLogger(__name__)

Unit = Callable[[Connection], Any]
"""Statements that take effect together. A pure function of its connection: it may run twice."""

Done = TypeVar("Done")

Joint = Callable[[Connection, list[Any]], Sequence[Any]]
"""Runs many units of one kind at once and returns their outcomes. Raises if any unit fails."""

MAX_QUEUED_UNITS = 10_000
"""Units in the queue from which on callers of `write` wait. It bounds the memory while a database
hardly answers: twenty full batches, so callers of a working one do not wait."""


class Work:
    """A unit on its way to the disk. Awaiting it waits for the commit and returns its outcome.

    Any number of tasks may await it, or none. Each waits with a future of its own, so cancelling
    one affects neither the write nor the others.
    """

    __slots__ = ("done", "error", "is_settled", "joint", "order", "outcome", "unit", "waiters")

    def __init__(
        self,
        unit: Callable[[Connection], Any],
        done: "Delivered | None" = None,
        *,
        order: str = "",
        joint: Joint | None = None,
    ) -> None:
        self.unit: Any = unit
        self.done = done
        self.order = order
        self.joint = joint
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.is_settled = False
        self.waiters: list[asyncio.Future[Any]] = []

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the commit."""
        # Not a generator: a task that resumes continues behind the future, without a step here.
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.is_settled:
            self.waiters.append(waiter)
        elif self.error is None:
            waiter.set_result(self.outcome)
        else:
            waiter.set_exception(self.error)
        return waiter.__await__()


Delivered = Callable[[Work], Coroutine[Any, Any, None] | None]
"""Receives a unit after its commit or its failure, on the event loop, in the order of the commits.
It may replace the outcome or the error. The waiters also wait for the coroutine, if it returns one.
"""


def refused(error: BaseException) -> Work:
    """Return a unit that was refused before it was submitted."""
    work = Work(_nothing)
    work.error, work.is_settled = error, True
    return work


def _nothing(connection: Connection) -> None:
    """Write nothing."""


class Writer:
    """Queues units for the writing thread and delivers their outcomes to the event loop."""

    def __init__(
        self, connect: Callable[[], Connection], place: str, *, max_queued: int = MAX_QUEUED_UNITS
    ) -> None:
        self._connect = connect
        self._place = place
        self.max_queued = max_queued
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._count = 0
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._ended = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="penstock-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Queue a unit. Its `done` receives it after the commit, or after its failure.

        Units with the same `order` run in the order of submission. Adjacent units with the same
        `joint` are run together by it. After `close`, a unit fails with StoreClosed.
        """
        if self._closed:
            # later, as for every other unit: `done` never runs inside `submit`
            work.error = StoreClosed()
            self._loop.call_soon(self._settle, [work])
            return
        self._count += 1
        self._queue.put(work)

    def fail(self, work: Work, error: BaseException) -> None:
        """Give an error to the waiters of a unit that was not submitted."""
        work.done, work.error = None, error
        self._settle([work])

    async def write(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Run the unit in a transaction; its effects are on disk when this returns.

        Waits first while `max_queued` or more units are queued. Raises StoreError if the
        database fails, else what the unit raises; then nothing of the unit is written.
        """
        await self.room()
        return await self.ask(unit, order=order)

    async def ask(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Run the unit as `write` does, but do not wait for room in the queue."""
        work = Work(unit, order=order)
        self.submit(work)
        outcome: Done = await work
        return outcome

    async def room(self) -> None:
        """Wait until fewer than `max_queued` units are queued, or the writer is closed."""
        # checked again after each wait: `submit` never waits, so others may have filled the queue
        while self._count >= self.max_queued and not self._closed:
            waiter = self._loop.create_future()
            self._room_waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():  # it had got the room; nothing else would pass it on
                    self._wake_waiters(1)
                raise

    async def close(self) -> None:
        """Commit everything that was submitted, then close the connection."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        # several callers may wait for the end; a cancelled one must not cancel it for the others
        await asyncio.shield(self._ended)
        self._thread.join()

    # ---- on the event loop ----

    def _deliver(self, batch: Sequence[Work]) -> None:
        self._count -= len(batch)
        self._settle(batch)
        if self._room_waiters:
            self._wake_waiters(self.max_queued - self._count)

    def _settle(self, batch: Sequence[Work]) -> None:
        for work in batch:
            try:
                rest = None if work.done is None else work.done(work)
                if rest is not None:
                    self._keep_task(self._settle_after(work, rest))
                    continue
            except Exception as fault:  # it must not keep the others of the batch waiting
                log.exception("the outcome of a write to %s could not be delivered", self._place)
                work.error = fault
            work.is_settled = True
            for waiter in work.waiters:
                if waiter.done():  # its task was cancelled
                    continue
                if work.error is None:
                    waiter.set_result(work.outcome)
                else:
                    waiter.set_exception(work.error)

    async def _settle_after(self, work: Work, rest: Coroutine[Any, Any, None]) -> None:
        work.done = None
        try:
            await rest
        except BaseException as error:
            work.error = error
        self._settle([work])

    def _keep_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the loop keeps weak references to tasks only
        task.add_done_callback(self._tasks.discard)

    def _wake_waiters(self, free: int) -> None:
        while self._room_waiters and free > 0:
            waiter = self._room_waiters.popleft()
            if not waiter.done():  # a cancelled waiter uses no room
                waiter.set_result(None)
                free -= 1

    def _end(self) -> None:
        self._wake_waiters(len(self._room_waiters))
        self._ended.set_result(None)

    # ---- on the thread ----

    def _run(self) -> None:
        session = _Session(self._connect, self._place)
        queue, max_units = self._queue, BATCH_UNITS
        call_on_loop, deliver = self._loop.call_soon_threadsafe, self._deliver
        is_open = True
        try:
            while is_open:
                work = queue.get()
                batch = []
                while work is not None:
                    batch.append(work)
                    if len(batch) >= max_units or queue.empty():
                        break
                    work = queue.get()
                is_open = work is not None
                if batch:
                    session.commit(batch)
                    call_on_loop(deliver, batch)
            session.close()
            call_on_loop(self._end)
        except RuntimeError:  # raised by call_soon_threadsafe: the loop is closed
            log.warning("%s was not closed before its event loop", self._place)
            session.close()


class _Session:
    """The writing connection. It reconnects after a lost connection."""

    def __init__(self, connect: Callable[[], Connection], place: str) -> None:
        self._connect = connect
        self._place = place
        self._connection: Connection | None = None
        self._cursor: Any = None
        self._begin = ""

    def commit(self, batch: list[Work]) -> None:
        """Run all units and commit; each gets an outcome or an error."""
        pauses = iter(_PAUSES)
        while (error := self._try_together(batch)) is not None:
            if failure := self._roll_back(error):
                return _refuse(batch, failure)
            if not is_conflict(error):
                # the error of a lone unit is its own
                return _refuse(batch, error) if len(batch) == 1 else self._commit_apart(batch)
            # Postgres ended this transaction and wakes the other one, which needs time: who begins
            # again at once may take the same row before it, and lose again.
            if (pause := next(pauses, None)) is None:
                return self._commit_apart(batch)
            threading.Event().wait(pause)
        return None

    def _try_together(self, batch: list[Work]) -> BaseException | None:
        try:
            self._together(batch)
        except BaseException as error:
            return error
        return None

    def close(self) -> None:
        """Close the connection; an error is logged."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            try:
                connection.close()
            except Exception:
                log.exception("the connection to %s could not be closed", self._place)

    def _together(self, batch: list[Work]) -> None:
        connection = self._open()
        if self._begin:
            self._cursor.execute(self._begin)
        else:
            # Postgres locks rows: two processes that write the same logs in a different order
            # would deadlock. SQLite has one writer and needs no order.
            batch.sort(key=_order)
        for joint, works in groupby(batch, _joint):
            if joint is None:
                for work in works:
                    work.outcome = work.unit(connection)
            else:
                _do_jointly(joint, list(works), connection)
        connection.connection.commit()

    def _commit_apart(self, batch: list[Work]) -> None:
        try:
            self._apart(batch)
        except BaseException as error:
            _refuse(batch, self._roll_back(error) or final_error(error, self._place))

    def _apart(self, batch: list[Work]) -> None:
        connection = self._open()
        if self._begin:
            self._cursor.execute(self._begin)
        for work in batch:
            work.outcome = work.error = None
            self._cursor.execute("SAVEPOINT unit")
            try:
                work.outcome = work.unit(connection)
            except BaseException as error:
                if failure_of(error, self._place):  # the whole batch fails, not this unit alone
                    raise
                self._cursor.execute("ROLLBACK TO SAVEPOINT unit")
                work.error = final_error(error, self._place)
            self._cursor.execute("RELEASE SAVEPOINT unit")
        connection.connection.commit()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = connection = self._connect()
            self._cursor = connection.connection.cursor()
            # IMMEDIATE takes the write lock at once: a deferred transaction that reads first can
            # fail with SQLITE_BUSY when it starts to write, and waiting does not help it
            self._begin = "BEGIN IMMEDIATE" if connection.dialect.name == "sqlite" else ""
        return self._connection

    def _roll_back(self, error: BaseException) -> StoreError | None:
        """Roll the batch back. Return the failure if the database itself caused the error."""
        failure = failure_of(error, self._place)
        try:
            if self._connection is not None:
                self._connection.connection.rollback()
        except Exception as rollback_error:
            log.warning("%s: %s; reconnecting", self._place, rollback_error)
            self._drop()
        return failure

    def _drop(self) -> None:
        """Discard a lost connection; it must not return to the pool."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _order(work: Work) -> str:
    return work.order


def _joint(work: Work) -> Joint | None:
    return work.joint


def _do_jointly(joint: Joint, works: list[Work], connection: Connection) -> None:
    outcomes = joint(connection, [work.unit for work in works])
    for work, outcome in zip(works, outcomes, strict=True):
        work.outcome = outcome


def _refuse(batch: list[Work], error: BaseException) -> None:
    for work in batch:
        work.outcome, work.error = None, error
