"""Decides which failed model requests are retried, and after how long."""

from http import HTTPStatus

from penstock.core.call import RetryPolicy
from penstock.core.errors import ModelError, ModelRefused, ModelUnavailable
from penstock.core.limits import Limits

RETRY_AFTER_SECONDS = 30
"""The longest Retry-After that is honoured."""

WAITS = RetryPolicy(initial_backoff_ms=1000, multiplier=4)
"""One second, then four. `Limits.model_tries` is the number of attempts."""

_RETRYABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}


def wait_seconds(attempt: int, error: ModelError, limits: Limits) -> float | None:
    """Return how long to wait after this attempt (the first is 1), or None to give up."""
    if not isinstance(error, ModelUnavailable) or attempt >= limits.model_tries:
        return None
    asked = min(error.retry_after or 0.0, RETRY_AFTER_SECONDS)
    return max(WAITS.backoff_ms(attempt) / 1000, asked)


def failure(status: int, message: str, retry_after: float | None = None) -> ModelError:
    """Return the error for an HTTP status other than 200."""
    if status in _RETRYABLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ModelUnavailable(message, retry_after=retry_after)
    return ModelRefused(message)
