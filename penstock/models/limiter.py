"""The queue in front of one model: requests at once, and requests and tokens per minute.

Guarantees that no limit is exceeded by what this process sends, and that conversations take turns:
a conversation with a hundred waiting requests delays another one by a single request. A request of
more tokens than a minute allows is sent when the whole minute is free. A provider that answers 429,
or whose headers report that nothing is left, holds the queue for as long as it asks, up to
`MAX_HOLD_SECONDS`.

How: each limit per minute is a bucket that fills evenly. A request takes its estimated tokens
before it is sent; the difference to the real count is settled afterwards, so a bucket may fall
below zero. Only the first request of the next conversation is looked at, so large requests are not
overtaken for ever. One task sleeps until that request fits; it is set again if that is earlier.

Relies on one event loop: no method awaits between a check and the change that depends on it. A
cancelled waiter that was granted its turn returns it. All runtimes of an event loop share the
limiter of one model, because its provider counts them together (`limiter_of`). Proof:
tests/models/test_limiter.py.
"""

import asyncio
import math
import re
from collections import deque
from collections.abc import Hashable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from penstock.core.clock import Clock, SystemClock

MINUTE = 60
MAX_HOLD_SECONDS = 30
"""The longest time for which a provider's answer holds the queue."""
_FIRST_HOLD_SECONDS = 1.0
"""How long a 429 without Retry-After holds the queue; twice as long after each further one."""
_TOLERANCE_SECONDS = 0.001
"""A wake-up that is due this little later is not set again."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": MINUTE, "h": 60 * MINUTE, "d": 24 * 60 * MINUTE}
_ANTHROPIC, _OPENAI = "anthropic-ratelimit-", "x-ratelimit-"
_COUNTED = ("requests", "tokens", "input-tokens", "output-tokens")


class RequestLimits(Struct, frozen=True, kw_only=True):
    """The limits of one model, each 1 or more; None means no limit."""

    max_concurrent: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


NO_LIMITS = RequestLimits()


class Pass(Struct, frozen=True):
    """The right to send one request."""

    tokens: int


class _Waiter(Struct, eq=False):
    tokens: int
    granted: "asyncio.Future[None]"


class _Bucket:
    """The rest of a limit per minute."""

    __slots__ = ("_at", "_left", "_most")

    def __init__(self, most: int, now: float) -> None:
        self._most = most
        self._left = float(most)
        self._at = now

    def missing(self, wanted: int, now: float) -> float:
        """Return the seconds until the bucket holds this much, or as much as it can."""
        self._fill(now)
        lacks = min(wanted, self._most) - self._left
        return lacks * MINUTE / self._most if lacks > 0 else 0.0

    def take(self, count: float) -> None:
        """Take this much; a negative count returns it."""
        self._left = min(self._left - count, self._most)

    def _fill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * self._most / MINUTE, self._most)
        self._at = now


class Limiter:
    """Admits the requests to one model."""

    def __init__(self, limits: RequestLimits, clock: Clock) -> None:
        self._clock = clock
        self._free = limits.max_concurrent or math.inf
        now = clock.monotonic()
        self._requests, self._tokens = (
            None if most is None else _Bucket(most, now)
            for most in (limits.requests_per_minute, limits.tokens_per_minute)
        )
        self._queues: dict[str, deque[_Waiter]] = {}
        """The waiting requests of each conversation; the next conversation is the first one."""
        self._held_until = 0.0
        self._throttled = 0
        """How many requests in a row the provider refused for their rate."""
        self._waking: asyncio.Task[None] | None = None
        self._wakes_at = 0.0
        self.users = 1
        """How many models use it, each of a runtime."""

    def try_enter(self, tokens: int) -> Pass | None:
        """Admit a request that need not wait. `tokens` is an estimate of all that it may use."""
        if self._queues or self._wait_seconds(tokens) > 0:
            return None
        return self._admitted(tokens)

    async def enter(self, conversation: str, tokens: int) -> Pass:
        """Wait for the turn of a request."""
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        self._queues.setdefault(conversation, deque()).append(waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.leave(Pass(tokens), used=0)
            else:
                self._forget(conversation, waiter)
            raise
        return Pass(tokens)

    def leave(self, entered: Pass, *, used: int | None) -> None:
        """End a request. `used` is its real number of tokens, None if that is unknown."""
        self._free += 1
        if self._tokens is not None and used is not None:
            self._tokens.take(used - entered.tokens)
        self._grant()

    def succeed(self) -> None:
        """Record that the provider accepted a request."""
        self._throttled = 0

    def throttle(self, retry_after: float | None) -> None:
        """Hold the queue, because the provider refused a request for its rate."""
        seconds = _FIRST_HOLD_SECONDS * 2**self._throttled if retry_after is None else retry_after
        self._throttled = min(self._throttled + 1, MAX_HOLD_SECONDS)
        self._hold(seconds)

    def hold_if_spent(self, headers: Mapping[str, str]) -> None:
        """Hold the queue if the headers of an answer report that nothing is left."""
        seconds = [_reset_seconds(headers, *names) for names in _names_of(headers)]
        if longest := max(seconds, default=0.0):
            self._hold(longest)

    def _hold(self, seconds: float) -> None:
        until = self._clock.monotonic() + min(max(seconds, 0.0), MAX_HOLD_SECONDS)
        self._held_until = max(self._held_until, until)

    def _wait_seconds(self, tokens: int) -> float:
        """Return how long a request has to wait at least; infinity for a free slot."""
        if self._free <= 0:
            return math.inf
        now = self._clock.monotonic()
        seconds = self._held_until - now
        for bucket, wanted in ((self._requests, 1), (self._tokens, tokens)):
            if bucket is not None:
                seconds = max(seconds, bucket.missing(wanted, now))
        return seconds

    def _admitted(self, tokens: int) -> Pass:
        self._free -= 1
        if self._requests is not None:
            self._requests.take(1)
        if self._tokens is not None:
            self._tokens.take(tokens)
        return Pass(tokens)

    def _grant(self) -> None:
        """Admit waiting requests in turn, as far as the limits allow."""
        while self._queues:
            conversation, queue = next(iter(self._queues.items()))
            waiter = queue[0]
            if (seconds := self._wait_seconds(waiter.tokens)) > 0:
                if seconds < math.inf:
                    self._wake_after(seconds)
                return
            queue.popleft()
            del self._queues[conversation]
            if queue:
                self._queues[conversation] = queue
            if not waiter.granted.done():
                self._admitted(waiter.tokens)
                waiter.granted.set_result(None)

    def _wake_after(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if self._waking is not None:
            if self._wakes_at <= due + _TOLERANCE_SECONDS:
                return
            # The request that it waited for left the queue, or tokens came back.
            self._waking.cancel()
        self._wakes_at = due
        self._waking = asyncio.get_running_loop().create_task(self._wake(seconds))

    async def _wake(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._waking = None
        self._grant()

    def _forget(self, conversation: str, waiter: _Waiter) -> None:
        queue = self._queues.get(conversation)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        if not queue:
            del self._queues[conversation]
        self._grant()

    async def close(self) -> None:
        """End one use. After the last one the queue is not woken any more."""
        self.users -= 1
        if self._waking is not None and self.users <= 0:
            self._waking.cancel()
            self._waking = None


_Shared = WeakValueDictionary[Hashable, Limiter]
_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()
"""The limiters of each event loop. Global, because the runtimes of a process know no other."""


def limiter_of(model: Hashable, limits: RequestLimits, clock: Clock) -> Limiter:
    """Return the limiter of a model, which all runtimes of this event loop share.

    `model` is equal for equal models: provider, address, name and key. Without a running loop, or
    with a clock of a test, the limiter is not shared.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Limiter(limits, clock)
    if type(clock) is not SystemClock:
        return Limiter(limits, clock)
    shared = _LOOPS.setdefault(loop, WeakValueDictionary())
    if (limiter := shared.get((model, limits))) is None:
        limiter = shared[model, limits] = Limiter(limits, clock)
    else:
        limiter.users = max(limiter.users, 0) + 1
    return limiter


def _names_of(headers: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the names of the limit, the remainder and the reset of each limit in the headers."""
    found = []
    for counted in _COUNTED:
        if f"{_ANTHROPIC}{counted}-remaining" in headers:
            start = f"{_ANTHROPIC}{counted}"
            found.append((f"{start}-limit", f"{start}-remaining", f"{start}-reset"))
        if f"{_OPENAI}remaining-{counted}" in headers:
            words = ("limit", "remaining", "reset")
            limit, remaining, reset = (f"{_OPENAI}{word}-{counted}" for word in words)
            found.append((limit, remaining, reset))
    return found


def _reset_seconds(headers: Mapping[str, str], limit: str, remaining: str, reset: str) -> float:
    """Return the seconds until the reset if nothing remains; 0 for what is left or unreadable.

    Azure reports -1 or 0 for limits that it does not have.
    """
    most, left = _number(headers.get(limit)), _number(headers.get(remaining))
    if left is None or left > 0 or left < 0 or (most is not None and most <= 0):
        return 0.0
    return _seconds(headers.get(reset, ""), headers.get("date", ""))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _seconds(text: str, now: str) -> float:
    """Return the seconds of `6m0s`, or those until an RFC 3339 time by the server's own clock."""
    if _PART.sub("", text) == "":
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    try:
        until = datetime.fromisoformat(text)
        return max((until - parsedate_to_datetime(now)).total_seconds(), 0.0)
    except (OverflowError, TypeError, ValueError):
        return 0.0
