"""Deletes in the background what no longer has a use: bytes, old logs, and free pages.

Guarantees: everything it does can be cut at any point, and the next round does the rest. Each step
is short: at most `retention.step` logs or 256 KiB of pages, then a pause, so that a turn in between
waits for one step at most.

How it works. A round begins at the start and then every hour: it deletes old deliveries, also of
webhooks that were removed; it removes what interrupted writes left, finishes an interrupted
erasure, deletes unused bytes and expired media, deletes logs by the rules of retention, archives
old events, and gives free pages of SQLite back. Several processes may sweep one store: each row of
`loose_blobs` is claimed by one of them, and a log that another one deletes is simply gone.

Proof: tests/store/upkeep/test_sweeper.py, tests/store/test_references.py,
tests/promises/test_interrupted_erasures.py.
"""

import asyncio
import logging

from penstock.core.clock import Clock, Moment
from penstock.core.errors import StoreClosed, StoreError
from penstock.core.text import count
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.logs.archive import Archive, before_days
from penstock.store.logs.outbox import Outbox
from penstock.store.references import LOOSE_SECONDS
from penstock.store.upkeep.retention import Retention
from penstock.store.upkeep.rules import KEEP_ALL, RetentionPlan
from penstock.store.upkeep.space import give_back, space_of

log = logging.getLogger(__name__)
ARCHIVE_PAUSE_SECONDS = 0.1
"""Between two parts of the archive: turns that wait for the writer come first."""


class Sweeper:
    """Sweeps at the start, and then at regular intervals."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        clock: Clock,
        *,
        erasure: Erasure | None = None,
        plan: RetentionPlan = KEEP_ALL,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._erasure = Erasure(database, blobs, clock) if erasure is None else erasure
        self._plan = plan
        self._sweeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task that sweeps."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stop, even during a sweep: the next one does the rest."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    async def _sweep(self) -> None:
        while True:
            try:
                await self._once(Moment(self._clock.now() - round(1000 * LOOSE_SECONDS)))
            except StoreClosed:
                return
            except StoreError as error:
                log.warning(
                    "unused data could not be deleted; the next sweep tries again: %s", error
                )
            await self._clock.sleep(LOOSE_SECONDS)

    async def _once(self, before: Moment) -> None:
        await Outbox(self._database).forget(now=self._clock.now())
        await self._blobs.tidy(before)
        await self._erasure.finish()
        while await self._erasure.sweep(before=before):
            pass
        if self._plan.rules:
            await self._retain()
        if days := self._database.limits.archive_days:
            await self._archive(before_days(self._clock, days))
        space = await space_of(self._database)
        if space is not None and space.is_wasted:
            await give_back(self._database, self._clock)

    async def _archive(self, before: Moment) -> None:
        archive, parts = Archive(self._database, self._blobs, self._clock), 0
        async for _ in archive.steps(before):
            parts += 1
            await self._clock.sleep(ARCHIVE_PAUSE_SECONDS)
        await self._erasure.finish()
        if parts:
            log.info("archive: %s stored", count(parts, "part"))

    async def _retain(self) -> None:
        retention = Retention(self._database, self._erasure, self._clock, self._plan.rules)
        deleted = 0
        async for logs in retention.steps(self._plan.step):
            deleted += len(logs)
            if logs:
                await self._clock.sleep(self._plan.pause_seconds)
        if deleted:
            # overwrites the space of all steps at once
            await self._erasure.finish()
            log.info("retention: %s deleted", count(deleted, "log"))
