"""When a model call is tried again."""

import pytest

from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits
from penstock.models.retry import failure, wait_seconds


@pytest.mark.parametrize(
    ("attempt", "error", "seconds"),
    [
        (1, ModelUnavailable(), 1),
        (2, ModelUnavailable(), 4),
        (3, ModelUnavailable(), None),
        (1, ModelRefused(), None),
        (1, ModelUnavailable(retry_after=0), 1),
        (1, ModelUnavailable(retry_after=2.5), 2.5),
        (1, ModelUnavailable(retry_after=30), 30),
        (2, ModelUnavailable(retry_after=3600), 30),
    ],
)
def test_waits(attempt: int, error: ModelError, seconds: float | None) -> None:
    """2 more tries, waits 1 s and 4 s, `Retry-After` up to 30 s honoured."""
    assert wait_seconds(attempt, error, Limits()) == seconds


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_retryable(status: int) -> None:
    """Retryable failures: connect, 408, 409, 429, 5xx, cut stream."""
    error = failure(status, "busy", 2)
    assert isinstance(error, ModelUnavailable)
    assert (str(error), error.retry_after) == ("busy", 2)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_what_stays_wrong_is_refused(status: int) -> None:
    assert isinstance(failure(status, "no"), ModelRefused)
