"""What callers hand in becomes an event as the log keeps it, or is refused at the door."""

from typing import Any

import pytest

from penstock.chat.message import NewCall, NewRun, call_requested, run_requested
from penstock.core.errors import InvalidRequest
from penstock.core.events.codec import decode, encode, kind_of
from penstock.core.events.events import CallRequested
from penstock.core.events.flow_events import FlowRequested
from penstock.core.profile import LOCAL_PROFILE

DEPTH = 4
WRONG = [
    ({"n": float("inf")}, "is not JSON: Out of range float values are not JSON compliant"),
    ({"a": [{"n": float("nan")}]}, "is not JSON: Out of range float values"),
    ({"n": object()}, "is not JSON: Object of type object is not JSON serializable"),
    ({"n": b"x"}, "is not JSON: Object of type bytes is not JSON serializable"),
    ({(1, 2): 1}, "is not JSON: keys must be str, int, float, bool or None, not tuple"),
    ({"n": 10**5000}, "is not JSON: Exceeds the limit"),
    ({"a": {"b": {"c": {"d": {}}}}}, "must have at most 4 levels of nesting"),
]


def requested(given: dict[Any, Any]) -> list[CallRequested | FlowRequested]:
    """Return the input as that of a call, and as that of a run."""
    call, run = NewCall(tool_id="t", input=given), NewRun(command="f", inputs=given)
    return [call_requested(call, LOCAL_PROFILE, DEPTH), run_requested(run, LOCAL_PROFILE, DEPTH)]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_what_no_log_could_hold_is_refused(given: dict[Any, Any], said: str) -> None:
    call, run = NewCall(tool_id="t", input=given), NewRun(command="f", inputs=given)
    with pytest.raises(InvalidRequest, match=f"/input: {said}"):
        call_requested(call, LOCAL_PROFILE, DEPTH)
    with pytest.raises(InvalidRequest, match=f"/inputs: {said}"):
        run_requested(run, LOCAL_PROFILE, DEPTH)


@pytest.mark.parametrize("given", [{}, {"a": 1.5}, {1: (2, 3)}, {"half": "\ud800"}, {"n": 10**400}])
def test_an_event_is_the_same_when_it_is_read_back(given: dict[Any, Any]) -> None:
    """Else a task would go on with something else after a restart."""
    for event in requested(given):
        assert decode(kind_of(event), encode(event)) == event


def test_what_a_caller_changes_later_changes_nothing() -> None:
    given: dict[str, Any] = {"a": []}
    events = requested(given)
    given["a"].append(1)
    assert [decode(kind_of(each), encode(each)) for each in events] == events
