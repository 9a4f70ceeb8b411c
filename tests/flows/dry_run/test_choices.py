"""Possible outcomes of a visit, by kind of step."""

import pytest

from penstock.flows.dry_run.choices import choices_of
from tests.flows.texts import step_of


@pytest.mark.parametrize(
    ("fields", "branches"),
    [
        ("id: a, agent: x", [""]),
        ("id: a, agent: x, on_error: a", ["", "on_error"]),
        ("id: a, command: make, on_error: a", ["", "on_error"]),
        ("id: a, check: b, present: a, absent: a", ["present", "absent"]),
        ("id: a, agent: x, task: t, branches: {yes: a, no: b}", ["yes", "no"]),
        ("id: a, type: code-decision, branches: {yes: a, no: b}", ["yes", "no"]),
        ("id: a, question: q, branches: {A: a, B: b}", ["A", "B"]),
        ("id: a, question: q, branches: {A: a, B: b}, multiSelect: true", ["A", "B", "A, B"]),
        (
            "id: a, agent: x, task: t, loop_target: a, exit_target: b, max_iterations: 2",
            ["exit", "loop", "cap"],
        ),
    ],
)
def test_each_branch_once_and_all_options_together(fields: str, branches: list[str]) -> None:
    """Multi-select each alone and all together; exit at once, once around, to the cap."""
    assert [each.branch for each in choices_of(step_of(fields))] == branches


def test_a_branch_that_is_called_cap_is_a_branch() -> None:
    step = step_of("id: a, agent: x, task: t, branches: {cap: a, no: b}")
    assert not choices_of(step)[0].is_cap
