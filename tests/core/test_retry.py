"""How long to wait before a call is tried again."""

import pytest

from penstock.core.retry import ONCE, RetryPolicy

STEADY = RetryPolicy(initial_backoff_ms=100, multiplier=1)
QUICK = RetryPolicy(initial_backoff_ms=0)
USUAL = RetryPolicy(max_attempts=9)


@pytest.mark.parametrize(
    ("policy", "attempt", "wait"),
    [
        (USUAL, 1, 200),
        (USUAL, 2, 400),
        (USUAL, 6, 6_400),
        (USUAL, 7, 10_000),
        (USUAL, 50, 10_000),
        (STEADY, 9, 100),
        (QUICK, 9, 0),
    ],
)
def test_waits_grow_up_to_a_bound(policy: RetryPolicy, attempt: int, wait: float) -> None:
    assert policy.backoff_ms(attempt) == wait


def test_a_bound_is_kept_when_the_power_is_too_large_to_compute() -> None:
    assert RetryPolicy(multiplier=2.5).backoff_ms(100_000) == 10_000


def test_a_call_is_tried_once_unless_said_otherwise() -> None:
    assert ONCE.max_attempts == 1
