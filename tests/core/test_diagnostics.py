"""Findings in authored files."""

import pytest

from penstock.core.diagnostics import Diagnostic, Severity, did_you_mean, nearest

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


def test_of_no_names_none_is_near() -> None:
    assert nearest("x", []) is None
