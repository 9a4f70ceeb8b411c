"""Inputs of requests are stored as JSON, or the request is refused."""

from typing import Any

import pytest

from penstock.chat.requests import NewCall, NewRun, call_requested, run_requested
from penstock.core.errors import InvalidRequest
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import CallRequested
from penstock.core.events.flow_events import FlowRequested
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.profile import LOCAL_PROFILE


def nested(levels: int) -> dict[str, Any]:
    """Return an object around as many others."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


WRONG = [
    ({"n": float("inf")}, "is not JSON: Out of range float values are not JSON compliant"),
    ({"a": [{"n": float("nan")}]}, "is not JSON: Out of range float values"),
    ({"n": object()}, "is not JSON: Object of type object is not JSON serializable"),
    ({"n": b"x"}, "is not JSON: Object of type bytes is not JSON serializable"),
    ({(1, 2): 1}, "is not JSON: keys must be str, int, float, bool or None, not tuple"),
    ({"n": 10**5000}, "is not JSON: Exceeds the limit"),
    (nested(JSON_DEPTH), f"must have at most {JSON_DEPTH} levels of nesting"),
]


def requested(value: dict[Any, Any]) -> list[CallRequested | FlowRequested]:
    """Return the input as that of a call, and as that of a run."""
    call, run = NewCall(tool_id="t", input=value), NewRun(command="f", inputs=value)
    return [call_requested(call, LOCAL_PROFILE), run_requested(run, LOCAL_PROFILE)]


@pytest.mark.parametrize(("value", "problem"), WRONG)
def test_an_input_that_cannot_be_stored_is_refused(value: dict[Any, Any], problem: str) -> None:
    call, run = NewCall(tool_id="t", input=value), NewRun(command="f", inputs=value)
    with pytest.raises(InvalidRequest, match=f"/input: {problem}"):
        call_requested(call, LOCAL_PROFILE)
    with pytest.raises(InvalidRequest, match=f"/inputs: {problem}"):
        run_requested(run, LOCAL_PROFILE)


@pytest.mark.parametrize("value", [{}, {"a": 1.5}, {1: (2, 3)}, {"half": "\ud800"}, {"n": 10**400}])
def test_a_request_reads_back_as_it_was_written(value: dict[Any, Any]) -> None:
    """Otherwise a task would continue with another input after a restart."""
    for event in requested(value):
        assert decode(kind_of(event), encode(event)) == event


def test_a_later_change_of_the_input_does_not_change_the_request() -> None:
    value: dict[str, Any] = {"a": []}
    events = requested(value)
    value["a"].append(1)
    assert [decode(kind_of(each), encode(each)) for each in events] == events
