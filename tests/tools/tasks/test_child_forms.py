"""Outcomes of tasks, and bounds of what a call says about a child."""

from typing import Any

import pytest

from penstock.core.clock import Moment
from penstock.core.ids import LogId, ProfileId, TaskId
from penstock.core.task import TaskRecord, TaskStatus
from penstock.tools.tasks.child_forms import NewChild, Outcome, checked, outcome_of

OUTPUTS: list[tuple[Any, Any]] = [
    ({"content": "Paris"}, "Paris"),
    ({"content": ' {"a": [1]} '}, {"a": [1]}),
    ({"content": "[1, 2]"}, [1, 2]),
    ({"content": "17"}, "17"),
    ({"content": '{"a": '}, '{"a": '),
    ({"content": "[" * 100_000}, "[" * 100_000),
    ({"content": "seven", "output": {"value": 7}}, 7),
    ({"envelope": {"status": "success", "output": {"b": 1}}}, {"b": 1}),
    ({}, ""),
]


def ended(outcome: Any, status: TaskStatus = TaskStatus.SUCCEEDED) -> TaskRecord:
    return TaskRecord(
        task_id=TaskId("task_1"),
        log_id=LogId("task_1"),
        kind="child",
        status=status,
        profile_id=ProfileId("local"),
        agent="assistant",
        created_at=Moment(0),
        first_seq=1,
        ended_at=Moment(1000),
        outcome=outcome,
    )


@pytest.mark.parametrize(("outcome", "output"), OUTPUTS)
def test_the_output_is_typed_or_json_or_the_text(outcome: Any, output: Any) -> None:
    """wider.md §2.1: a whole reply that is a JSON object or array is a value."""
    assert outcome_of(ended(outcome)).output == output


def test_a_task_that_failed_has_no_output_and_a_reason() -> None:
    error = {"code": "TIMEOUT", "message": "too long"}
    outcome = outcome_of(ended({"content": "half", "error": error}, TaskStatus.FAILED))
    assert (outcome.output, outcome.message) == (None, "too long")
    assert Outcome.from_wire(outcome.to_wire()) == outcome


def test_a_key_without_a_spelling_in_bytes_is_refused_and_an_objective_is_not() -> None:
    """The id of a child is a hash of its key; models write lone surrogates."""
    with pytest.raises(TypeError, match="without lone surrogates"):
        checked(NewChild(objective="Find it", key="a\ud800"))
    assert checked(NewChild(objective="Find \ud800", key="a")).objective == "Find \ud800"
