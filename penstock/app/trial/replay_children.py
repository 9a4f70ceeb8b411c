"""The child tasks of a replay: they are looked up, but none is requested, awaited or cancelled.

What the record has of them is given again before it gets here. What gets here was not recorded:
code of a script that changed, or the operation in which the record was cut. Shown by
tests/app/trial/test_replay_children.py and tests/journeys/test_replayed_children.py.
"""

from collections.abc import Sequence

from penstock.app.trial.replay_log import ReplayLog
from penstock.chat.children.work import ChildWork
from penstock.core.errors import Cancel
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import Profile
from penstock.core.task import TaskRecord
from penstock.engine.budget import Budget
from penstock.engine.ledger import Ledger
from penstock.engine.task_state import TaskState
from penstock.tools.policy import Caller
from penstock.tools.resources import AgentRequest, Children


class ReplayChildren(Children):
    """Finds the tasks of the project, and stops the replay where one would be written."""

    def __init__(self, real: Children, log: ReplayLog) -> None:
        self._real = real
        self._log = log

    def check(self, child: ChildRequested, caller: Caller) -> None:
        """Raise what the project raises for a child that could not work."""
        self._real.check(child, caller)

    async def find(self, task_ids: Sequence[TaskId], profile: Profile) -> list[TaskRecord | None]:
        """Return tasks of a profile; None for an unknown one."""
        return await self._real.find(task_ids, profile)

    async def create(self, children: Sequence[tuple[TaskId, ChildRequested]]) -> None:
        """Raise Cancel."""
        raise self._stop(f"{', '.join(task_id for task_id, _ in children)} would be requested")

    async def attend(self, task_id: TaskId, waiter: TaskId, waiter_log: LogId) -> None:
        """Raise Cancel."""
        raise self._stop(f"{task_id} would be awaited")

    async def cancel(self, task_id: TaskId, profile: Profile) -> list[TaskId]:
        """Raise Cancel."""
        raise self._stop(f"{task_id} would be cancelled")

    async def work_here(self, child: ChildRequested, request: AgentRequest, ledger: Ledger) -> str:
        """Run what a child would do in a frame of the call: its models and tools are replayed."""
        return await self._real.work_here(child, request, ledger)

    def _stop(self, what: str) -> Cancel:
        log = self._log
        if log.record.was_cut and not log.is_live:
            return log.stop("end")
        signal = log.differ("code", f"the task {what} now", None, path=log.record.task_id)
        return log.stop("write") if log.is_live else signal


class ReplayedChildWork(ChildWork):
    """Works on a recorded child alone."""

    async def _dependencies(self, child: ChildRequested) -> dict[str, TaskRecord | None]:
        """Return nothing: its start event has the text that its model read."""
        return {}

    async def _with_tree(self, task: TaskState, own: Budget) -> Budget:
        """Return its own budget: the lists say what the tree has used in the end, not then."""
        return own
