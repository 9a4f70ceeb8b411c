"""Deletes the rows of a log, and tells the tasks that wait for one of its tasks that it is gone.

Guarantees: a task that waits for a deleted one continues, as after any other end; the event is
written in the transaction that deletes the rows, so a crash leaves no task that waits for ever. The
launcher of the waiting log finds it with its next sweep. A run whose request is large names its
waiter in a blob, which no transaction reads: its call waits until it is cancelled.
Shown by tests/store/logs/test_deletion.py.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct
from sqlalchemy import Connection, select

from penstock.core.clock import Clock, Moment
from penstock.core.errors import NotFound, TaskOver
from penstock.core.events.child_events import WaiterAdded
from penstock.core.events.codec import decode
from penstock.core.events.events import Entry
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.store.logs.log_units import SendUnit, drafts_of
from penstock.store.projections import ProjectionWriter
from penstock.store.references import (
    IS_LARGE,
    NAMING,
    blobs_of,
    drop_uploads,
    lock_parts,
    release_erased,
    waiter_of,
)
from penstock.store.statements import Statements
from penstock.store.tables import (
    deliveries,
    deltas,
    events,
    idempotency,
    keys,
    logs,
    questions,
    sessions,
    snapshots,
    tasks,
    web_links,
)
from penstock.store.values.changes import drop_log

IsKept = Callable[[LogId, Connection], bool]
"""Whether a log must stay; asked in the transaction that would delete it."""
_OF_WAITERS = ("child_requested", "flow_requested", "waiter_added")
"""The kinds of events that name a task that waits."""


class LogDeletion(Struct, frozen=True):
    """Deletes logs."""

    sql: Statements
    projections: ProjectionWriter
    clock: Clock

    def delete(
        self,
        log_id: LogId,
        seen: int,
        named: set[BlobId],
        connection: Connection,
        *,
        due: Moment,
        is_kept: IsKept | None,
    ) -> bool | None:
        """Delete the rows of a log. Return None if it `is_kept`.

        Returns False if a large outcome after `seen` must be read first.
        """
        if is_kept is not None and is_kept(log_id, connection):
            return None
        since = (events.c.log_id == log_id, events.c.seq > seen, events.c.kind.in_(NAMING))
        large = select(events.c.seq).where(*since, IS_LARGE)
        if connection.execute(large.limit(1)).first() is not None:
            return False
        named = named | lock_parts(log_id, connection) | blobs_of(log_id, seen, connection)
        waiting = [*waiters_of(log_id, connection)]
        drop_uploads(log_id, named, connection)
        release_erased(connection, named, due)
        drop_log(connection, log_id, due)
        # the snapshot after the row of the log, which a process locks before it writes a snapshot
        for table in (events, tasks, questions, deliveries, deltas, idempotency, logs, snapshots):
            connection.execute(table.delete().where(table.c.log_id == log_id))
        for opening in (sessions, keys, web_links):
            connection.execute(opening.delete().where(opening.c.session_id == log_id))
        for gone, waiter, waiter_log in waiting:
            self._report(gone, waiter, waiter_log, connection)
        return True

    def _report(
        self, gone: TaskId, waiter: TaskId, waiter_log: LogId, connection: Connection
    ) -> None:
        """Add the end of a task that is gone to the log of one that waits for it."""
        entries = [Entry(RunEnded(run_id=gone, status=None), waiter)]
        drafts = drafts_of(entries, self.clock.now())
        send = SendUnit(self.sql, self.projections, waiter_log, entries, drafts)
        connection.exec_driver_sql("SAVEPOINT gone")
        try:
            send(connection)
        except (TaskOver, NotFound):
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT gone")
        finally:
            connection.exec_driver_sql("RELEASE SAVEPOINT gone")


def waiters_of(log_id: LogId, connection: Connection) -> Iterator[tuple[TaskId, TaskId, LogId]]:
    """Yield the tasks of a log that have not ended, each with a task that waits, and its log."""
    query = select(tasks.c.task_id).where(tasks.c.log_id == log_id, tasks.c.ended_seq.is_(None))
    unended = connection.execute(query).scalars().all()
    if not unended:
        return
    naming = select(events.c.task_id, events.c.kind, events.c.body).where(
        events.c.log_id == log_id, events.c.kind.in_(_OF_WAITERS), events.c.blob_id.is_(None)
    )
    for task_id, kind, body in connection.execute(naming).all():
        if task_id not in unended:
            continue
        if kind == "waiter_added":
            event = decode(kind, body)
            assert isinstance(event, WaiterAdded)  # noqa: S101  by its kind
            yield task_id, event.waiter, event.waiter_log
            continue
        waiter_log, waiter = waiter_of(kind, body)
        if waiter_log is not None and waiter is not None:
            yield task_id, waiter, waiter_log
    parent = tasks.alias("parent")
    above = select(tasks.c.task_id, parent.c.task_id, parent.c.log_id).where(
        tasks.c.log_id == log_id, parent.c.task_id == tasks.c.parent_id
    )
    for task_id, waiter, waiter_log in connection.execute(above).all():
        if task_id in unended:
            yield task_id, waiter, waiter_log
