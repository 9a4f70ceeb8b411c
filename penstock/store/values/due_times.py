"""Moves schedules: each due time starts at most one task, over any number of processes.

Proof: tests/store/values/test_due_times.py.
"""

from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.call_errors import ScheduleBusy
from penstock.core.errors import NameTaken, NotFound
from penstock.core.events.events import Record
from penstock.core.events.schedule_events import ScheduleFired
from penstock.store.statements import Statements

STEP_MS = 60_000
"""How far a clock may go back between the look that finds a due time and the write of its task."""
FORBID = "forbid"
"""The value of `concurrency` that allows a schedule one task at a time."""


def claim_due_time(
    sql: Statements, cursor: DBAPICursor, record: Record, event: ScheduleFired
) -> None:
    """Move the row of a schedule to its next due time, for a task that starts now.

    The UPDATE succeeds only while the row is active and has the `next_run` from which the tick was
    planned. It locks the row, so of two processes the second one finds it moved. If this raises,
    the task that the same transaction has just added is not written. After the clock went back, a
    due time can come a second time: `tasks` shows that it has its task already.

    Raises NameTaken if the due time is gone or has its task, ScheduleBusy, and NotFound for a run
    without a due time of a schedule that was deleted.
    """
    schedule_id, due_at, at = event.schedule_id, event.due_at, record.at
    if due_at is None:
        cursor.execute(sql.claim_now, (at, record.task_id, schedule_id))
    else:
        moved = (event.next_run, at, at, record.task_id, event.missed, event.next_run)
        cursor.execute(sql.claim_due, (*moved, schedule_id, event.missed_from or due_at))
    claimed = cursor.fetchone()
    if claimed is None and due_at is None:
        raise NotFound(f"there is no schedule {schedule_id!r}")
    if claimed is None:
        raise NameTaken(f"schedule {schedule_id!r} is not due at {due_at} any more")
    due = () if due_at is None else (schedule_id, due_at - STEP_MS, due_at)
    if due and _find(cursor, sql.started_for, due):
        raise NameTaken(f"schedule {schedule_id!r} has a task for {due_at} already")
    if claimed[0] == FORBID and (task_id := _find(cursor, sql.running_of_schedule, (schedule_id,))):
        raise ScheduleBusy(
            f"the task {task_id} of this schedule has not ended; wait for it, cancel it, or set "
            "the concurrency of the schedule to allow",
            details={"task_id": task_id},
        )


def _find(cursor: DBAPICursor, statement: str, key: tuple[object, ...]) -> str | None:
    cursor.execute(statement, key)
    row = cursor.fetchone()
    return None if row is None else str(row[0])
