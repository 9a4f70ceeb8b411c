"""The status of a task."""

from typing import Any

import pytest

from penstock.core.task import EXPIRED, QuestionStatus, TaskStatus, is_withdrawn, standing


def test_three_statuses_are_final() -> None:
    """Chat API 2.3: "Task statuses: queued, blocked, running, suspended, succeeded, failed, …"."""
    assert {status.value: status.is_final for status in TaskStatus} == {
        "queued": False,
        "blocked": False,
        "running": False,
        "suspended": False,
        "succeeded": True,
        "failed": True,
        "cancelled": True,
    }


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (QuestionStatus.OPEN, None, "open"),
        (QuestionStatus.ANSWERED, {"text": "May"}, "answered"),
        (QuestionStatus.ANSWERED, EXPIRED, "answered"),
        (QuestionStatus.CANCELLED, None, "cancelled"),
        (QuestionStatus.CANCELLED, {}, "cancelled"),
        (QuestionStatus.CANCELLED, EXPIRED, "expired"),
    ],
)
def test_an_unanswered_question_expires(status: QuestionStatus, answer: Any, expected: str) -> None:
    assert standing(status, answer) == expected
    assert is_withdrawn(status, answer) == (expected == "cancelled")
