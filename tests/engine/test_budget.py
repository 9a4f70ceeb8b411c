"""Budgets: reserved before the work, settled after it."""

from typing import Any

import pytest

from penstock.core.call_errors import BudgetExceeded
from penstock.core.errors import ConfigError
from penstock.engine.budget import Allowance, Budget, PartialBudget
from penstock.engine.task_state import PartSpent, Spent
from penstock.testing.clock import FakeClock


def test_a_reserved_call_counts_until_it_is_settled() -> None:
    budget = Budget(Allowance(tool_calls=2), Spent(tool_calls=1), FakeClock())
    budget.reserve_call()
    with pytest.raises(BudgetExceeded, match="2 tool calls"):
        budget.reserve_call()
    budget.settle_call()
    budget.reserve_call()
    with pytest.raises(BudgetExceeded):
        budget.reserve_call()


def test_budgets_are_not_continuable() -> None:
    error = BudgetExceeded().envelope().error
    assert error
    assert not error.continuable


@pytest.mark.parametrize(
    ("allowance", "spent", "tokens", "fits"),
    [
        (Allowance(), {}, 1_000_000, True),
        (Allowance(model_calls=1), {}, 1, True),
        (Allowance(model_calls=1), {"model_calls": 1}, 1, False),
        (Allowance(tokens=100), {}, 100, True),
        (Allowance(tokens=100), {}, 101, False),
        (Allowance(tokens=100), {"input_tokens": 40, "output_tokens": 40}, 20, True),
        (Allowance(tokens=100), {"input_tokens": 40, "output_tokens": 40}, 21, False),
        (Allowance(cost_usd=1), {"cost_usd": 0.9}, 100, True),
        (Allowance(cost_usd=1), {"cost_usd": 0.9}, 101, False),
        (Allowance(cost_usd=1), {"cost_usd": None}, 1, True),
        (Allowance(seconds=10), {"active_ms": 9_999}, 1, True),
        (Allowance(seconds=10), {"active_ms": 10_000}, 1, False),
    ],
)
def test_whether_a_model_call_fits(
    allowance: Allowance, spent: dict[str, Any], tokens: int, fits: bool
) -> None:
    budget = Budget(allowance, Spent(**spent), FakeClock())
    assert budget.reserve_model(tokens, tokens / 1000) is fits


def test_model_calls_in_flight_share_the_remaining_tokens() -> None:
    budget = Budget(Allowance(tokens=100), Spent(), FakeClock())
    assert budget.reserve_model(60)
    assert not budget.reserve_model(60)
    budget.settle_model(60)
    assert budget.reserve_model(60)


def test_money_in_flight_is_shared_as_well() -> None:
    """The page: "Reserve before the work … Afterwards the reservation becomes the real usage."."""
    budget = Budget(Allowance(cost_usd=1), Spent(cost_usd=0.2), FakeClock())
    assert budget.reserve_model(1, 0.6)
    assert not budget.reserve_model(1, 0.6)
    budget.settle_model(1, 0.6)
    assert budget.reserve_model(1, 0.6)


def test_money_cannot_be_bounded_where_nothing_has_a_price() -> None:
    """The page: "a model without a price refuses this setting"."""
    budget = Budget(Allowance(cost_usd=1), Spent(), FakeClock())
    with pytest.raises(ConfigError, match=r"budget_cost_usd .* no price: set input_price"):
        budget.reserve_model(1, None)


def test_a_model_that_is_free_keeps_every_bound() -> None:
    """A price of 0 is one: `input_price = 0` is what the refusal asks for."""
    budget = Budget(Allowance(cost_usd=1), Spent(cost_usd=0.99), FakeClock())
    assert budget.reserve_model(1_000_000, 0.0)


@pytest.mark.parametrize(
    ("allowance", "spent", "is_spent"),
    [
        (Allowance(), {"tool_calls": 9, "model_calls": 9, "cost_usd": None}, False),
        (Allowance(tool_calls=2), {"tool_calls": 1}, False),
        (Allowance(tool_calls=2), {"tool_calls": 2}, True),
        (Allowance(model_calls=2), {"model_calls": 2}, True),
        (Allowance(tokens=9), {"input_tokens": 4, "output_tokens": 4}, False),
        (Allowance(tokens=9), {"input_tokens": 4, "output_tokens": 5}, True),
        (Allowance(cost_usd=1), {"cost_usd": 0.99}, False),
        (Allowance(cost_usd=1), {"cost_usd": 1.0}, True),
        (Allowance(seconds=10), {"active_ms": 10_000}, True),
    ],
)
def test_a_budget_is_spent_when_one_allowance_is_used_up(
    allowance: Allowance, spent: dict[str, Any], is_spent: bool
) -> None:
    assert Budget(allowance, Spent(**spent), FakeClock()).spent() is is_spent


def test_seconds_count_from_the_activation_on_top_of_those_before() -> None:
    clock = FakeClock()
    budget = Budget(Allowance(seconds=10), Spent(active_ms=4_000), clock)
    clock.advance(5)
    assert budget.seconds_left() == pytest.approx(1)
    budget.reserve_call()
    clock.advance(1)
    with pytest.raises(BudgetExceeded, match="10 seconds"):
        budget.reserve_call()


def test_time_in_which_a_task_only_waited_does_not_count() -> None:
    clock = FakeClock()
    budget = Budget(Allowance(seconds=60), Spent(), clock)
    clock.advance(100)
    assert budget.spent()
    budget.rest(90)
    assert (budget.seconds_left(), budget.rested) == (50, 90)
    assert not budget.spent()


@pytest.mark.parametrize(("active_ms", "fits"), [(9_999, True), (10_000, False), (10_001, False)])
def test_no_call_begins_when_the_seconds_are_used_up(active_ms: int, fits: bool) -> None:
    budget = Budget(Allowance(seconds=10), Spent(active_ms=active_ms), FakeClock())
    if fits:
        budget.reserve_call()
        return
    with pytest.raises(BudgetExceeded, match="10 seconds"):
        budget.reserve_call()


# ---- the budget of an agent that works for a call ----


def part_of(
    outer: Budget, allowance: Allowance, spent: PartSpent | None = None, active_ms: int = 0
) -> PartialBudget:
    """Return the budget of an agent that works within another budget."""
    used = spent or PartSpent()
    return PartialBudget(allowance, used, FakeClock(), outer=outer, active_ms=active_ms)


@pytest.mark.parametrize(
    ("outer", "own", "is_own"),
    [
        (Allowance(tool_calls=1), Allowance(tool_calls=9), False),
        (Allowance(tool_calls=9), Allowance(tool_calls=1), True),
        (Allowance(tool_calls=1), Allowance(tool_calls=1), False),
    ],
)
def test_a_call_counts_in_both_budgets(outer: Allowance, own: Allowance, *, is_own: bool) -> None:
    task = Budget(outer, Spent(), FakeClock())
    part = part_of(task, own)
    part.reserve_call()
    with pytest.raises(BudgetExceeded, match="1 tool calls"):
        part.reserve_call()
    assert part.has_refused is is_own
    part.settle_call()
    part.reserve_call()
    part.settle_call()
    for _ in range(outer.tool_calls):
        task.reserve_call()


@pytest.mark.parametrize(
    ("outer", "own", "fits"),
    [
        (Allowance(tokens=100), Allowance(), True),
        (Allowance(tokens=99), Allowance(), False),
        (Allowance(), Allowance(tokens=99), False),
        (Allowance(cost_usd=1), Allowance(), True),
        (Allowance(cost_usd=0.5), Allowance(), False),
        (Allowance(), Allowance(cost_usd=0.5), False),
        (Allowance(), Allowance(model_calls=0), False),
    ],
)
def test_a_model_call_must_fit_both_budgets_and_is_released_in_both(
    outer: Allowance, own: Allowance, *, fits: bool
) -> None:
    task = Budget(outer, Spent(), FakeClock())
    part = part_of(task, own)
    assert part.reserve_model(100, 1.0) is fits
    assert part.has_refused is (not fits and outer == Allowance())
    if fits:
        part.settle_model(100, 1.0)
    assert task.reserve_model(100, 1.0) is (fits or outer == Allowance())


def test_a_part_whose_cost_is_limited_reserves_nothing_for_a_model_without_a_price() -> None:
    task = Budget(Allowance(model_calls=1), Spent(), FakeClock())
    with pytest.raises(ConfigError, match="no price"):
        part_of(task, Allowance(cost_usd=1)).reserve_model(1)
    assert task.reserve_model(1)


def test_the_seconds_of_a_part_begin_when_it_starts() -> None:
    task = Budget(Allowance(seconds=100), Spent(active_ms=50_000), FakeClock())
    part = part_of(task, Allowance(seconds=30), PartSpent(since_ms=40_000), 50_000)
    assert part.seconds_left() == 20
    part.rest(5)
    assert (part.seconds_left(), task.seconds_left()) == (25, 55)
    long = part_of(task, Allowance(seconds=300), PartSpent(since_ms=40_000), 50_000)
    assert (long.seconds_left(), long.spent()) == (55, False)
