"""Typed inputs of a run."""

from typing import Any

import pytest

from penstock.core.events.flow_events import ValueType
from penstock.flows.definition import Flow, RunInput
from penstock.flows.inputs import run_inputs

FLOW = Flow(
    name="f",
    description="d",
    steps=(),
    inputs=(
        RunInput(name="where", value_type=ValueType.STRING, is_required=True),
        RunInput(name="count", value_type=ValueType.NUMBER, default=3),
        RunInput(name="deep", value_type=ValueType.BOOLEAN),
    ),
)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"where": "here"}, {"where": "here", "count": 3}),
        ({"where": "", "count": 0, "deep": False}, {"where": "", "count": 0, "deep": False}),
    ],
)
def test_what_fits_is_taken_with_the_defaults(
    given: dict[str, Any], values: dict[str, Any]
) -> None:
    assert run_inputs(FLOW, given) == (values, [])


def test_every_problem_is_reported_at_once() -> None:
    """Missing, wrong or unknown: rejected with every problem."""
    _, problems = run_inputs(FLOW, {"wher": "x", "count": "3", "deep": 1})
    assert [(each.path, each.message) for each in problems] == [
        ("/inputs/wher", "is no input of this flow. Did you mean 'where'?"),
        ("/inputs/where", "is required: string"),
        ("/inputs/count", 'must be number, found string "3"'),
        ("/inputs/deep", "must be boolean, found number 1"),
    ]
