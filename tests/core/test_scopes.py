"""Owners of values, and addresses of files."""

import pytest

from penstock.core.scopes import FilePath, Scope, ScopeKind, parents, parse_path


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
