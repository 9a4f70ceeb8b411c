"""One thread that writes: units of work in, durable results out, many in one commit."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from queue import SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection

from penstock.core.errors import StoreClosed, StoreError
from penstock.core.limits import Limits
from penstock.store.failures import failure_of, final_error, is_conflict

log = logging.getLogger(__name__)

Unit = Callable[[Connection], Any]
"""Some statements that belong together: a pure function of its connection, for it may run twice."""

Done = TypeVar("Done")

Joint = Callable[[Connection, list[Any]], Sequence[Any]]
"""Does many units of one kind at once, with the outcome of each: all of them, or it raises."""

Outcome = Callable[[Any, BaseException | None], None]
"""Takes a unit's result or its error, on the event loop, in the order of the commits."""


class Work:
    """One unit, on its way from the event loop to the disk and back."""

    __slots__ = ("done", "error", "joint", "order", "outcome", "unit")

    def __init__(self, unit: Unit, done: Outcome, order: str, joint: Joint | None) -> None:
        self.unit = unit
        self.done = done
        self.order = order
        self.joint = joint
        self.outcome: Any = None
        self.error: BaseException | None = None


class Writer:
    """Owns the connection that writes.

    All units that wait go into one transaction, without savepoints. If one is refused, everything
    is rolled back and done again with a savepoint each, so that the others do not suffer. A failure
    of the database itself goes to all of the batch, and nothing of it is written.
    """

    def __init__(self, connect: Callable[[], Connection], place: str, limits: Limits) -> None:
        self._connect = connect
        self._place = place
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._count = 0
        self._crowd: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._ended = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="penstock-writer", daemon=True)
        self._thread.start()

    def submit(
        self, unit: Unit, done: Outcome, *, order: str = "", joint: Joint | None = None
    ) -> None:
        """Send a unit on its way; `done` is told once it is on disk, or never will be.

        Units of one `order` keep theirs; on Postgres a batch is sorted by it, so that two processes
        cannot wait for each other. Those that wait with the same `joint` are done by that.
        """
        if self._closed:
            self._loop.call_soon(done, None, StoreClosed())
            return
        self._count += 1
        self._queue.put(Work(unit, done, order, joint))

    async def write(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Do the work at once or not at all; it is on disk when this returns.

        Waits first while too many units wait already.
        """
        await self.room()
        return await self.ask(unit, order=order)

    async def ask(self, unit: Callable[[Connection], Done], *, order: str = "") -> Done:
        """Do the work as `write` does, but do not wait for room."""
        future: asyncio.Future[Done] = self._loop.create_future()

        def done(outcome: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)

        self.submit(unit, done, order=order)
        return await future

    async def room(self) -> None:
        """Wait until fewer units wait than may."""
        while self._count >= self._limits.queued_units and not self._closed:
            place = self._loop.create_future()
            self._crowd.append(place)
            await place

    async def close(self) -> None:
        """Commit everything that was submitted, then give the connection back."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    # ---- on the event loop ----

    def _deliver(self, batch: Sequence[Work]) -> None:
        self._count -= len(batch)
        for work in batch:
            try:
                work.done(work.outcome, work.error)
            except Exception:
                log.exception("whoever wrote to %s could not be told", self._place)
        if self._crowd:
            self._let_in(self._limits.queued_units - self._count)

    def _let_in(self, free: int) -> None:
        while self._crowd and free > 0:
            place = self._crowd.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1

    def _end(self) -> None:
        self._let_in(len(self._crowd))
        self._ended.set_result(None)

    # ---- on the thread ----

    def _run(self) -> None:
        session = _Session(self._connect, self._place)
        queue, most = self._queue, self._limits.batch_units
        tell, deliver = self._loop.call_soon_threadsafe, self._deliver
        going = True
        try:
            while going:
                work = queue.get()
                batch = []
                while work is not None:
                    batch.append(work)
                    if len(batch) >= most or queue.empty():
                        break
                    work = queue.get()
                going = work is not None
                if batch:
                    session.commit(batch)
                    tell(deliver, batch)
            session.close()
            tell(self._end)
        except RuntimeError:
            log.warning("%s was not closed before its event loop", self._place)
            session.close()


class _Session:
    """The writing connection, opened again when it was lost."""

    def __init__(self, connect: Callable[[], Connection], place: str) -> None:
        self._connect = connect
        self._place = place
        self._connection: Connection | None = None
        self._cursor: Any = None
        self._begin = ""

    def commit(self, batch: list[Work]) -> None:
        """Do the work of all, each with an outcome or an error."""
        try:
            self._together(batch)
        except BaseException as error:
            if failure := self._roll_back(error):
                _refuse(batch, failure)
            elif len(batch) == 1 and not is_conflict(error):
                _refuse(batch, error)
            else:
                self._commit_apart(batch)

    def close(self) -> None:
        """Give the connection back."""
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
                if failure_of(error, self._place):
                    raise
                self._cursor.execute("ROLLBACK TO SAVEPOINT unit")
                work.error = final_error(error, self._place)
            self._cursor.execute("RELEASE SAVEPOINT unit")
        connection.connection.commit()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = connection = self._connect()
            self._cursor = connection.connection.cursor()
            self._begin = "BEGIN IMMEDIATE" if connection.dialect.name == "sqlite" else ""
        return self._connection

    def _roll_back(self, error: BaseException) -> StoreError | None:
        """Undo what the batch did; returns why, if the database itself is the reason."""
        failure = failure_of(error, self._place)
        try:
            if self._connection is not None:
                self._connection.connection.rollback()
        except Exception as lost:
            log.warning("%s: %s; it is opened again", self._place, lost)
            self._drop()
        return failure

    def _drop(self) -> None:
        """Forget a connection that is lost."""
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
