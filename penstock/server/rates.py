"""Limits on requests per minute, by caller and class of request, and on wrong keys."""

from collections import Counter

from msgspec import Struct

from penstock.app.settings_sections import RateSection
from penstock.core.clock import Moment
from penstock.core.errors import RateLimited

WINDOW_SECONDS = 60
MAX_WRONG_KEYS = 5
GENERAL = "general"
CHAT = "chat"
BULK = "bulk"


class RateUsage(Struct, frozen=True):
    """A caller's use of its limit after a request."""

    limit: int
    remaining: int
    """Negative if the request exceeded the limit."""
    reset: int
    """When the window ends, in seconds since 1970."""

    def headers(self) -> dict[str, str]:
        """Return the rate headers of the answer."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(self.remaining, 0)),
            "X-RateLimit-Reset": str(self.reset),
        }


class Rates:
    """Counts requests in fixed windows of one minute. The counts are of this process only."""

    def __init__(self, limits: RateSection) -> None:
        self._limits = {CHAT: limits.chat, BULK: limits.bulk, GENERAL: limits.general}
        self._window = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, caller: str, kind: str, now: Moment) -> RateUsage | None:
        """Count a request; return None if its class has no limit."""
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
        """Raise RateLimited if the request exceeded the limit."""
        if spent.remaining < 0:
            wait = max(spent.reset - now // 1000, 1)
            raise RateLimited(
                f"{spent.limit} requests a minute of the class {kind!r} are allowed; "
                f"try again in {wait} s",
                details={"retryAfter": wait},
            )


class WrongKeys:
    """Counts wrong keys per address, in fixed windows of one minute."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: Counter[str] = Counter()

    def begin(self, address: str, now: Moment) -> None:
        """Count a wrong key; `forgive` undoes it if the key turns out to be right.

        Counting before the lookup stops concurrent guesses from all passing the check. Raises
        RateLimited for an address with too many wrong keys.
        """
        window = now // (1000 * WINDOW_SECONDS)
        if window != self._window:
            self._window = window
            self._counts.clear()
        if self._counts[address] >= MAX_WRONG_KEYS:
            wait = max((window + 1) * WINDOW_SECONDS - now // 1000, 1)
            raise RateLimited(
                f"{MAX_WRONG_KEYS} wrong keys were tried in this minute; try again in {wait} s",
                details={"retryAfter": wait},
            )
        self._counts[address] += 1

    def forgive(self, address: str) -> None:
        """Undo `begin`: the key was right, or was never looked up."""
        if self._counts[address]:
            self._counts[address] -= 1


def kind_of(method: str, path: str) -> str:
    """Return the rate class of a request."""
    if path.startswith("/api/agents/"):
        if method == "POST" and path.endswith(("/chat", "/regenerate")):
            return CHAT
        if method == "DELETE" and path.endswith("/chat"):
            return BULK
    return GENERAL
