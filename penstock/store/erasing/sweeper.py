"""Deletes bytes that nothing has any more, now and then, and first those of cut-off erasings."""

import asyncio
import logging

from penstock.core.clock import Clock, Moment
from penstock.core.errors import StoreClosed, StoreError
from penstock.store.blobs.blobs import Blobs
from penstock.store.erasing.erasure import Erasure

log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps when it is opened, and then each time as long after as bytes stay.

    Several processes may do it on one store: each takes what nobody else has taken.
    """

    def __init__(self, erasure: Erasure, blobs: Blobs, clock: Clock, *, seconds: float) -> None:
        self._erasure = erasure
        self._blobs = blobs
        self._clock = clock
        self._seconds = seconds
        self._sweeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """End, also in the middle: what is left is done by the next."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    async def _sweep(self) -> None:
        while True:
            try:
                await self._once(Moment(self._clock.now() - round(1000 * self._seconds)))
            except StoreClosed:
                return
            except StoreError as error:
                said = "bytes that nothing has could not be deleted; it is tried again: %s"
                log.warning(said, error)
            await self._clock.sleep(self._seconds)

    async def _once(self, before: Moment) -> None:
        await self._blobs.tidy(before)
        await self._erasure.finish()
        while await self._erasure.sweep(before=before):
            pass
