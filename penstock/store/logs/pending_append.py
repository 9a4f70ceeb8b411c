"""An append whose commit is pending; any number of tasks can await it."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from penstock.core.events.events import Record, is_outside
from penstock.core.ids import LogId
from penstock.store.rows import Row, Rows


class PendingAppend:
    """Records that are being written; cancelling one waiter does not affect the others."""

    __slots__ = (
        "_error",
        "_records",
        "_rows",
        "_slipped",
        "_waiters",
        "is_abandoned",
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
        self.is_abandoned = False
        """The task that submitted it was cancelled."""

    @property
    def is_written(self) -> bool:
        """Whether there are records, and they are on disk."""
        return bool(self._records)

    def settle(
        self,
        records: Sequence[Record] = (),
        *,
        slipped: Sequence[Row] = (),
        error: BaseException | None = None,
    ) -> None:
        """Set the outcome: the records and the outside rows before them, or an error."""
        self._records, self._slipped, self._error = records, slipped, error
        self.is_settled = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __await__(self) -> Generator[Any, None, Sequence[Record]]:
        """Wait for the commit. Return the outside records before these, then these."""
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
