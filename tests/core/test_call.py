"""A call's place in the tree of calls."""

import pytest

from penstock.core.call import ONCE, CallPath, RetryPolicy, frame_above, is_below, tools_on

ROOT = "task_1/2/search#0a1b2c3d4e5f6071"
NESTED = f"{ROOT}/mcp__files__read#8899aabbccddeeff.2"


@pytest.mark.parametrize(
    ("path", "tools"),
    [
        ("task_1", []),
        ("task_1/2", []),
        (ROOT, ["search"]),
        (NESTED, ["search", "mcp__files__read"]),
        ("write/1/task_1/1/a.b#00", ["a.b"]),
    ],
)
def test_the_tools_along_a_path_are_read_off_it(path: str, tools: list[str]) -> None:
    assert tools_on(CallPath(path)) == tools


@pytest.mark.parametrize(
    ("path", "parent", "below"),
    [
        (NESTED, ROOT, True),
        (ROOT, ROOT, False),
        (ROOT, NESTED, False),
        (f"{ROOT}.2", ROOT, False),
        (f"{ROOT}.2/x#1", ROOT, False),
        (f"{ROOT}.2/x#1", f"{ROOT}.2", True),
        ("", "", False),
    ],
)
def test_only_nested_calls_are_below_a_call(path: str, parent: str, *, below: bool) -> None:
    """The second equal call, which ends in `.2`, is a neighbour of the first."""
    assert is_below(path, parent) is below


@pytest.mark.parametrize(
    ("path", "frame"),
    [("task_1/scout/2", "task_1"), ("task_1/scout/2/1/read#0a", "task_1/scout/2"), ("", "")],
)
def test_a_call_begins_in_the_frame_of_its_agent_and_a_visit_in_that_of_its_run(
    path: str, frame: str
) -> None:
    assert frame_above(path) == frame


STEADY = RetryPolicy(initial_backoff_ms=100, multiplier=1)
QUICK = RetryPolicy(initial_backoff_ms=0)
DEFAULT = RetryPolicy(max_attempts=9)


@pytest.mark.parametrize(
    ("policy", "attempt", "wait"),
    [
        (DEFAULT, 1, 200),
        (DEFAULT, 2, 400),
        (DEFAULT, 6, 6_400),
        (DEFAULT, 7, 10_000),
        (DEFAULT, 50, 10_000),
        (STEADY, 9, 100),
        (QUICK, 9, 0),
    ],
)
def test_waits_grow_up_to_a_bound(policy: RetryPolicy, attempt: int, wait: float) -> None:
    assert policy.backoff_ms(attempt) == wait


def test_a_bound_is_kept_when_the_power_is_too_large_to_compute() -> None:
    assert RetryPolicy(multiplier=2.5).backoff_ms(100_000) == 10_000


def test_a_call_is_tried_once_by_default() -> None:
    assert ONCE.max_attempts == 1
