"""Questions, and how they stand."""

from typing import Any

import pytest

from penstock.core.question import EXPIRED, QuestionStatus, is_withdrawn, standing


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (QuestionStatus.OPEN, None, "open"),
        (QuestionStatus.ANSWERED, {"text": "May"}, "answered"),
        (QuestionStatus.ANSWERED, EXPIRED, "answered"),
        (QuestionStatus.CANCELLED, None, "cancelled"),
        (QuestionStatus.CANCELLED, {}, "cancelled"),
        (QuestionStatus.CANCELLED, EXPIRED, "expired"),
    ],
)
def test_what_nobody_answered_in_time_is_expired(
    status: QuestionStatus, answer: Any, said: str
) -> None:
    assert standing(status, answer) == said
    assert is_withdrawn(status, answer) == (said == "cancelled")
