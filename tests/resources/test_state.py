"""The State for scripts, and for two processes at once."""

from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.resources.state import read_change, read_key, read_limit, result_of

ANN = Scope(ScopeKind.PROFILE, "ann")
LIMITS = Limits()


def change(verb: StateVerb, **wanted: Any) -> StateChange:
    return read_change(verb, ANN, {"key": "k", **wanted}, "r1")


def test_a_request_of_a_script_is_parsed_once() -> None:
    made = change(StateVerb.PUT, value=[1], if_revision=None, ttl_seconds=60.0)
    assert made == StateChange(
        verb=StateVerb.PUT,
        scope=ANN,
        key="k",
        revision="r1",
        value=[1],
        expected=(None,),
        ttl_seconds=60,
    )
    assert change(StateVerb.DELETE, if_revision="r0").expected == ("r0",)
    assert change(StateVerb.APPEND, item=None).value is None
    assert change(StateVerb.PATCH, patch={}).expected == ()


BAD: list[tuple[StateVerb, dict[str, Any], str]] = [
    (StateVerb.PUT, {}, "value is required \\(flo.state.put\\)"),
    (StateVerb.APPEND, {"value": 1}, "item is required \\(flo.state.append\\)"),
    (StateVerb.PATCH, {"patch": [1]}, r"patch must be an object, found \[1\]"),
    (StateVerb.PUT, {"value": 1, "if_revision": 1}, "if_revision must be text or null, found 1"),
    (
        StateVerb.PUT,
        {"value": 1, "ttl_seconds": 0},
        "ttl_seconds must be from 1 to 31536000, found 0",
    ),
    (
        StateVerb.PUT,
        {"value": 1, "ttl_seconds": 1.5},
        "ttl_seconds must be from 1 to 31536000, found 1.5",
    ),
    (StateVerb.PUT, {"value": 1, "ttl_seconds": True}, "ttl_seconds must be from 1 to 31536000"),
    (
        StateVerb.PUT,
        {"value": 1, "ttl_seconds": 31_536_001},
        "ttl_seconds must be from 1 to 31536000",
    ),
]


@pytest.mark.parametrize(("verb", "expected", "message"), BAD)
def test_a_bad_shape_is_a_type_error(verb: StateVerb, expected: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        change(verb, **expected)


BAD_KEYS: list[tuple[dict[str, Any], str]] = [
    ({}, "key must be text, found None"),
    ({"key": 1}, "key must be text, found 1"),
    ({"key": ""}, "key must be text, found ''"),
    ({"key": "\ud800"}, "key must not have lone surrogates"),
    ({"key": "é" * 257}, "key must have at most 512 bytes, found 514"),
    (
        {"key": "k", "scope_id": "bob"},
        "flo.state does not accept scope_id; declare it in the manifest",
    ),
]


@pytest.mark.parametrize(("expected", "message"), BAD_KEYS)
def test_a_bad_key_is_a_type_error(expected: dict[str, Any], message: str) -> None:
    """T1: "Requests carry `scope_kind` and never `scope_id`"."""
    with pytest.raises(TypeError, match=message):
        read_key(expected)


def test_a_prefix_may_be_empty_and_a_limit_left_out() -> None:
    assert read_key({"key_prefix": ""}, "key_prefix") == ""
    assert (read_limit({}), read_limit({"limit": 1000})) == (100, 1000)
    for limit in (0, 1001, "9", 1.5, True):
        with pytest.raises(TypeError, match="limit must be from 1 to 1000"):
            read_limit({"limit": limit})


def test_a_script_sees_the_value_that_it_put() -> None:
    recorded = {"ok": True, "entry": {"key": "k", "revision": "r1"}}
    assert result_of(change(StateVerb.PUT, value=[1]), recorded) == {
        "ok": True,
        "entry": {"key": "k", "revision": "r1", "value": [1]},
    }
    assert result_of(change(StateVerb.PUT, value=[1]), {"ok": False}) == {"ok": False}
