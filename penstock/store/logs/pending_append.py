"""What is on its way into a log, for any number of those who wait for it."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from penstock.core.events.events import Record, is_outside
from penstock.core.ids import LogId
from penstock.store.rows import Row, Rows


class PendingAppend:
    """Records that are being written; whoever stops waiting takes them from nobody else."""

    __slots__ = (
        "_error",
        "_records",
        "_rows",
        "_slipped",
        "_waiters",
        "is_left",
        "is_settled",
        "log_id",
    )

    def __init__(self, rows: Rows, log_id: LogId) -> None:
        self._rows = rows
        self.log_id = log_id
        self._waiters: list[asyncio.Future[None]] = []
        self._records: Sequence[Record] = ()
        self._slipped: Sequence[Row] = ()
        self._error: BaseException | None = None
        self.is_settled = False
        self.is_left = False
        """Whoever began with it does not wait any more."""

    @property
    def is_written(self) -> bool:
        """Whether the records are known to be on disk, and there are some."""
        return bool(self._records)

    def settle(
        self,
        records: Sequence[Record] = (),
        *,
        slipped: Sequence[Row] = (),
        error: BaseException | None = None,
    ) -> None:
        """Say that they are on disk, after what slipped in from outside; or why they are not."""
        self._records, self._slipped, self._error = records, slipped, error
        self.is_settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __await__(self) -> Generator[Any, None, Sequence[Record]]:
        """Wait until they are on disk."""
        if not self.is_settled:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            yield from waiter
        if self._error is not None:
            raise self._error
        if not self._slipped:
            return self._records
        slipped = yield from self._rows.records(self.log_id, self._slipped).__await__()
        return [*(record for record in slipped if is_outside(record.event)), *self._records]
