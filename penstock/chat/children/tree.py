"""A tree of tasks: a task and the tasks below it, with their usage, for the API and the CLI.

Shown by tests/chat/children/test_tree.py.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.chat.recorded.task_records import spent_on
from penstock.chat.wire_forms import task_part
from penstock.core.ids import TaskId
from penstock.core.messages import Usage, total_usage
from penstock.core.task import TaskRecord
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf

MAX_DEPTH, MAX_TASKS = 8, 1000
_PAGE = 200


class Node(Struct, kw_only=True):
    """A task with those that it requested."""

    task: TaskRecord
    usage: Usage
    children: "list[Node]" = field(default_factory=list)

    @property
    def total(self) -> Usage:
        """The usage of the task and of all below it."""
        own, below = self.usage, [each.total for each in self.children]
        used = [own, *below]
        total = total_usage(used, tool_calls=sum(each.tool_calls for each in used))
        # It counts replies, and each of these is the sum of several.
        return replace(total, model_calls=sum(each.model_calls for each in used))

    def to_wire(self) -> dict[str, Any]:
        """Return the task and those below it for programs."""
        children = [each.to_wire() for each in self.children]
        usage = {"usage": self.usage.to_wire(), "totalUsage": self.total.to_wire()}
        return task_part(self.task) | usage | {"children": children}


class Tree(Struct, frozen=True):
    """The tree below a task."""

    root: Node
    is_truncated: bool
    """More tasks exist than were wanted."""

    def to_wire(self) -> dict[str, Any]:
        """Return the tree for programs."""
        whole = self.root.to_wire()
        children = whole.pop("children")
        shown: dict[str, Any] = {"task": whole, "children": children}
        return shown | ({"truncated": True} if self.is_truncated else {})


async def tree_of(
    log: Log,
    projections: Projections,
    task: TaskRecord,
    *,
    depth: int = MAX_DEPTH,
    limit: int = MAX_TASKS,
) -> Tree:
    """Return a task and the tasks below it: so many levels, and at most so many tasks."""
    below, total = await _below(projections, task.root_id or task.task_id, limit)
    children: defaultdict[TaskId | None, list[TaskRecord]] = defaultdict(list)
    for each in below:
        children[each.parent_id].append(each)
    cut = len(below) < total

    async def node(record: TaskRecord, level: int) -> Node:
        nonlocal cut
        _, usage, _ = await spent_on(log, record)
        mine = children[record.task_id]
        if level == 0:
            cut = cut or bool(mine)
            return Node(task=record, usage=usage)
        return Node(
            task=record, usage=usage, children=[await node(each, level - 1) for each in mine]
        )

    root = await node(task, depth)
    return Tree(root, cut)


async def _below(
    projections: Projections, root: TaskId, limit: int
) -> tuple[Sequence[TaskRecord], int]:
    """Return the tasks below a root, oldest first, and their number."""
    found: list[TaskRecord] = []
    of, total = TasksOf(root_id=root), 1
    while len(found) < min(total, limit):
        size = min(_PAGE, limit - len(found))
        page = Page(limit=size, offset=len(found), is_descending=False)
        records, total = await projections.tasks(of=of, page=page)
        if not records:
            break
        found += records
    return found, total
