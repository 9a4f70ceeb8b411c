"""When a failed call is tried again, and after how long."""

from msgspec import Struct


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How many attempts, and the waits between them, in milliseconds and without jitter."""

    max_attempts: int = 1
    initial_backoff_ms: int = 200
    multiplier: float = 2
    max_backoff_ms: int = 10_000

    def backoff_ms(self, attempt: int) -> float:
        """Return the wait after this attempt, counted from 1."""
        try:
            wait = self.initial_backoff_ms * self.multiplier ** (attempt - 1)
        except OverflowError:
            return self.max_backoff_ms
        return min(wait, self.max_backoff_ms)


ONCE = RetryPolicy()
