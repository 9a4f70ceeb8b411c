"""How the offline model words what tools answered."""

import pytest

from penstock.core.ids import CallId
from penstock.core.messages import ToolMessage
from penstock.models.offline_report import report


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("3", "`t` returned: 3."),
        ('"yes"', "`t` returned: yes"),
        ("true", "`t` returned: true."),
        ("null", "`t` returned: nothing."),
        ("[]", "`t` returned: nothing."),
        ("not JSON […cut]", "`t` returned: not JSON […cut]"),
        ('{"city": "Rome", "days": [1, 2]}', "`t` returned:\n- city: Rome\n- days: [1, 2]"),
        ('{"rolled": [3], "message": "Rolled 3"}', "`t` returned:\nRolled 3\n- rolled: [3]"),
        ('{"results": [{"a": 1, "b": "x\\ny"}, 2]}', "`t` returned:\n- a: 1; b: x y\n- 2"),
        ("[" + "1," * 11 + "1]", "`t` returned:\n" + "- 1\n" * 10 + "- … and 2 more"),
        ("[" * 5000, "`t` returned: " + "[" * 2999 + "…"),
    ],
)
def test_results_in_words(content: str, text: str) -> None:
    assert report([ToolMessage(CallId("c"), "t", content)]) == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            '{"error": "no such city.", "code": "NOT_FOUND", "suggestion": "Try Rome."}',
            "`t` failed: no such city (NOT_FOUND). Try Rome.",
        ),
        ('{"error": "gone"}', "`t` failed: gone."),
        ("gone", "`t` failed: gone"),
    ],
)
def test_failures_in_words(content: str, text: str) -> None:
    assert report([ToolMessage(CallId("c"), "t", content, ok=False)]) == text


def test_several_results_are_separated() -> None:
    results = [ToolMessage(CallId(name), name, "1") for name in "ab"]
    assert report(results) == "`a` returned: 1.\n\n`b` returned: 1."
