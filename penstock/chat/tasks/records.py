"""Reads the events of one task from its log, and checks them against the row of the task.

The row has the first and the last `seq`. If the log does not begin and end the task there, an event
was lost or the row is damaged; StoreCorrupt is raised instead of returning a part as the whole.
"""

from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import Record, TaskEnded
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.rows import REBUILD


async def records_of(log: Log, task: TaskRecord) -> list[Record]:
    """Return the events of a task so far; none if its log was deleted meanwhile.

    Raises StoreCorrupt if an event is missing or unreadable, or if the task does not begin and end
    where its row says.
    """
    before = task.first_seq - 1
    limit = None if task.ended_seq is None else max(task.ended_seq - before, 1)
    records = await log.read(task.log_id, after=before, limit=limit)
    is_whole = bool(records) and records[0].task_id == task.task_id
    if is_whole and task.ended_seq is not None:
        last = records[-1]
        is_end = isinstance(last.event, TaskEnded) and last.task_id == task.task_id
        is_whole = is_end and last.seq == task.ended_seq
    if not is_whole and await log.head(task.log_id):
        raise unfit(task)
    return [record for record in records if record.task_id == task.task_id]


async def first_record(log: Log, task: TaskRecord) -> Record:
    """Return the event that requested a task.

    Raises StoreCorrupt if there is none, also if the log was deleted meanwhile.
    """
    records = await log.read(task.log_id, after=task.first_seq - 1, limit=1)
    if not records or records[0].task_id != task.task_id:
        raise unfit(task)
    return records[0]


def unfit(task: TaskRecord) -> StoreCorrupt:
    """Return the error of a task whose row does not match its log."""
    ends = "" if task.ended_seq is None else f" and end with event {task.ended_seq}"
    return StoreCorrupt(
        f"task {task.task_id!r} is {task.status.value} in the lists, and should begin with event "
        f"{task.first_seq}{ends} of log {task.log_id!r}; its log says otherwise. {REBUILD}",
        details={"log": task.log_id},
    )
