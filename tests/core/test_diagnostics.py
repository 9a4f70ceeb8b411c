"""Findings in authored files."""

import pytest

from penstock.core.diagnostics import (
    Diagnostic,
    Severity,
    did_you_mean,
    edits,
    errors_of,
    has_error,
    in_file_order,
    nearest,
    sort,
)

FOUND = Diagnostic(
    code="unknown-tool",
    message="no tool 'serch'",
    file="agents/a.md",
    line=3,
    column=9,
    suggestion="Did you mean 'search'?",
)
BARE = Diagnostic(code="empty", message="Nothing here.", severity=Severity.WARNING)


def test_a_finding_is_one_line_with_its_place() -> None:
    assert str(FOUND) == (
        "agents/a.md:3:9: error unknown-tool: no tool 'serch'; Did you mean 'search'?"
    )
    assert str(BARE) == "warning empty: Nothing here."
    odd = Diagnostic(code="bad-schema", message="wrong at /a\nb", file="x\ny.tool.yaml")
    assert str(odd) == "x y.tool.yaml:1:1: error bad-schema: wrong at /a b"


def test_a_finding_is_json_with_its_range() -> None:
    """Every diagnostic also has `end_line`, `end_column`; a range never is empty."""
    assert FOUND.to_wire() == {
        "file": "agents/a.md",
        "line": 3,
        "column": 9,
        "end_line": 3,
        "end_column": 10,
        "severity": "error",
        "code": "unknown-tool",
        "message": "no tool 'serch'; Did you mean 'search'?",
        "suggestion": "Did you mean 'search'?",
    }


def test_findings_are_unique_and_sorted_by_file_line_column_and_code() -> None:
    """Sorted by file, line, column, code."""
    places = [("b", 1, 1, "x"), ("a", 10, 1, "x"), ("a", 2, 9, "x"), ("a", 2, 9, "w")]
    found = [Diagnostic(file=f, line=n, column=c, code=k, message="") for f, n, c, k in places]
    assert [each.order for each in sort([*found, *found])] == sorted(places)


def test_findings_of_a_file_are_sorted_by_line_the_errors_of_a_line_first() -> None:
    odd = Diagnostic(code="a", message="m", line=2, severity=Severity.WARNING)
    wrong = Diagnostic(code="b", message="m", line=2, column=9)
    early = Diagnostic(code="c", message="m", line=1, severity=Severity.WARNING)
    assert in_file_order([odd, wrong, early, odd]) == [early, wrong, odd]
    assert (has_error([odd, wrong]), has_error([odd])) == (True, False)
    assert errors_of([odd, wrong, early]) == [wrong]


def test_authors_tools_show_a_finding_without_its_file() -> None:
    assert FOUND.to_finding() == {
        "line": 3,
        "severity": "error",
        "message": "no tool 'serch'",
        "suggestion": "Did you mean 'search'?",
    }
    assert "suggestion" not in BARE.to_finding()


NAMES = ["search_knowledge", "send_email", "browse_url"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("serch_knowledge", "search_knowledge"),
        ("sendemail", "send_email"),
        ("send_email", "send_email"),
        ("xyz", None),
        ("", None),
    ],
)
def test_the_nearest_name_is_offered_if_one_is_near(name: str, near: str | None) -> None:
    assert nearest(name, NAMES) == near
    assert did_you_mean(name, NAMES) == (f" Did you mean {near!r}?" if near else "")


RULE = [
    ("ab", ["abcd"], "abcd"),
    ("ab", ["abcde"], None),
    ("abcdef", ["abcdefxyz"], "abcdefxyz"),
    ("abcdef", ["abcdefwxyz"], None),
    ("tool_c", ["tool_b", "tool_a"], "tool_a"),
    ("tool_c", ["tool_", "tool_c2", "tool_cc"], "tool_"),
    ("timeout", ["timeout_ms", "retry_policy"], "timeout_ms"),
    ("x" * 300, ["x" * 299], None),
]


@pytest.mark.parametrize(("name", "names", "near"), RULE)
def test_near_is_two_edits_or_a_third_of_the_longer_name(
    name: str, names: list[str], near: str | None
) -> None:
    """Edit distance ≤ max(2, a third of the longer name), ties by alphabet."""
    assert nearest(name, names) == near


EDITS = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]


@pytest.mark.parametrize(("one", "other", "count"), EDITS)
def test_edits_are_characters_added_dropped_or_replaced(one: str, other: str, count: int) -> None:
    assert edits(one, other) == edits(other, one) == count


def test_a_longer_name_is_suggested() -> None:
    assert did_you_mean("api_key", iter(["api_key_env"])) == " Did you mean 'api_key_env'?"


def test_of_no_names_none_is_near() -> None:
    assert nearest("x", []) is None
