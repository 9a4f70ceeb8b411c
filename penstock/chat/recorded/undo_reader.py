"""Reads the plans of undos from the logs of a task, of those that worked for it, and of its undos.

Shown by tests/chat/recorded/test_undo_reader.py and tests/journeys/test_undo.py.
"""

from collections.abc import Callable
from heapq import merge

from msgspec.structs import replace

from penstock.chat.recorded.stored_before import Seen, StoredBefore
from penstock.chat.recorded.task_family import Member, TaskFamily
from penstock.chat.recorded.task_records import records_of
from penstock.chat.recorded.undo import (
    GONE,
    PlannedCall,
    UndoCall,
    UndoPlan,
    outcomes_of,
    planned_calls,
    with_outcome,
)
from penstock.core.clock import Clock
from penstock.core.events.events import CallRequested
from penstock.core.ids import TaskId, undo_id
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.projections import Projections
from penstock.tools.invoker import Invoker
from penstock.tools.resources import Resources
from penstock.tools.spec import ToolSpec

InvokerOf = Callable[[str, str], Invoker]
"""Returns what calls a tool of an agent, by the names of both."""


class UndoReader:
    """Reads plans from logs."""

    def __init__(
        self,
        log: Log,
        projections: Projections,
        resources: Resources,
        invoker_of: InvokerOf,
        *,
        clock: Clock,
    ) -> None:
        self._log = log
        self._projections = projections
        self._family = TaskFamily(log, projections)
        self.artifacts = resources.artifacts
        self.stored = StoredBefore(resources.state, resources.files, clock)
        self.invoker_of = invoker_of

    async def find_task(self, task_id: TaskId) -> TaskRecord | None:
        """Return a task; None if there is none."""
        return await self._projections.find_task(task_id)

    async def plan(self, task: TaskRecord, *, before: TaskId | None = None) -> UndoPlan:
        """Return the plan of a task; with `before`, as it was when that undo of it began."""
        top, members = await self._family.top(task), await self._family.below(task)
        parts = [self._part(each, top, task.task_id) for each in members]
        # newest first over all logs; each part stays in the order of its own log
        calls = list(merge(*parts, key=lambda each: -each.at))
        undos, number = list[TaskRecord](), 1
        while (undo := undo_id(top, number)) != before:
            if (found := await self.find_task(undo)) is None:
                break
            number += 1
            outcomes = outcomes_of(undo, await records_of(self._log, found))
            if not found.status.is_final or any(each.key in outcomes for each in calls):
                undos.append(found)
            calls = [with_outcome(each, outcomes.get(each.key)) for each in calls]
        working = [each.task_id for each in members if each.task and not each.task.status.is_final]
        return UndoPlan(calls=calls, undos=undos, top=top, number=number, working=working)

    def _part(self, member: Member, top: TaskId, seen_from: TaskId) -> list[PlannedCall]:
        """Return the calls of one task of the family, newest first."""
        if member.task is None:
            gone = UndoCall(id=f"@{member.task_id}", tool="", status="impossible", reason=GONE)
            return [PlannedCall(gone)]
        at = {str(each.seq): each.at for each in member.records}
        own = "" if member.task_id == seen_from else f"@{member.task_id}"
        from_top = "" if member.task_id == top else f"@{member.task_id}"
        return [
            replace(
                planned,
                call=replace(planned.call, id=planned.call.id + own),
                key=planned.call.id + from_top,
                at=at[planned.call.id],
            )
            for planned in planned_calls(member.records, self._find_tool)
        ]

    async def plan_now(self, task: TaskRecord) -> UndoPlan:
        """Return the plan of a task, without what was changed since."""
        plan, seen = await self.plan(task), Seen()
        calls = [await self._checked(each, seen) for each in plan.calls]
        return replace(plan, calls=calls)

    async def _checked(self, planned: PlannedCall, seen: Seen) -> PlannedCall:
        replaced = planned.settled.replaced if planned.settled else ()
        if planned.call.status != "ready" or not replaced:
            return planned
        if not (reason := await self.stored.obstacle(replaced, seen)):
            return planned
        return replace(planned, call=replace(planned.call, status="impossible", reason=reason))

    def _find_tool(self, agent: str, tool_id: str) -> ToolSpec | None:
        tool = self.invoker_of(agent, tool_id).registry.by_id.get(tool_id)
        return None if tool is None else tool.spec

    async def is_undo(self, task: TaskRecord) -> bool:
        """Whether a task is itself an undo."""
        records = await self._log.read(task.log_id, after=task.first_seq - 1, limit=1)
        requested = records[0].event if records else None
        return isinstance(requested, CallRequested) and requested.undoes is not None
