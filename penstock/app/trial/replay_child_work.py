"""The body of a recorded child in a replay: its tree and its dependencies are those of its log.

Shown by tests/app/trial/test_replay_child_work.py.
"""

from penstock.chat.children.work import ChildWork
from penstock.core.events.child_events import ChildRequested
from penstock.core.task import TaskRecord
from penstock.engine.budget import Budget
from penstock.engine.task_state import TaskState


class ReplayedChildWork(ChildWork):
    """Works on a recorded child alone."""

    async def _dependencies(self, child: ChildRequested) -> dict[str, TaskRecord | None]:
        """Return nothing: its start event has the text that its model read."""
        return {}

    async def _with_tree(self, task: TaskState, own: Budget) -> Budget:
        """Return its own budget: the lists say what the tree has used in the end, not then."""
        return own
