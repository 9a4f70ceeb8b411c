"""Keeps the leases of the logs at work here, for as long as they are."""

import asyncio
import logging
from collections.abc import Mapping

from penstock.core.errors import StoreError
from penstock.core.ids import LogId
from penstock.core.signals import LeaseLost
from penstock.engine.held import HeldLog

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews every lease that was not written to lately; one timer looks after all of them.

    The work on a log whose lease is lost is stopped.
    """

    def __init__(self, held: Mapping[LogId, HeldLog], seconds: float) -> None:
        self._held = held
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: set[asyncio.Task[None]] = set()

    def look_after(self) -> None:
        """See to it that somebody looks, now that a log is held."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        for log_id, held in self._held.items():
            if held.lost is None and held.is_silent(self._seconds):
                task = asyncio.ensure_future(self._renew(log_id, held))
                self._renewing.add(task)
                task.add_done_callback(self._renewing.discard)
        if self._held:
            self.look_after()

    async def _renew(self, log_id: LogId, held: HeldLog) -> None:
        try:
            await held.refresh()
        except LeaseLost as lost:
            if self._held.get(log_id) is held:
                held.lose(lost)
        except StoreError as error:
            log.warning("lease of log %s not renewed yet: %s", log_id, error)
