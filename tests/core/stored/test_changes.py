"""Changes of stored values."""

from typing import Any

import pytest
from hypothesis import given

from penstock.core.call_errors import ToolFailed
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateEntry, StateVerb, changed, merge_patch
from penstock.testing.clock import START
from tests.kit.json_values import FEW, json_values

# the examples of RFC 7386, appendix A
PATCHES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "merged"), PATCHES)
def test_a_merge_patch_is_that_of_rfc_7386(target: Any, patch: Any, merged: Any) -> None:
    assert merge_patch(target, patch) == merged


@FEW
@given(json_values)
def test_a_value_is_stored_unchanged(value: Any) -> None:
    change = StateChange(
        verb=StateVerb.PUT,
        scope=Scope(ScopeKind.PROFILE, "ann"),
        key="k",
        revision="r",
        value=value,
    )
    outcome = changed(None, change, START, Limits())
    assert outcome.entry is not None
    assert StateEntry(key="k", text=outcome.entry.text, revision="r").value == value


def test_a_value_one_byte_over_its_limit_is_refused() -> None:
    def put(size: int) -> None:
        scope = Scope(ScopeKind.PROFILE, "ann")
        value = "x" * (size - 2)
        change = StateChange(verb=StateVerb.PUT, scope=scope, key="k", revision="r", value=value)
        changed(None, change, START, Limits())

    put(256 * 1024)
    with pytest.raises(ToolFailed, match="at most 262144 bytes as JSON, 'k' would have 262145"):
        put(256 * 1024 + 1)


def deep() -> Any:
    value: Any = 1
    for _ in range(5000):
        value = {"a": value}
    return value


@pytest.mark.parametrize("verb", [StateVerb.PUT, StateVerb.PATCH, StateVerb.APPEND])
@pytest.mark.parametrize("value", [{"a": deep()}, {"a": {1, 2}}, {"a": 10**5000}])
def test_a_value_that_is_not_json_is_refused_with_its_key(verb: StateVerb, value: Any) -> None:
    scope = Scope(ScopeKind.PROFILE, "ann")
    change = StateChange(verb=verb, scope=scope, key="k", revision="r", value=value)
    with pytest.raises(ToolFailed, match="the value under 'k' is not JSON") as refused:
        changed(None, change, START, Limits())
    assert refused.value.code == "TYPE_ERROR"


def test_a_put_reports_success() -> None:
    change = StateChange(
        verb=StateVerb.PUT, scope=Scope(ScopeKind.PROFILE, "ann"), key="k", revision="r", value=1
    )
    outcome = changed(None, change, START, Limits())
    assert (outcome.ok, outcome.conflict_revision) == (True, None)
