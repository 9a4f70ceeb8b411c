"""Renews the leases of all logs that this process works on.

Guarantees: a lease is renewed before it expires while its log is held, with at most one request per
lease in flight; when the store reports that a lease is lost, the work on that log is cancelled.

How: one timer checks all held logs. An append renews the lease too, so only logs that were silent
for `limits.renew_seconds` are due. Up to 128 renewals run at once; each renewer takes the next due
lease, longest silent first. A failed request is logged and repeated at the next check.

Relies on: the store fences late writers (docs/decisions/012), so a late renewal costs the work but
never correctness. A slow store is asked once for each lease, or requests would pile up there.
Shown by tests/engine/test_lease_keeper.py.
"""

import asyncio
import logging
from collections.abc import Mapping

from penstock.core.errors import StoreError
from penstock.core.ids import LogId
from penstock.engine.held_log import HeldLog

log = logging.getLogger(__name__)

_AT_ONCE = 128
"""Renewals in flight at once; a thousand at once were measured to take 3 MiB for a moment."""


class LeaseKeeper:
    """Renews every lease that was silent for `seconds`, with one timer for all."""

    def __init__(self, held: Mapping[LogId, HeldLog], seconds: float) -> None:
        self._held = held
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._due: dict[LogId, HeldLog] = {}
        """Leases waiting for a free renewer, longest silent first."""
        self._renewing: set[LogId] = set()
        self._renewers: set[asyncio.Task[None]] = set()

    def watch(self) -> None:
        """Start the timer if it is not running. Call it after a log was acquired."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._check)

    async def rest(self) -> None:
        """Wait until no renewal is in flight."""
        self._due.clear()
        await asyncio.gather(*self._renewers, return_exceptions=True)

    def _check(self) -> None:
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
            self.watch()

    async def _renew_due(self) -> None:
        while self._due:
            log_id = next(iter(self._due))
            held = self._due.pop(log_id)
            # The log may have been released, or released and acquired again, while it waited.
            if self._held.get(log_id) is held:
                await self._renew(log_id, held)

    async def _renew(self, log_id: LogId, held: HeldLog) -> None:
        self._renewing.add(log_id)
        try:
            await held.keep()
        except StoreError as error:
            log.warning("the lease of log %s could not be renewed yet: %s", log_id, error)
        finally:
            self._renewing.remove(log_id)
