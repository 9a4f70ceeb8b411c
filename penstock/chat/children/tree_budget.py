"""The budget of a tree of tasks: children draw from the allowance of the task at its root.

Guarantees: the tasks below a root reserve in one budget before they work, with all that the tree
has used so far, so many children cannot each spend what one task may. Seconds are counted for each
child alone (`limits.child_seconds`).

How: the newest trees whose children work here have one Budget each in this process. Its usage is
the sum of the tasks of the tree; those that work here are counted as they work, all others as their
logs say when the tree is loaded. The root joins it: before it requests its first child, and at the
start of each of its activations after that (`TaskDispatcher`, `Ledger`). That, and the end of a
wait for children, also counts what other processes have used. Processes that work on one tree at
the same time do not see what the others use until then.
Shown by tests/chat/children/test_tree_budget.py.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from msgspec.structs import replace

from penstock.chat.recorded.task_records import spent_on
from penstock.core.clock import Clock
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import TaskId
from penstock.core.task import TaskRecord
from penstock.engine.budget import Allowance, Budget
from penstock.engine.task_state import Spent, TaskState
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf

_PAGE = 200
_KEPT = 64
AllowanceOf = Callable[[TaskRecord], Allowance]


class TreeSpent:
    """The usage of a tree: the sum of its tasks, of which some work now."""

    def __init__(self) -> None:
        self.tasks: dict[TaskId, Spent] = {}
        """The usage of each task; that of a task that works here changes as it works."""

    @property
    def input_tokens(self) -> int:
        """Tokens that models have read."""
        return sum(each.input_tokens for each in self.tasks.values())

    @property
    def output_tokens(self) -> int:
        """Tokens that models have written."""
        return sum(each.output_tokens for each in self.tasks.values())

    @property
    def model_calls(self) -> int:
        """Calls of models."""
        return sum(each.model_calls for each in self.tasks.values())

    @property
    def tool_calls(self) -> int:
        """Calls of tools."""
        return sum(each.tool_calls for each in self.tasks.values())

    @property
    def cost_usd(self) -> float | None:
        """The money spent; None if a model had no price."""
        prices = [each.cost_usd for each in self.tasks.values()]
        return None if None in prices else sum(price or 0.0 for price in prices)


class TreeBudget(Budget):
    """The budget of one tree."""

    __slots__ = ("here", "tasks")

    def __init__(self, allowance: Allowance, clock: Clock) -> None:
        super().__init__(replace(allowance, seconds=math.inf), Spent(), clock)
        spent = TreeSpent()
        self.used, self.tasks = spent, spent.tasks
        self.here: set[TaskId] = set()
        """The tasks that have worked here, whose usage follows their work."""


class BudgetKeeper:
    """The budgets of the trees whose children work in this process."""

    def __init__(
        self, log: Log, projections: Projections, clock: Clock, *, allowance_of: AllowanceOf
    ) -> None:
        self._log = log
        self._projections = projections
        self._clock = clock
        self._allowance_of = allowance_of
        self._trees: OrderedDict[TaskId, TreeBudget] = OrderedDict()
        """Those of the newest trees: to add one up again costs a read for each of its tasks."""
        self._loading: WeakValueDictionary[TaskId, asyncio.Lock] = WeakValueDictionary()

    def bind(self, task: TaskState, budget: Budget) -> bool:
        """Have the budget of a task at a root join that of its tree; False if it is not loaded."""
        if (tree := self._trees.get(task.task_id)) is None:
            return False
        tree.tasks[task.task_id] = task.spent
        budget.join(tree)
        return True

    async def load(self, task: TaskState) -> None:
        """Count what has been used in the tree below a task, which is its root."""
        if task.task_id not in self._trees:
            await self._tree(task.task_id, task)
        elif (tree := await self._tree(task.task_id, task)) is not None:
            await self._count(tree, await self._below(task.task_id))

    async def of(self, task: TaskState, child: ChildRequested) -> TreeBudget | None:
        """Return the budget of a child's tree, with the child; None if the root was erased."""
        return await self._tree(child.root, task)

    async def _tree(self, root: TaskId, task: TaskState) -> TreeBudget | None:
        """Return the budget of a tree, in which a task works here."""
        lock = self._loading.get(root) or asyncio.Lock()
        self._loading[root] = lock
        async with lock:
            tree = self._trees.pop(root, None) or await self._loaded(root, but=task.task_id)
            if tree is not None:
                self._trees[root] = tree
                tree.tasks[task.task_id] = task.spent
                tree.here.add(task.task_id)
                if len(self._trees) > _KEPT:
                    self._trees.popitem(last=False)
        return tree

    async def _loaded(self, root: TaskId, *, but: TaskId) -> TreeBudget | None:
        record = await self._projections.find_task(root)
        if record is None:
            return None
        tree = TreeBudget(self._allowance_of(record), self._clock)
        tree.here.add(but)
        await self._count(tree, [record, *await self._below(root)])
        return tree

    async def _count(self, tree: TreeBudget, tasks: Sequence[TaskRecord]) -> None:
        """Add what tasks of a tree have used that did not work here."""
        for each in tasks:
            if each.started_seq is not None and each.task_id not in tree.here:
                _, usage, _ = await spent_on(self._log, each)
                spent = tree.tasks[each.task_id] = Spent()
                spent.add(usage)
                spent.model_calls, spent.tool_calls = usage.model_calls, usage.tool_calls

    async def _below(self, root: TaskId) -> list[TaskRecord]:
        found: list[TaskRecord] = []
        total = 1
        while len(found) < total:
            page = Page(limit=_PAGE, offset=len(found))
            records, total = await self._projections.tasks(of=TasksOf(root_id=root), page=page)
            if not records:
                break
            found += records
        return found
