"""What is done to one log in one transaction: units of work for the writer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.clock import Moment
from penstock.core.errors import NameTaken, NotFound, SessionBusy
from penstock.core.events.events import (
    REPEATED,
    CallRequested,
    Entry,
    Event,
    QuestionAnswered,
    Record,
    SessionOpened,
    TaskEnded,
    is_outside,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, ProfileId, TaskId
from penstock.store.changes import Changes, drop_task, loosen
from penstock.store.projections.projection_writer import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.rows import Draft, Row, blobs_of, draft_of
from penstock.store.statements import Statements, cursor_of, insert_all

MOVED_ON = "something came into this conversation meanwhile; read it again"
_NOBODY = ""


class LeaseProgress(Struct):
    """A lease in use, as far as its holder knows the log."""

    epoch: int
    written: int
    """Events of this holder and those before, with all that are on their way."""
    known: int
    """The newest event that the holder was told of."""
    outside: int
    """How many events from outside there were then."""
    followed_until: int = 0
    """How long another process wants to see replies on their way."""
    is_overheard: bool = False
    """There may be pieces of a reply on its way to be dropped once it is whole."""

    def now(self) -> "LeaseProgress":
        """Return what stays as it is now."""
        return LeaseProgress(self.epoch, self.written, self.known, self.outside)


class AppendOutcome(NamedTuple):
    """What became of an append."""

    head: int
    outside: int
    slipped: Sequence[Row] = ()
    """What came after the known event, if anything of it is from outside."""
    entries: Sequence[Entry] | None = None
    """What was written, if that was known only then."""


class AppendUnit(Struct):
    """Write as the holder. None: the lease is lost, or an append before this one failed."""

    sql: Statements
    projections: ProjectionWriter
    log_id: LogId
    entries: Sequence[Entry]
    kinds: set[type[Event]]
    """Of the events in the entries."""
    drafts: Sequence[Draft]
    lease_until: int
    progress: LeaseProgress
    changes: Changes | None = None
    """Set when some of the entries change something besides the log."""
    is_said: bool = False
    """The reply that is on its way is whole with this, or taken back: its pieces are dropped."""

    def __call__(self, connection: Connection) -> AppendOutcome | None:
        """Leave the events at the end of the log, with all that follows from them."""
        return append_all(connection, [self])[0]

    def write(
        self, connection: Connection, cursor: DBAPICursor, rows: list[tuple[Any, ...]]
    ) -> AppendOutcome | None:
        """Make room in the log, do what follows, and leave the rows to who inserts those of all."""
        progress = self.progress
        advanced = self._advance(cursor)
        if advanced is None:
            return None
        first, outside = advanced
        entries, drafts = self.entries, self.drafts
        made: list[Entry] | None = None
        if QuestionAnswered in self.kinds:
            made, drafts = self._in_time(cursor)
            entries = made
        late = len(self.drafts) - len(drafts)
        if self.changes is not None:
            made, drafts = self._changed(self.changes, connection, entries, drafts)
            entries = made
        rows += placed(self.log_id, first, drafts)
        if not self.kinds.isdisjoint(HAVE_CONSEQUENCES):
            self._follow(cursor, first, entries)
        if self.is_said:
            cursor.execute(self.sql.unsay, (self.log_id,))
        head = first + len(drafts) - 1
        if outside == progress.outside:
            return AppendOutcome(head, outside - late, (), made)
        if rows:
            insert_all(cursor, self.sql.insert, rows)
            rows.clear()
        cursor.execute(self.sql.between, (self.log_id, progress.known, first - 1))
        return AppendOutcome(head, outside - late, cursor.fetchall(), made)

    def _advance(self, cursor: DBAPICursor) -> tuple[int, int] | None:
        """Make room; returns the number of the first entry, and how many are from outside."""
        progress, count = self.progress, len(self.drafts)
        written, outside = progress.written, progress.outside
        repeated = count if self.kinds <= REPEATED else 0
        key = (count, self.lease_until, repeated, self.log_id, progress.epoch)
        cursor.execute(self.sql.advance, (*key, written + outside, outside))
        if cursor.rowcount:
            return written + outside + 1, outside
        cursor.execute(self.sql.advance_past, (*key, written))
        advanced = cursor.fetchone()
        return None if advanced is None else (advanced[0] - count + 1, advanced[1])

    def _in_time(self, cursor: DBAPICursor) -> tuple[list[Entry], list[Draft]]:
        """Return what is to be written: of a question that somebody answered first, no other end.

        The holder withdraws a question, or lets it expire, by what it knows; the answer may be in
        the log by now, and the log has one for each question. What is left out stays counted as
        written, because appends on their way count on that: `outside` takes the difference.
        """
        log_id, is_late = self.log_id, self.projections.is_late
        both = zip(self.entries, self.drafts, strict=True)
        kept = [each for each in both if not is_late(cursor, log_id, each[0].event)]
        late = len(self.drafts) - len(kept)
        if late:
            cursor.execute(self.sql.drop_room, (late, late, log_id))
        return [entry for entry, _ in kept], [draft for _, draft in kept]

    def _follow(self, cursor: DBAPICursor, first: int, entries: Sequence[Entry]) -> None:
        at = self.drafts[0][0]
        for seq, entry in enumerate(entries, first):
            if type(entry.event) in HAVE_CONSEQUENCES:
                record = Record(self.log_id, seq, at, entry.task_id, entry.path, entry.event)
                self.projections.follow(cursor, record)

    def _changed(
        self,
        changes: Changes,
        connection: Connection,
        wanted: Sequence[Entry],
        rows: Sequence[Draft],
    ) -> tuple[list[Entry], list[Draft]]:
        """Make the changes; returns the entries and rows that tell what became of them."""
        entries, drafts = list(wanted), list(rows)
        for number, entry in enumerate(entries):
            at = drafts[number][0]
            if entry.change is not None:
                entries[number] = settled = changes.settle(connection, entry, at)
                if settled.event is not entry.event:
                    loosen(connection, blobs_of([drafts[number]]), at)
                    drafts[number] = draft_of(settled, at)
            elif isinstance(entry.event, TaskEnded) and entry.task_id:
                self._drop_task(connection, entry.task_id, at)
        return entries, drafts

    def _drop_task(self, connection: Connection, task_id: TaskId, at: Moment) -> None:
        cursor = cursor_of(connection)
        cursor.execute(self.sql.task_scope, (task_id, len(task_id) + 1, f"{task_id}/"))
        if cursor.fetchone() is not None:
            drop_task(connection, task_id, at)


def append_all(connection: Connection, units: Sequence[AppendUnit]) -> list[AppendOutcome | None]:
    """Do many appends, the rows of all with one statement; each has its outcome."""
    cursor = cursor_of(connection)
    rows: list[tuple[Any, ...]] = []
    outcomes = [unit.write(connection, cursor, rows) for unit in units]
    if rows:
        insert_all(cursor, units[0].sql.insert, rows)
    return outcomes


class SendUnit(Struct):
    """Write from outside; raises what the events run into."""

    sql: Statements
    projections: ProjectionWriter
    log_id: LogId
    entries: Sequence[Entry]
    drafts: Sequence[Draft]
    head: int | None = None
    """Where the log has to end, if that matters."""

    def __call__(self, connection: Connection) -> list[Record]:
        """Leave the events in the log, made if there was none, and marked as needing a run."""
        cursor = cursor_of(connection)
        return self.write(cursor, self._first(cursor))

    def write(self, cursor: DBAPICursor, first: int) -> list[Record]:
        """Write into the room that was made, with all that follows."""
        records = [
            Record(self.log_id, first + number, draft[0], entry.task_id, entry.path, entry.event)
            for number, (entry, draft) in enumerate(zip(self.entries, self.drafts, strict=True))
        ]
        for record in records:
            self.projections.admit(cursor, record)
            self.projections.follow(cursor, record)
        insert_all(cursor, self.sql.insert, placed(self.log_id, first, self.drafts))
        return records

    def _first(self, cursor: DBAPICursor) -> int:
        """Make room in the log, or make the log; returns the number of the first entry."""
        count = len(self.entries)
        cursor.execute(self.sql.intrude, (count, count, count, self.log_id))
        advanced = cursor.fetchone()
        event = self.entries[0].event
        if advanced is not None:
            if type(event) is SessionOpened:
                raise NameTaken(f"there is a log {self.log_id!r} already; take a new id")
            before = int(advanced[0]) - count
            if self.head is not None and self.head != before:
                raise SessionBusy(MOVED_ON)
            return before + 1
        profile_id, agent = owner_of(self.log_id, event)
        cursor.execute(self.sql.open_log, (self.log_id, profile_id, agent, count, count))
        return 1


class BeginUnit(Struct):
    """Write from outside, start the task and take the lease; None when the log stands otherwise."""

    send: SendUnit
    owner: str
    lease_until: int
    head: int

    def __call__(self, connection: Connection) -> tuple[LeaseProgress, list[Record]] | None:
        """Leave the events in the log, and the log held under a new epoch."""
        send, cursor = self.send, cursor_of(connection)
        count = len(send.entries)
        outside = sum(is_outside(each.event) for each in send.entries)
        if self.head == 0:
            profile_id, agent = owner_of(send.log_id, send.entries[0].event)
            held = (count, outside, self.owner, self.lease_until, count)
            cursor.execute(send.sql.open_held_log, (send.log_id, profile_id, agent, *held))
            if not cursor.rowcount:
                return None
            progress = LeaseProgress(1, count - outside, count, outside)
        else:
            held = (count, outside, self.owner, self.lease_until, count)
            cursor.execute(send.sql.begin, (*held, send.log_id, self.head))
            begun = cursor.fetchone()
            if begun is None:
                return None
            epoch, head, all_outside, followed_until = begun
            progress = LeaseProgress(epoch, head - all_outside, head, all_outside, followed_until)
        return progress, send.write(cursor, self.head + 1)


def owner_of(log_id: LogId, event: Event) -> tuple[ProfileId, str]:
    """Return whose a log is that begins so: a profile, and its agent. Raises NotFound."""
    match event:
        case SessionOpened(profile_id=profile_id, agent=agent):
            return profile_id, agent
        case CallRequested(profile_id=profile_id):
            return profile_id, _NOBODY
        case FlowRequested(profile_id=profile_id, command=command):
            return profile_id, command
        case _:
            raise NotFound(f"there is no log {log_id!r}")


def placed(log_id: LogId, first: int, drafts: Sequence[Draft]) -> list[tuple[Any, ...]]:
    """Return the rows of `events`, numbered from `first`."""
    return [(log_id, seq, *draft) for seq, draft in enumerate(drafts, first)]
