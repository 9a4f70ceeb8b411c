"""Whose a value is."""

from typing import Any

import pytest
from hypothesis import given

from penstock.core.call_errors import ToolFailed
from penstock.core.limits import Limits
from penstock.core.state import (
    FilePath,
    Scope,
    ScopeKind,
    StateChange,
    StateEntry,
    StateVerb,
    changed,
    merge_patch,
    parents,
    parse_path,
)
from penstock.testing.clock import START
from tests.kit.json_values import FEW, json_values


def test_a_part_of_a_task_is_a_scope_of_its_own() -> None:
    task = Scope(ScopeKind.TASK, "task_1")
    assert task.part("letter") == Scope(ScopeKind.TASK, "task_1/letter")
    assert str(task) == "task:task_1"


TASK, SESSION = ScopeKind.TASK, ScopeKind.SESSION
GOOD = [
    ("task://", FilePath(TASK, "")),
    ("task://a", FilePath(TASK, "a")),
    ("session://imports/2026/a b.csv", FilePath(SESSION, "imports/2026/a b.csv")),
    ("session://50%25/..a", FilePath(SESSION, "50%25/..a")),
    ("task://e\u0301", FilePath(TASK, "é")),
    ("task://a:b", FilePath(TASK, "a:b")),
    ("task://" + "/".join("a" * 32), FilePath(TASK, "/".join("a" * 32))),
    ("task://" + "x" * 505, FilePath(TASK, "x" * 505)),
]


@pytest.mark.parametrize(("uri", "path"), GOOD)
def test_a_uri_is_a_scheme_and_segments(uri: str, path: FilePath) -> None:
    """W3: "A URI: scheme, `://`, segments with `/` between"."""
    assert parse_path(uri) == path
    assert parse_path(str(path)) == path


BAD = [
    ("", "begins with task:// or session://, found ''"),
    ("a", "begins with task:// or session://, found 'a'"),
    ("/etc/passwd", "begins with task:// or session://"),
    ("file:///etc/passwd", "begins with task:// or session://"),
    ("TASK://a", "begins with task:// or session://"),
    ("task:/a", "begins with task:// or session://"),
    ("task:///a", "has no segment ''"),
    ("task://a//b", "has no segment ''"),
    ("task://a/", "has no segment ''"),
    ("task://.", "has no segment '.'"),
    ("task://a/../b", "has no segment '..'"),
    ("task://..", "has no segment '..'"),
    ("task://a\\b", "no backslash and no control character"),
    ("task://a\nb", "no backslash and no control character"),
    ("task://a\x00", "no backslash and no control character"),
    ("task://a\x7f", "no backslash and no control character"),
    ("task://a\x85", "no backslash and no control character"),
    ("task://\ud800", "without lone surrogates"),
    ("task://" + "x" * 506, "at most 512 bytes, this has 513"),
    ("task://" + "é" * 253, "at most 512 bytes, this has 513"),
    pytest.param(
        "task://a" + "\u0315\u0300" * 200_000,
        "at most 512 bytes, this has 400001 characters",
        id="marks that would have to be sorted",
    ),
    ("task://" + "/".join("a" * 33), "at most 32 segments, this has 33"),
]


@pytest.mark.parametrize(("uri", "message"), BAD)
def test_an_invalid_address_is_refused_with_a_reason(uri: str, message: str) -> None:
    """W7: "No path of the machine can be named"."""
    with pytest.raises(ValueError, match=r".") as refused:
        parse_path(uri)
    assert message in str(refused.value)


def test_a_place_below_is_an_address_too() -> None:
    assert parse_path("task://") / "a" / "b/c" == parse_path("task://a/b/c")
    assert parse_path("task://a/b").name == "b"
    with pytest.raises(ValueError, match="has no segment"):
        parse_path("task://a") / ".."


def test_the_directories_above_a_path() -> None:
    assert parents("a/b/c") == ["a", "a/b"]
    assert parents("a") == []


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
def test_a_value_is_kept_as_it_is(value: Any) -> None:
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


def test_a_value_may_be_as_large_as_its_limit_and_not_a_byte_larger() -> None:
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
