"""How many requests a minute a caller may make, by class of request."""

from collections import Counter

from msgspec import Struct

from penstock.app.sections import RateSection
from penstock.core.clock import Moment
from penstock.core.errors import RateLimited

WINDOW_SECONDS = 60
MOST_WRONG_KEYS = 5
GENERAL = "general"
CHAT = "chat"
BULK = "bulk"


class RateUsage(Struct, frozen=True):
    """Where a caller stands after a request."""

    limit: int
    remaining: int
    """Below nothing when it was one too many."""
    reset: int
    """When the window ends, in seconds since 1970."""

    def headers(self) -> dict[str, str]:
        """Return what every answer says about it."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(self.remaining, 0)),
            "X-RateLimit-Reset": str(self.reset),
        }


class Rates:
    """Fixed windows of a minute."""

    def __init__(self, limits: RateSection) -> None:
        self._limits = {CHAT: limits.chat, BULK: limits.bulk, GENERAL: limits.general}
        self._window = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, caller: str, kind: str, now: Moment) -> RateUsage | None:
        """Count a request of this caller; None when its class has no limit."""
        limit = self._limits[kind]
        if not limit:
            return None
        window = now // (1000 * WINDOW_SECONDS)
        if window != self._window:
            self._window = window
            self._counts.clear()
        self._counts[caller, kind] += 1
        used = self._counts[caller, kind]
        return RateUsage(limit, limit - used, (window + 1) * WINDOW_SECONDS)

    def check(self, spent: RateUsage, kind: str, now: Moment) -> None:
        """Raise RateLimited if this was one too many."""
        if spent.remaining < 0:
            wait = max(spent.reset - now // 1000, 1)
            raise RateLimited(
                f"{spent.limit} requests a minute of the class {kind!r} are allowed; "
                f"try again in {wait} s",
                details={"retryAfter": wait},
            )


class WrongKeys:
    """How often an address has shown a wrong key in this minute."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[str] = Counter()

    def begin(self, address: str, now: Moment) -> None:
        """Count a key that is shown now as wrong, until `forgive` is called.

        It counts before it is looked up: else keys that are shown at once would all pass. Raises
        RateLimited for an address that was wrong too often.
        """
        window = now // (1000 * WINDOW_SECONDS)
        if window != self._window:
            self._window = window
            self._counts.clear()
        if self._counts[address] >= MOST_WRONG_KEYS:
            wait = max((window + 1) * WINDOW_SECONDS - now // 1000, 1)
            raise RateLimited(
                f"{MOST_WRONG_KEYS} keys that do not count were tried in this minute; "
                f"try again in {wait} s",
                details={"retryAfter": wait},
            )
        self._counts[address] += 1

    def forgive(self, address: str) -> None:
        """Take back what `begin` counted: the key was right, or was never looked up."""
        if self._counts[address]:
            self._counts[address] -= 1


def kind_of(method: str, path: str) -> str:
    """Return the class that a request counts in."""
    if path.startswith("/api/agents/"):
        if method == "POST" and path.endswith(("/chat", "/regenerate")):
            return CHAT
        if method == "DELETE" and path.endswith("/chat"):
            return BULK
    return GENERAL
