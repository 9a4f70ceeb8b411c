"""Units of work for the writer: appends to a log, with everything that follows from them.

Guarantees: sequence numbers have no gaps; a holder with an old epoch writes nothing; an event, the
change it carries and the list rows that follow from it are written together; the holder receives
outside events in log order, before its own.

How it works. Making room is one conditional UPDATE of the row in `logs`: it checks the epoch and
the expected head, adds the number of entries, and extends the lease. It comes first, because it
takes the row lock: all that follows happens under it. The holder predicts the head from
`LeaseProgress.written`, which counts its appends that are not committed yet. Only if an outside
event came between does a second statement read the real head, and the unit returns those rows. All
appends of a batch insert their events with one statement (`append_all`).

Relies on: the writer runs the appends of one log in order. If one fails, `written` is ahead of the
log, so the UPDATE of each later append matches no row and they fail with LeaseLost.

Proof: tests/store/logs/test_log_units.py, tests/contracts/test_log.py.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import NameTaken, NotFound, SessionBusy
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.codec import encode_all
from penstock.core.events.events import (
    CallRequested,
    Entry,
    Event,
    QuestionAnswered,
    Record,
    SessionOpened,
    TaskEnded,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.roles import OUTSIDE, REPEATED
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.store.blobs import Blobs
from penstock.store.logs.child_rows import admit_child
from penstock.store.logs.outbox import ANNOUNCED, OutboxWriter
from penstock.store.projections import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.rows import Row
from penstock.store.statements import Statements
from penstock.store.values.changes import Changes, drop_task, loosen

MOVED_ON = "something came into this conversation meanwhile; read it again"
_NOBODY = ""
Draft = tuple[Moment, TaskId | None, CallPath | None, str, str, BlobId | None]
"""A row without its number: at, task_id, path, kind, body, blob_id.

A tuple, because the database driver takes it as it is."""
_MAX_CHARACTER_BYTES = 4
MANY = 500
"""Events of one commit from which on a thread converts them: 10 microseconds each."""
_BODY_OF: Callable[[Draft], str] = itemgetter(4)


class LeaseProgress(Struct):
    """The state of a log as its lease holder knows it."""

    epoch: int
    written: int
    """Events of all holders, including appends that are not committed yet."""
    known: int
    """The newest event that the holder has received."""
    outside: int
    """How many outside events there were up to `known`."""
    followed_until: int = 0
    """Until when another process reads the live text of this log, in milliseconds."""
    may_have_text: bool = False
    """Pieces of a live reply may be stored; the event that completes the reply deletes them."""


class AppendOutcome(NamedTuple):
    """The outcome of a successful append."""

    head: int
    outside: int
    slipped: Sequence[Row] = ()
    """The rows between the known event and this append, if some of them are outside events."""
    entries: Sequence[Entry] | None = None
    """The entries as written, if they differ from the entries of the unit."""


class AppendUnit(Struct):
    """Append as the holder. The result is None if the lease is lost or an earlier append failed."""

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
    """Set if some of the entries also change other tables."""
    outbox: OutboxWriter | None = None
    """Set if webhooks want some of the events."""
    completes_reply: bool = False
    """An entry completes or discards the live reply, so its stored pieces are deleted."""

    def __call__(self, connection: Connection) -> AppendOutcome | None:
        """Append the events and write what follows from them."""
        return append_all(connection, [self])[0]

    def write(
        self, connection: Connection, cursor: DBAPICursor, rows: list[tuple[Any, ...]]
    ) -> AppendOutcome | None:
        """Make room and write what follows; add the events to `rows`, which are inserted later."""
        progress = self.progress
        advanced = self._advance(cursor)
        if advanced is None:
            return None
        first, outside = advanced
        entries, drafts = self.entries, self.drafts
        made: list[Entry] | None = None
        if QuestionAnswered in self.kinds:
            made, drafts = self._without_late_answers(cursor)
            entries = made
        late = len(self.drafts) - len(drafts)
        if self.changes is not None:
            made, drafts = self._changed(self.changes, connection, entries, drafts)
            entries = made
        rows += placed(self.log_id, first, drafts)
        if not self.kinds.isdisjoint(HAVE_CONSEQUENCES):
            self._follow(cursor, first, entries)
        if self.completes_reply:
            cursor.execute(self.sql.drop_text, (self.log_id,))
        head = first + len(drafts) - 1
        if outside == progress.outside:
            return AppendOutcome(head, outside - late, (), made)
        if rows:  # earlier rows of this batch may belong to this log: insert them before the read
            insert_all(cursor, self.sql.insert, rows)
            rows.clear()
        cursor.execute(self.sql.between, (self.log_id, progress.known, first - 1))
        return AppendOutcome(head, outside - late, cursor.fetchall(), made)

    def _advance(self, cursor: DBAPICursor) -> tuple[int, int] | None:
        """Make room. Return the number of the first entry and the count of outside events."""
        progress, count = self.progress, len(self.drafts)
        written, outside = progress.written, progress.outside
        repeated = count if self.kinds <= REPEATED else 0
        key = (count, self.lease_until, repeated, self.log_id, progress.epoch)
        cursor.execute(self.sql.advance, (*key, written + outside, outside))
        if cursor.rowcount:  # the usual case: no outside event came, so nothing has to be returned
            return written + outside + 1, outside
        cursor.execute(self.sql.advance_past, (*key, written))
        advanced = cursor.fetchone()
        return None if advanced is None else (advanced[0] - count + 1, advanced[1])

    def _without_late_answers(self, cursor: DBAPICursor) -> tuple[list[Entry], list[Draft]]:
        """Return the entries without the ends of questions that have an end in the log already.

        The holder withdraws a question, or lets it expire, by what it knows; a person may have
        answered meanwhile, and the log keeps one end for each question. Entries left out here stay
        counted in `written`, because later appends rely on it: `outside` is reduced instead.
        """
        log_id, is_late = self.log_id, self.projections.is_late
        both = zip(self.entries, self.drafts, strict=True)
        kept = [each for each in both if not is_late(cursor, log_id, each[0].event)]
        late = len(self.drafts) - len(kept)
        if late:
            cursor.execute(self.sql.drop_room, (late, late, log_id))
        return [entry for entry, _ in kept], [draft for _, draft in kept]

    def _follow(self, cursor: DBAPICursor, first: int, entries: Sequence[Entry]) -> None:
        written_at = self.drafts[0][0]
        for seq, entry in enumerate(entries, first):
            if type(entry.event) in HAVE_CONSEQUENCES:
                place = (self.log_id, seq, written_at, entry.task_id, entry.path)
                record = Record(*place, entry.event)
                self.projections.follow(cursor, record)
                if self.outbox is not None and type(entry.event) in ANNOUNCED:
                    self.outbox.add(cursor, record)

    def _changed(
        self,
        changes: Changes,
        connection: Connection,
        submitted: Sequence[Entry],
        rows: Sequence[Draft],
    ) -> tuple[list[Entry], list[Draft]]:
        """Apply the changes. Return the entries and rows with the outcome of each change."""
        entries, drafts = list(submitted), list(rows)
        for number, entry in enumerate(entries):
            at = drafts[number][0]
            if entry.change is not None:
                entries[number] = settled = changes.settle(connection, entry, at)
                if settled.event is not entry.event:
                    # the refused change's blobs are in no event now: the sweeper deletes them
                    loosen(connection, blobs_of([drafts[number]]), at)
                    (drafts[number],) = drafts_of([settled], at)
            elif isinstance(entry.event, TaskEnded) and entry.task_id:
                self._drop_task(connection, entry.task_id, at)
        return entries, drafts

    def _drop_task(self, connection: Connection, task_id: TaskId, at: Moment) -> None:
        cursor = connection.connection.cursor()
        cursor.execute(self.sql.task_scope, (task_id, len(task_id) + 1, f"{task_id}/"))
        if cursor.fetchone() is not None:
            drop_task(connection, task_id, at)


def append_all(connection: Connection, units: Sequence[AppendUnit]) -> list[AppendOutcome | None]:
    """Run many appends and insert all their rows with one statement. Return their outcomes."""
    cursor = connection.connection.cursor()
    rows: list[tuple[Any, ...]] = []
    outcomes = [unit.write(connection, cursor, rows) for unit in units]
    if rows:
        insert_all(cursor, units[0].sql.insert, rows)
    return outcomes


class SendUnit(Struct):
    """Append outside events. Raises what ProjectionWriter.admit raises; then nothing is written."""

    sql: Statements
    projections: ProjectionWriter
    log_id: LogId
    entries: Sequence[Entry]
    drafts: Sequence[Draft]
    head: int | None = None
    """The expected number of the newest event; None accepts any."""

    def __call__(self, connection: Connection) -> list[Record]:
        """Append the events, create the log if necessary, and mark it as needing a run."""
        cursor = connection.connection.cursor()
        return self.write(cursor, self._first(cursor))

    def write(self, cursor: DBAPICursor, first: int) -> list[Record]:
        """Insert the events from number `first` on, and write what follows from them."""
        rows = placed(self.log_id, first, self.drafts)
        records = [
            Record(self.log_id, first + number, draft[0], entry.task_id, entry.path, entry.event)
            for number, (entry, draft) in enumerate(zip(self.entries, self.drafts, strict=True))
        ]
        insert_all(cursor, self.sql.insert, rows)
        for record in records:
            if isinstance(child := record.event, ChildRequested):
                admit_child(self.sql, cursor, record, child, limits=self.projections.limits)
            self.projections.admit(cursor, record)
            self.projections.follow(cursor, record)
        return records

    def _first(self, cursor: DBAPICursor) -> int:
        """Make room in the log, or create it. Return the number of the first entry."""
        count = len(self.entries)
        cursor.execute(self.sql.add_outside, (count, count, count, self.log_id))
        advanced = cursor.fetchone()
        event = self.entries[0].event
        if advanced is not None:
            if type(event) is SessionOpened:
                raise log_exists(self.log_id)
            before = int(advanced[0]) - count
            if self.head is not None and self.head != before:
                raise SessionBusy(MOVED_ON)
            return before + 1
        profile_id, agent = owner_of(self.log_id, event)
        cursor.execute(self.sql.open_log, (self.log_id, profile_id, agent, count, count))
        return 1


def log_exists(log_id: LogId) -> NameTaken:
    """Return the error of an event that opens a log which is open already."""
    return NameTaken(f"the log {log_id!r} already exists; use a new id")


class BeginUnit(Struct):
    """Append outside events and the start of their task, and acquire the lease.

    The result is None if the log is held, or does not end at `head`; then nothing is written.
    """

    send: SendUnit
    owner: str
    lease_until: int
    head: int
    is_abandoned: bool = False
    """The task that wanted the lease was cancelled. Read on the event loop only."""

    def __call__(self, connection: Connection) -> tuple[LeaseProgress, list[Record]] | None:
        """Return the progress under the new epoch, and the records."""
        send, cursor = self.send, connection.connection.cursor()
        count = len(send.entries)
        # The type is enough: no task starts with an answer.
        outside = sum(type(each.event) in OUTSIDE for each in send.entries)
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
            log_row = cursor.fetchone()
            if log_row is None:
                return None
            epoch, head, all_outside, followed_until = log_row
            progress = LeaseProgress(epoch, head - all_outside, head, all_outside, followed_until)
        return progress, send.write(cursor, self.head + 1)


def owner_of(log_id: LogId, event: Event) -> tuple[ProfileId, str]:
    """Return the profile and agent of a log whose first event this is.

    Raises NotFound for an event that cannot be the first: its log does not exist.
    """
    match event:
        case SessionOpened(profile_id=profile_id, agent=agent):
            return profile_id, agent
        case CallRequested(profile_id=profile_id):
            return profile_id, _NOBODY
        case FlowRequested(profile_id=profile_id, command=command):
            return profile_id, command
        case ChildRequested(profile_id=profile_id, agent=agent):
            return profile_id, agent
        case _:
            raise NotFound(f"there is no log {log_id!r}")


def insert_all(cursor: DBAPICursor, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows with one statement."""
    if len(rows) == 1:
        cursor.execute(statement, rows[0])
    else:
        cursor.executemany(statement, rows)


class EventDrafts:
    """Converts events to rows, and stores large bodies apart."""

    def __init__(self, blobs: Blobs, body_bytes: int) -> None:
        self._blobs = blobs
        self._body_bytes = body_bytes

    def from_entries(self, entries: Sequence[Entry], at: Moment) -> tuple[list[Draft], bool]:
        """Return drafts that contain their whole bodies, and whether all fit in the table."""
        drafts = drafts_of(entries, at)
        limit = self._body_bytes // _MAX_CHARACTER_BYTES
        # most bodies are so short that their bytes need not be counted
        is_short = all(len(draft[4]) <= limit for draft in drafts)
        return drafts, is_short or all(map(self._is_small, map(_BODY_OF, drafts)))

    async def put_away(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Store the large bodies as blobs. Return the drafts with references to them."""
        stored: list[Draft] = []
        for at, task_id, path, kind, body, blob_id in drafts:
            if self._is_small(body):
                stored.append((at, task_id, path, kind, body, blob_id))
            else:
                large = await self._blobs.put(body.encode())
                stored.append((at, task_id, path, kind, "", large))
        return stored

    async def share(self, blobs: Iterable[BlobId]) -> None:
        """Mark blobs as shared, so that a sweep searches the events before it deletes them.

        Call it for blobs of a failed write: if the connection was lost during the commit, the
        events may be stored nevertheless.
        """
        for blob_id in blobs:
            await self._blobs.share(blob_id)

    def _is_small(self, body: str) -> bool:
        limit = self._body_bytes
        # most bodies are short ASCII texts: for them nothing is encoded
        return len(body) <= limit and (body.isascii() or len(body.encode()) <= limit)


def drafts_of(entries: Sequence[Entry], at: Moment) -> list[Draft]:
    """Convert entries to drafts that contain their whole bodies."""
    bodies = encode_all([entry.event for entry in entries])
    return [
        (at, entry.task_id, entry.path, kind, body, None)
        for entry, (kind, body) in zip(entries, bodies, strict=True)
    ]


def blobs_of(drafts: Iterable[Draft]) -> list[BlobId]:
    """Return the blobs that contain bodies of these drafts."""
    return [draft[5] for draft in drafts if draft[5] is not None]


def placed(log_id: LogId, first: int, drafts: Sequence[Draft]) -> list[tuple[Any, ...]]:
    """Return rows for the table `events`, numbered from `first`."""
    return [(log_id, seq, *draft) for seq, draft in enumerate(drafts, first)]
