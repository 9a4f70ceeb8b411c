"""The budget of a tree of tasks: children draw from the allowance of the task at its root.

Guarantees: the tasks below a root reserve in one budget before they work, with all that the tree
has used so far, so many children cannot each spend what one task may. Seconds are counted for each
child alone (`limits.child_seconds`).

How: the newest trees whose children work here have one Budget each in this process. Its usage is
the sum of the tasks of the tree; those that work here are counted as they work, all others as their
logs say when the first child starts. Processes that work on one tree at the same time do not see
what the others use until then, and the root itself has its own budget, without what its children
use afterwards.
Shown by tests/chat/children/test_tree_budget.py.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
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


class TreeSpent(Spent):
    """The usage of a tree. It is added up when the tasks of the tree have changed it."""

    def gather(self, tasks: "dict[TaskId, Spent]") -> None:
        """Become the sum of the tasks."""
        every = tasks.values()
        prices = [each.cost_usd for each in every]
        self.input_tokens = sum(each.input_tokens for each in every)
        self.output_tokens = sum(each.output_tokens for each in every)
        self.model_calls = sum(each.model_calls for each in every)
        self.tool_calls = sum(each.tool_calls for each in every)
        self.cost_usd = None if None in prices else sum(price or 0.0 for price in prices)


class TreeBudget(Budget):
    """The budget of one tree."""

    __slots__ = ("_sum", "tasks")

    def __init__(self, allowance: Allowance, clock: Clock) -> None:
        self._sum = TreeSpent()
        self.tasks: dict[TaskId, Spent] = {}
        """The usage of each task; that of a task that works here changes as it works."""
        super().__init__(replace(allowance, seconds=math.inf), self._sum, clock)

    def reserve_call(self) -> None:
        """Reserve one tool call of any task, or raise BudgetExceeded."""
        self._sum.gather(self.tasks)
        super().reserve_call()

    def spent(self) -> bool:
        """Return whether any limit of the tree is used up."""
        self._sum.gather(self.tasks)
        return super().spent()

    def reserve_model(self, tokens: int, cost_usd: float | None = None) -> bool:
        """Reserve one model call of any task; return False if it exceeds a limit."""
        self._sum.gather(self.tasks)
        return super().reserve_model(tokens, cost_usd)


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

    async def of(self, task: TaskState, child: ChildRequested) -> TreeBudget | None:
        """Return the budget of a child's tree, with the child; None if the root was erased."""
        lock = self._loading.get(child.root) or asyncio.Lock()
        self._loading[child.root] = lock
        async with lock:
            tree = self._trees.get(child.root) or await self._loaded(child.root)
        if tree is not None:
            self._trees[child.root] = tree
            if len(self._trees) > _KEPT:
                self._trees.popitem(last=False)
            tree.tasks[task.task_id] = task.spent
        return tree

    async def _loaded(self, root: TaskId) -> TreeBudget | None:
        record = await self._projections.find_task(root)
        if record is None:
            return None
        tree = TreeBudget(self._allowance_of(record), self._clock)
        for each in [record, *await self._below(root)]:
            if each.started_seq is not None:
                _, usage, _ = await spent_on(self._log, each)
                spent = tree.tasks[each.task_id] = Spent()
                spent.add(usage)
                spent.model_calls, spent.tool_calls = usage.model_calls, usage.tool_calls
        return tree

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
