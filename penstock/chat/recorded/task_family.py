"""The tasks that worked for a task: its children and its runs of flows, and theirs.

They are read from the logs alone. The log of a task names its children before they exist, and the
id of a run follows from the key of the call that started it. Shown by
tests/chat/recorded/test_task_family.py.
"""

from collections.abc import Sequence

from msgspec import Struct

from penstock.chat.recorded.task_records import first_record, records_of
from penstock.core.call import EXECUTE_WORKFLOW, CallPath, is_below
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.events.events import CallSettled, CallStarted, Record
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import Forked
from penstock.core.ids import TaskId
from penstock.core.task import FLOW, TaskRecord
from penstock.store.logs.log import Log
from penstock.store.projections import Projections


class Member(Struct, frozen=True):
    """A task of a family."""

    task_id: TaskId
    task: TaskRecord | None
    """None if it is gone."""
    records: Sequence[Record] = ()
    """Its events. Those that a fork copied belong to the other task, and are left out."""


class TaskFamily:
    """Finds the tasks above and below a task."""

    def __init__(self, log: Log, projections: Projections) -> None:
        self._log = log
        self._projections = projections

    async def top(self, task: TaskRecord) -> TaskId:
        """Return the task at the top of its family, which may be itself."""
        while True:
            above = task.root_id
            if above is None and task.kind == FLOW:
                requested = (await first_record(self._log, task)).event
                above = requested.waiter if isinstance(requested, FlowRequested) else None
            if above is None:
                return task.task_id
            found = await self._projections.find_task(above)
            if found is None:
                return above
            task = found

    async def below(self, task: TaskRecord) -> list[Member]:
        """Return a task and those that worked for it, except for calls that a revert covers."""
        found, wanted = list[Member](), [task.task_id]
        for task_id in wanted:
            each = await self._projections.find_task(task_id)
            records = [] if each is None else own_records(await records_of(self._log, each))
            found.append(Member(task_id, each, records))
            new = [TaskId(name) for name in started_by(records).values()]
            new += spawned_by(records)
            wanted += [name for name in dict.fromkeys(new) if name not in wanted]
        return found


def own_records(records: Sequence[Record]) -> list[Record]:
    """Return the events of a task behind those that a fork copied."""
    copied = [number for number, each in enumerate(records, 1) if isinstance(each.event, Forked)]
    return list(records[max(copied, default=0) :])


def covered_by(records: Sequence[Record]) -> list[CallPath]:
    """Return the calls with a revert, which takes back all that happened inside them."""
    settled = [each for each in records if isinstance(each.event, CallSettled) and each.path]
    return [each.path for each in settled if each.path and has_revert(each)]


def has_revert(record: Record) -> bool:
    """Whether an event is the outcome of a call that recorded its revert."""
    return isinstance(record.event, CallSettled) and record.event.revert is not None


def started_by(records: Sequence[Record]) -> dict[CallPath, str]:
    """Return the runs of flows that calls started, by the paths of the calls."""
    covered = covered_by(records)
    return {
        each.path: f"task_{each.event.idempotency_key}"
        for each in records
        if isinstance(each.event, CallStarted)
        and each.event.tool_id == EXECUTE_WORKFLOW
        and each.path
        and not _is_covered(each.path, covered)
    }


def spawned_by(records: Sequence[Record]) -> list[TaskId]:
    """Return the children that calls requested."""
    covered = covered_by(records)
    return [
        child
        for each in records
        if isinstance(each.event, ChildrenSpawned) and not _is_covered(each.path, covered)
        for child in each.event.children
    ]


def _is_covered(path: CallPath | None, covered: Sequence[CallPath]) -> bool:
    return path is not None and any(path == each or is_below(path, each) for each in covered)
