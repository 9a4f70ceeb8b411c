"""Whether this installation has an API key, which decides whether requests need one.

The server admits a request without a key only on proof that no key exists: a database query that
succeeded and started at most one second before the request arrived. Until the first query succeeds,
and whenever a query fails or takes too long, the request fails with NotReady (503). So a key that
another process creates takes effect within one second.

Concurrent requests share one query. The query is a task of its own, so a cancelled request does not
cancel it for the others. Once a key was seen, no further query is needed: revoked keys stay in the
database (`Keys.exist`).

Tests: tests/server/test_key_presence.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from penstock.core.clock import Clock
from penstock.core.errors import NotReady

_FRESH_SECONDS = 1


class KeyPresence:
    """Queries whether a key exists, at most once a second while none does."""

    def __init__(
        self, exist: Callable[[], Awaitable[bool]] | None, clock: Clock, *, wait_seconds: float
    ) -> None:
        self._exist = exist
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._found = False
        self._none_at: float | None = None
        """The start of the last query that found no key."""
        self._query: asyncio.Future[None] | None = None

    @property
    def known(self) -> bool | None:
        """The last answer, however old; None before the first."""
        if self._found or self._exist is None:
            return self._found
        return None if self._none_at is None else False

    async def query(self) -> bool:
        """Return whether a key exists; without a key store none does.

        Raises NotReady if the database does not answer in time, or its StoreError.
        """
        if self._found or self._exist is None:
            return self._found
        arrived = self._clock.monotonic()
        if self._is_answered(arrived):
            return self._found
        async with answered_within(self._wait_seconds):
            # a query that started long before this request proves nothing for it: query again
            while not self._is_answered(arrived):
                await self._join()
        return self._found

    def _is_answered(self, arrived: float) -> bool:
        is_fresh = self._none_at is not None and arrived - self._none_at < _FRESH_SECONDS
        return self._found or is_fresh

    async def _join(self) -> None:
        if self._query is None:
            self._query = asyncio.ensure_future(self._ask())
            self._query.add_done_callback(_read_error)
        await asyncio.shield(self._query)

    async def _ask(self) -> None:
        assert self._exist is not None  # noqa: S101  only queried with a key store
        started = self._clock.monotonic()
        try:
            if await self._exist():
                self._found = True
            else:
                self._none_at = started
        finally:
            self._query = None


@asynccontextmanager
async def answered_within(seconds: float) -> AsyncIterator[None]:
    """Raise NotReady if the database does not respond in time."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NotReady(
            f"the database did not return the API keys within {seconds:g} s; try again in a moment"
        ) from None


def _read_error(query: "asyncio.Future[None]") -> None:
    """Retrieve the error: asyncio reports unread errors, and every requester may have left."""
    if not query.cancelled():
        query.exception()
