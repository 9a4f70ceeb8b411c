"""What a tree of calls may spend: reserved before the work, settled after it."""

from msgspec import Struct

from penstock.core.call_errors import BudgetExceeded
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.engine.task_state import TaskState

NO_PRICE = (
    "budget_cost_usd bounds what a task may cost, and its model has no price: give it input_price "
    "and output_price, or bound budget_tokens"
)


class Allowance(Struct, frozen=True, kw_only=True):
    """What one task may spend, with all that it starts. None is no bound."""

    tool_calls: int = 10_000
    model_calls: int = 1_000
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 1_800
    """Time in activations; waiting for people is free."""


class Budget:
    """An Allowance, and what is spent and reserved of it.

    What is spent stands in the log; what is reserved belongs to work in flight.
    """

    __slots__ = (
        "_allowance",
        "_begun",
        "_calls",
        "_clock",
        "_cost",
        "_models",
        "_task",
        "_tokens",
        "rested",
    )

    def __init__(self, allowance: Allowance, task: TaskState, clock: Clock) -> None:
        self._allowance = allowance
        self._task = task
        self._clock = clock
        self._begun = clock.monotonic() - task.active_ms / 1000
        self._calls = 0
        self._models = 0
        self._tokens = 0
        self._cost = 0.0
        self.rested = 0.0
        """Seconds that do not count, though the task was in an activation."""

    def reserve_call(self) -> None:
        """Set one tool call aside, or raise BudgetExceeded."""
        if self._task.tool_calls + self._calls >= self._allowance.tool_calls:
            raise BudgetExceeded(
                f"the budget of {self._allowance.tool_calls} tool calls is used up"
            )
        if self.seconds_left() <= 0:
            raise BudgetExceeded(f"the budget of {self._allowance.seconds:g} seconds is used up")
        self._calls += 1

    def settle_call(self) -> None:
        """Give the reservation of one tool call back: the log has it now, or it did not run."""
        self._calls -= 1

    def spent(self) -> bool:
        """Whether nothing is left of something: no further call can follow."""
        task, allowance = self._task, self._allowance
        tokens, cost = allowance.tokens, allowance.cost_usd
        return (
            task.tool_calls >= allowance.tool_calls
            or task.model_calls >= allowance.model_calls
            or (tokens is not None and task.input_tokens + task.output_tokens >= tokens)
            or (cost is not None and (task.cost_usd or 0) >= cost)
            or self.seconds_left() <= 0
        )

    def reserve_model(self, tokens: int, cost_usd: float | None = None) -> bool:
        """Set one model call of about so many tokens aside; False when that is too much.

        Raises ConfigError when money is bounded, and the model has no price.
        """
        task, allowance = self._task, self._allowance
        if task.model_calls + self._models >= allowance.model_calls or self.seconds_left() <= 0:
            return False
        spent = task.input_tokens + task.output_tokens + self._tokens
        if allowance.tokens is not None and spent + tokens > allowance.tokens:
            return False
        cost = cost_usd or 0.0
        if allowance.cost_usd is not None:
            if cost_usd is None:
                raise ConfigError(NO_PRICE)
            if (task.cost_usd or 0) + self._cost + cost > allowance.cost_usd:
                return False
        self._models += 1
        self._tokens += tokens
        self._cost += cost
        return True

    def settle_model(self, tokens: int, cost_usd: float | None = None) -> None:
        """Give the reservation of one model call back: the log has the real figures."""
        self._models -= 1
        self._tokens -= tokens
        self._cost -= cost_usd or 0.0

    def rest(self, seconds: float) -> None:
        """Take in that the task only waited, for time that its own retry asked for."""
        self._begun += seconds
        self.rested += seconds

    def seconds_left(self) -> float:
        """Return how long the task may still be at work."""
        return self._allowance.seconds - (self._clock.monotonic() - self._begun)
