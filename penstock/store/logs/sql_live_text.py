"""Text of incomplete replies for readers in other processes, in the table `deltas`.

Guarantees: without a reader nothing is written; a reader that misses pieces still gets the complete
reply from the log.

How it works. A reader writes `followed_until` into the row of the log. The holder reads it when it
acquires or renews the lease, and writes pieces until then. The transaction that completes the reply
deletes its pieces, so no piece outlives the reply.

Proof: tests/store/logs/test_sql_live_text.py, tests/contracts/test_live_text.py.
"""

import json
import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from penstock.core.clock import Clock
from penstock.core.errors import StoreError
from penstock.core.ids import LogId, TaskId
from penstock.store.database import Database
from penstock.store.logs.log import FOLLOWED_SECONDS, TEXT_START, Followed, TextPiece, TextPosition
from penstock.store.logs.log_units import LeaseProgress, insert_all
from penstock.store.statements import Row, Statements

log = logging.getLogger(__name__)


class SqlLiveText:
    """Pieces of incomplete replies in the database, written only while they are read."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        statements: Statements,
        held: Mapping[LogId, LeaseProgress],
    ) -> None:
        self._database = database
        self._clock = clock
        self._sql = statements
        self._held = held
        self._followed_ms = int(1000 * FOLLOWED_SECONDS)
        self._listeners: list[Followed] = []

    def listen(self, listener: Followed) -> None:
        """Call the listener with each log of this process that another process follows."""
        self._listeners.append(listener)

    def set_followed(self, log_id: LogId, epoch: int, followed_until: int) -> None:
        """Record until when a log of this process is followed."""
        progress = self._progress(log_id, epoch)
        if progress is None or not followed_until:
            return
        progress.followed_until, progress.may_have_text = followed_until, True
        if followed_until > self._clock.now():
            for listener in self._listeners:
                listener(log_id, epoch)

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log is held here in this epoch, and followed as far as this process knows."""
        progress = self._progress(log_id, epoch)
        return progress is not None and progress.followed_until > self._clock.now()

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Store pieces for readers in other processes; existing text stays unchanged."""
        rows = [(*_row(piece), log_id, epoch) for piece in pieces]
        if progress := self._progress(log_id, epoch):
            progress.may_have_text = True

        def unit(connection: Connection) -> None:
            insert_all(connection.connection.cursor(), self._sql.add_text, rows)

        await self._database.write(unit, order=log_id)

    async def read(self, log_id: LogId, *, after: TextPosition = TEXT_START) -> Sequence[TextPiece]:
        """Follow a log of another process. Return its pieces after a position, in order."""
        if log_id in self._held:
            return ()

        def unit(connection: Connection) -> tuple[int | None, Sequence[Row]]:
            held = connection.exec_driver_sql(self._sql.followed_until, (log_id,)).scalar()
            if held is None:
                return None, ()
            key = (log_id, *after)
            return int(held), connection.exec_driver_sql(self._sql.text_after, key).all()

        followed_until, rows = await self._database.read(unit)
        if log_id in self._held:
            return ()  # this process acquired it meanwhile
        if followed_until is not None:
            await self._follow(log_id, followed_until)
        return [_piece(row) for row in rows]

    def _progress(self, log_id: LogId, epoch: int) -> LeaseProgress | None:
        progress = self._held.get(log_id)
        return progress if progress is not None and progress.epoch == epoch else None

    async def _follow(self, log_id: LogId, followed_until: int) -> None:
        """Extend `followed_until`, if a third of the time since the last extension has passed."""
        now = self._clock.now()
        until = now + self._followed_ms
        if until - followed_until < self._followed_ms // 3:
            return

        def unit(connection: Connection) -> None:
            connection.connection.cursor().execute(self._sql.follow, (until, log_id, until))

        try:
            await self._database.write(unit, order=log_id)
        except StoreError as error:  # the reader misses pieces, and gets the complete reply later
            log.debug("log %s could not be marked as followed: %s", log_id, error)


def _row(piece: TextPiece) -> Row:
    base, units = piece.spot
    text = json.dumps(piece.text)  # Postgres refuses NUL, and both refuse lone surrogates
    return base, units, piece.task_id, piece.iteration, int(piece.closing), piece.kind, text


def _piece(row: Row) -> TextPiece:
    base, units, task_id, iteration, closing, kind, text = row
    return TextPiece(
        task_id=TaskId(task_id),
        spot=TextPosition(base, units),
        iteration=iteration,
        closing=bool(closing),
        kind=kind,
        text=json.loads(text),
    )
