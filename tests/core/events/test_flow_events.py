"""Results of steps, as later steps and programs see them."""

from typing import Any

import pytest

from penstock.core.events.flow_events import RESERVED, SKIPPED, FileUse, StepResult, is_present


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", True),
        (" \n", False),
        ("", False),
        (None, False),
        ([], False),
        ({}, False),
        ([0], True),
        ({"a": None}, True),
        (0, True),
        (0.0, True),
        (False, True),
    ],
)
def test_only_values_with_content_are_present(value: Any, expected: bool) -> None:
    """Text that is not blank; non-empty list or mapping; any number or boolean."""
    assert is_present(value) is expected


def test_a_result_has_its_outputs_flat_and_typed_beside() -> None:
    result = StepResult(
        summary="s",
        files=(FileUse("a", "read"),),
        branch=("x",),
        outputs={"n": 1},
        finish={"status": "complete"},
    )
    assert result.to_wire() == {
        "status": "complete",
        "summary": "s",
        "artifacts": "",
        "files": "a (read)",
        "fullOutput": "",
        "n": 1,
        "outputs": {"n": 1},
        "branch": ["x"],
        "finish": {"status": "complete"},
    }


def test_a_skipped_step_has_a_status_and_no_other_value() -> None:
    assert SKIPPED.read("status") == "skipped"
    assert [SKIPPED.read(name) for name in ("summary", "files", "output", "branch")] == [""] * 4


def test_an_output_may_not_have_the_name_of_a_result_field() -> None:
    assert {*StepResult().to_wire(), "error", "finish", "visits"} <= set(RESERVED)
