"""Keeps the leases of the logs at work here, for as long as they are."""

import asyncio
import logging
from collections.abc import Mapping

from penstock.core.errors import StoreError
from penstock.core.ids import LogId
from penstock.engine.held_log import HeldLog

log = logging.getLogger(__name__)

_AT_ONCE = 128
"""So many leases are asked for together: a thousand at once would take 3 MiB for a moment."""


class LeaseKeeper:
    """Renews every lease that was not written to lately; one timer looks after all of them.

    The work on a log whose lease is lost is stopped.
    """

    def __init__(self, held: Mapping[LogId, HeldLog], seconds: float) -> None:
        self._held = held
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._due: dict[LogId, HeldLog] = {}
        """Leases to be renewed as soon as others are, longest silent first."""
        self._renewing: set[LogId] = set()
        self._renewers: set[asyncio.Task[None]] = set()

    def look_after(self) -> None:
        """See to it that somebody looks, now that a log is held."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._look)

    async def rest(self) -> None:
        """Return when no lease is on its way to be renewed any more."""
        self._due.clear()
        await asyncio.gather(*self._renewers, return_exceptions=True)

    def _look(self) -> None:
        self._timer = None
        for log_id, held in self._held.items():
            is_asked = held.lost is not None or log_id in self._renewing
            if not is_asked and held.is_silent(self._seconds):
                self._due[log_id] = held
        for _ in range(min(len(self._due), _AT_ONCE - len(self._renewers))):
            renewer = asyncio.ensure_future(self._renew_due())
            self._renewers.add(renewer)
            renewer.add_done_callback(self._renewers.discard)
        if self._held:
            self.look_after()

    async def _renew_due(self) -> None:
        while self._due:
            log_id = next(iter(self._due))
            held = self._due.pop(log_id)
            if self._held.get(log_id) is held:
                await self._renew(log_id, held)

    async def _renew(self, log_id: LogId, held: HeldLog) -> None:
        self._renewing.add(log_id)
        try:
            await held.keep()
        except StoreError as error:
            log.warning("lease of log %s not renewed yet: %s", log_id, error)
        finally:
            self._renewing.remove(log_id)
