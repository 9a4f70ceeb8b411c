"""What replies on their way say, in the table `deltas`."""

import json
import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from penstock.core.clock import Clock
from penstock.core.errors import StoreError
from penstock.core.ids import LogId, TaskId
from penstock.store.database import Database
from penstock.store.logs.log import NOWHERE, Followed, TextPiece, TextPosition
from penstock.store.logs.log_units import LeaseProgress
from penstock.store.statements import Row, Statements, cursor_of, insert_all

log = logging.getLogger(__name__)


class SqlLiveText:
    """Pieces of replies in a database, written for no one but who follows."""

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
        self._followed_ms = int(1000 * database.limits.followed_seconds)
        self._listeners: list[Followed] = []

    def listen(self, listener: Followed) -> None:
        """Tell the listener of every log held here that is followed from elsewhere."""
        self._listeners.append(listener)

    def hear(self, log_id: LogId, epoch: int, followed_until: int) -> None:
        """Learn how long a log that is held here is followed."""
        progress = self._progress(log_id, epoch)
        if progress is None or not followed_until:
            return
        progress.followed_until, progress.is_overheard = followed_until, True
        if followed_until > self._clock.now():
            for listener in self._listeners:
                listener(log_id, epoch)

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        """Whether the log is held here in this epoch and followed, as far as was heard."""
        progress = self._progress(log_id, epoch)
        return progress is not None and progress.followed_until > self._clock.now()

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        """Let others read these pieces; those that are there already stay as they are."""
        rows = [(*_row(piece), log_id, epoch) for piece in pieces]
        if progress := self._progress(log_id, epoch):
            progress.is_overheard = True

        def unit(connection: Connection) -> None:
            insert_all(cursor_of(connection), self._sql.add_text, rows)

        await self._database.write(unit, order=log_id)

    async def read(self, log_id: LogId, *, after: TextPosition = NOWHERE) -> Sequence[TextPiece]:
        """Follow a log that is held elsewhere: return what is said there after a spot, in order."""
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
            return ()  # it was taken here meanwhile
        if followed_until is not None:
            await self._follow(log_id, followed_until)
        return [_piece(row) for row in rows]

    def _progress(self, log_id: LogId, epoch: int) -> LeaseProgress | None:
        progress = self._held.get(log_id)
        return progress if progress is not None and progress.epoch == epoch else None

    async def _follow(self, log_id: LogId, followed_until: int) -> None:
        """Say that the log is followed, when a third of the time since that was said is over."""
        now = self._clock.now()
        until = now + self._followed_ms
        if until - followed_until < self._followed_ms // 3:
            return

        def unit(connection: Connection) -> None:
            cursor_of(connection).execute(self._sql.follow, (until, log_id, until))

        try:
            await self._database.write(unit, order=log_id)
        except StoreError as error:  # who reads misses the pieces, and nothing else
            log.debug("that log %s is followed could not be said: %s", log_id, error)


def _row(piece: TextPiece) -> Row:
    base, units = piece.spot
    text = json.dumps(piece.text)  # a model may write what a database refuses
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
