"""The budget of a task and of all calls below it.

Work reserves before it starts and settles after it ends, so parallel calls cannot each spend the
same remainder. Spent amounts are read from the task's state, which is the fold of the log, so a
restart cannot reset them. Reservations exist in memory only: a crash drops them together with the
work. No await may separate the release of a reservation from the event with the real figures if
the release comes first: in such a gap another call could spend the same remainder. In the other
order both count for a moment, so a limit may be reached early but is not exceeded.

The children of a task reserve in one budget, which the task at the root of their tree joins when
it requests the first of them (`Budget.join`).

An agent that works for a call has a budget of its own within that of its caller (`PartialBudget`):
work reserves in both, the outer one first. What such an agent used is in the fold, too.

Seconds count only while the task is in an activation. The end is moved back by the active time from
earlier activations, and forward by the waits that the runtime's own retries ask for.
Shown by tests/engine/test_budget.py.
"""

from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call_errors import BudgetExceeded
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.engine.task_state import PartSpent, Spent, TaskState

NO_PRICE = (
    "budget_cost_usd limits what a task may cost, but its model has no price: set input_price and "
    "output_price for the model, or limit budget_tokens instead"
)


class Allowance(Struct, frozen=True, kw_only=True):
    """The limits of one task, including everything it starts. None means no limit."""

    tool_calls: int = 10_000
    model_calls: int = 1_000
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 1_800
    """Time in activations; waiting for people does not count."""


class Used(Protocol):
    """The amounts that a budget compares with its allowance, as in `Spent`."""

    @property
    def input_tokens(self) -> int:
        """Tokens that models have read."""
        ...

    @property
    def output_tokens(self) -> int:
        """Tokens that models have written."""
        ...

    @property
    def model_calls(self) -> int:
        """Calls of models."""
        ...

    @property
    def tool_calls(self) -> int:
        """Calls of tools."""
        ...

    @property
    def cost_usd(self) -> float | None:
        """The money spent; None if a model had no price."""
        ...


class Budget:
    """An Allowance with the amounts spent (from the log) and reserved (by running work)."""

    __slots__ = (
        "_clock",
        "allowance",
        "calls",
        "cost",
        "ends_at",
        "models",
        "rested",
        "tokens",
        "tree",
        "used",
    )

    def __init__(self, allowance: Allowance, spent: Spent, clock: Clock) -> None:
        self.allowance = allowance
        self.used: Used = spent
        self._clock = clock
        self.ends_at = clock.monotonic() - spent.active_ms / 1000 + allowance.seconds
        """When the task's time is up, on the monotonic clock."""
        self.calls = 0
        self.models = 0
        self.tokens = 0
        self.cost = 0.0
        self.rested = 0.0
        """Seconds in activations that do not count."""
        self.tree: Budget | None = None
        """The budget of the tree below the task: all but the time is reserved and spent there."""

    def join(self, tree: "Budget") -> None:
        """Reserve and spend in the budget of the tree below this task from now on.

        Work that runs now counts as reserved there.
        """
        tree.allowance = replace(self.allowance, seconds=tree.allowance.seconds)
        if self.tree is not tree:
            at = self.tree or self
            tree.calls += at.calls
            tree.models += at.models
            tree.tokens += at.tokens
            tree.cost += at.cost
            self.tree = tree

    def reserve_call(self) -> None:
        """Reserve one tool call, or raise BudgetExceeded."""
        at = self.tree or self
        if at.used.tool_calls + at.calls >= at.allowance.tool_calls:
            raise BudgetExceeded(f"the budget of {at.allowance.tool_calls} tool calls is used up")
        if self.seconds_left() <= 0:
            raise BudgetExceeded(f"the budget of {self.allowance.seconds:g} seconds is used up")
        at.calls += 1

    def settle_call(self) -> None:
        """Release the reservation of a tool call that is in the log now or did not run."""
        (self.tree or self).calls -= 1

    def spent(self) -> bool:
        """Return whether any limit is used up, so that no further call can follow."""
        at = self.tree or self
        used, allowance = at.used, at.allowance
        tokens, cost = allowance.tokens, allowance.cost_usd
        return (
            used.tool_calls >= allowance.tool_calls
            or used.model_calls >= allowance.model_calls
            or (tokens is not None and used.input_tokens + used.output_tokens >= tokens)
            or (cost is not None and (used.cost_usd or 0) >= cost)
            or self.seconds_left() <= 0
        )

    def reserve_model(self, tokens: int, cost_usd: float | None = None) -> bool:
        """Reserve one model call of about `tokens` tokens; return False if it exceeds a limit.

        Raises ConfigError if the cost is limited and the model has no price.
        """
        at = self.tree or self
        used, allowance = at.used, at.allowance
        if used.model_calls + at.models >= allowance.model_calls or self.seconds_left() <= 0:
            return False
        spent = used.input_tokens + used.output_tokens + at.tokens
        if allowance.tokens is not None and spent + tokens > allowance.tokens:
            return False
        cost = cost_usd or 0.0
        if allowance.cost_usd is not None:
            if cost_usd is None:
                raise ConfigError(NO_PRICE)
            if (used.cost_usd or 0) + at.cost + cost > allowance.cost_usd:
                return False
        at.models += 1
        at.tokens += tokens
        at.cost += cost
        return True

    def settle_model(self, tokens: int, cost_usd: float | None = None) -> None:
        """Release the reservation of a model call whose real figures are in the log."""
        at = self.tree or self
        at.models -= 1
        at.tokens -= tokens
        at.cost -= cost_usd or 0.0

    def rest(self, seconds: float) -> None:
        """Exclude seconds in which the task only waited for a retry."""
        self.ends_at += seconds
        self.rested += seconds

    def seconds_left(self) -> float:
        """Return how many seconds the task may still work."""
        return self.ends_at - self._clock.monotonic()


class PartialBudget(Budget):
    """The budget of an agent that works for a call: its own allowance, within its caller's budget.

    `spent` is what it used with everything below it. Its seconds begin when it starts, and count
    while its task is in an activation.
    """

    __slots__ = ("_outer", "_own_end", "has_refused")

    def __init__(
        self, allowance: Allowance, spent: Spent, clock: Clock, *, outer: Budget, active_ms: int
    ) -> None:
        self._outer = outer
        super().__init__(allowance, spent, clock)
        since_ms = spent.since_ms if isinstance(spent, PartSpent) else 0
        worked = (active_ms - since_ms) / 1000
        self.ends_at = clock.monotonic() - worked + allowance.seconds
        self.has_refused = False
        """Whether its own allowance ended work that its caller's budget would have allowed."""

    def join(self, tree: Budget) -> None:
        """Have the whole task spend in the budget of its tree."""
        self._outer.join(tree)

    def reserve_call(self) -> None:
        """Reserve one tool call in both budgets, or raise BudgetExceeded."""
        self._outer.reserve_call()
        try:
            super().reserve_call()
        except BudgetExceeded:
            self._outer.settle_call()
            self.has_refused = True
            raise

    def settle_call(self) -> None:
        """Release the reservation of a tool call in both."""
        super().settle_call()
        self._outer.settle_call()

    def spent(self) -> bool:
        """Return whether any limit of either is used up."""
        if self._outer.spent():
            return True
        is_spent = super().spent()
        self.has_refused = self.has_refused or is_spent
        return is_spent

    def reserve_model(self, tokens: int, cost_usd: float | None = None) -> bool:
        """Reserve one model call in both; return False if it exceeds a limit of either.

        Raises ConfigError as Budget does.
        """
        if not self._outer.reserve_model(tokens, cost_usd):
            return False
        fits = False
        try:
            fits = super().reserve_model(tokens, cost_usd)
        finally:
            if not fits:
                self._outer.settle_model(tokens, cost_usd)
                self.has_refused = True
        return fits

    def settle_model(self, tokens: int, cost_usd: float | None = None) -> None:
        """Release the reservation of a model call in both."""
        super().settle_model(tokens, cost_usd)
        self._outer.settle_model(tokens, cost_usd)

    def rest(self, seconds: float) -> None:
        """Exclude seconds in which the agent only waited for a retry."""
        self._own_end += seconds
        self.rested += seconds
        self._outer.rest(seconds)

    @property
    def ends_at(self) -> float:
        """When the time of the agent or of its caller is up, on the monotonic clock."""
        return min(self._own_end, self._outer.ends_at)

    @ends_at.setter
    def ends_at(self, moment: float) -> None:
        self._own_end = moment


class Trees(Protocol):
    """The budgets of the trees of tasks that this process works on."""

    def bind(self, task: TaskState, budget: Budget) -> bool:
        """Have the budget of a task at a root join that of its tree; False if it is not loaded."""
        ...

    async def load(self, task: TaskState) -> None:
        """Count what has been used in the tree below a task, which is its root."""
        ...
