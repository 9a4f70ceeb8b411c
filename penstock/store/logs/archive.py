"""Archives old parts of long logs: their bodies move from the database into compressed blobs.

Guarantees: every reader gets the same events as before. A crash at any point loses nothing: an
event has its body in the database or in a stored blob. What is erased leaves its archive first, and
the blob that had it is deleted with the erasure.

How it works. A *part* is a blob: about 256 KiB of bodies of one log, compressed together. The row
of an archived event stays in `events`; `blob_id` names the part, and `body` the place in it, so
lists, checks and counts need no second table. Only bulky kinds move (`ARCHIVED`): messages, answers
and questions stay where searches look. A body that names a blob stays too, so that no part has to
be opened to find out which blobs are in use. A log was looked at up to the event `logs.archived`.

The id of a part is entered in `loose_blobs` before its bytes are stored, and removed in the
transaction that names it; a sweep deletes the bytes of a part that a crash left without rows. That
transaction compares the bodies once more: an erasure may have come between, or a sweep may have
claimed the blob. Then the part is given up, and `Erasure.finish` deletes its bytes: every caller of
`steps` calls it at the end.

Relies on: an erasure calls `restore` for each task before it overwrites it, and refuses a row that
was archived meanwhile. Proof: tests/store/logs/test_archive.py, with a stop at each write.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from hashlib import sha256

from msgspec import Struct
from sqlalchemy import Connection, select

from penstock.core.clock import Clock, Moment
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.references import erased_at, release_erased
from penstock.store.rows import body_at, packed, unpacked
from penstock.store.statements import Statements
from penstock.store.tables import events, logs, loose_blobs
from penstock.store.values.changes import loosen

ARCHIVED = frozenset(
    {"agent_began", "call_settled", "call_started", "flow_notified", "note_emitted"}
    | {"prompt_resolved", "reply_received", "state_written", "step_settled"}
)
"""The kinds of events whose bodies may be archived: what tools and models wrote."""
FEWEST_EVENTS = 500
"""Events after the archived ones that make it worth to look at a log."""
SHORTEST = 200
"""Characters of the shortest body that is archived: its place takes about 70."""
PART_CHARACTERS = 256 * 1024
"""Characters of the bodies in a part: a page of a history opens few, each in about 1 ms."""
LEAST_CHARACTERS = 32 * 1024
"""A part with fewer is left for later, unless many events lie behind them."""
_PAGE = 2_000
_BLOB_ID = re.compile(r"\b[0-9a-f]{64}\b")


class ArchivedPart(Struct, frozen=True, kw_only=True):
    """One part that was archived."""

    log_id: LogId
    events: int
    before: int
    """Bytes of the bodies."""
    after: int
    """Bytes of the blob."""


class Candidate(Struct, frozen=True, kw_only=True):
    """The next old events of a log."""

    log_id: LogId
    seen: int
    """The last event that was looked at before."""
    until: int
    """The last event that is looked at now."""
    bodies: Mapping[int, str]
    """The bodies that move, by event."""


class Archive:
    """Moves old bodies of long logs into parts, and back."""

    def __init__(self, database: Database, blobs: Blobs, clock: Clock) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._sql = Statements(database.dialect)

    async def steps(
        self, before: Moment, *, dry_run: bool = False
    ) -> AsyncGenerator[ArchivedPart, None]:
        """Archive events older than `before`, and yield each part; a dry run stores nothing.

        Each step is one short transaction, so that a writer waits for little. Raises StoreError.
        """
        for log_id, seen in await self._database.read(_long_logs):
            place = seen
            while (part := await self._next(log_id, place, before)) is not None:
                # in a thread: compressing takes 10 ms, in which no turn may wait
                data = await asyncio.to_thread(packed, log_id, [*part.bodies.values()])
                if part.bodies and not (dry_run or await self._store(part, data)):
                    break  # the log changed meanwhile: the next run looks again
                if not (part.bodies or dry_run):
                    await self._database.write(partial(self._skip, part), order=log_id)
                place = part.until
                if part.bodies:
                    size = sum(len(each.encode()) for each in part.bodies.values())
                    yield ArchivedPart(
                        log_id=log_id, events=len(part.bodies), before=size, after=len(data)
                    )

    async def restore(self, log_id: LogId, task_id: TaskId) -> None:
        """Move the parts that have bodies of a task back into the database; delete the blobs.

        The blobs are due at once: the erasure that follows deletes them. Raises StoreCorrupt and
        NotFound.
        """
        for part_id in await self._database.read(partial(_parts_of, log_id, task_id)):
            bodies = unpacked(log_id, await self._blobs.get(part_id))
            unit = partial(self._put_back, log_id, part_id, bodies)
            await self._database.write(unit, order=log_id)

    async def _next(self, log_id: LogId, seen: int, before: Moment) -> Candidate | None:
        """Return the next old events of a log, if there are enough for a part."""
        key = (log_id, seen, _PAGE)
        rows = await self._database.read(
            lambda each: each.exec_driver_sql(self._sql.events_after, key).all()
        )
        bodies, size, until = dict[int, str](), 0, seen
        for seq, at, _, _, kind, body, blob_id in rows:
            if at >= before or size >= PART_CHARACTERS:
                break
            until = seq
            if blob_id is None and kind in ARCHIVED and _is_worth_it(body):
                bodies[seq] = body
                size += len(body)
        if size < LEAST_CHARACTERS and until - seen < _PAGE:
            return None
        return Candidate(log_id=log_id, seen=seen, until=until, bodies=bodies)

    async def _store(self, part: Candidate, data: bytes) -> bool:
        """Store a part and let the rows name it. Return False if the log changed meanwhile."""
        part_id, now = BlobId(sha256(data).hexdigest()), self._clock.now()
        await self._database.write(partial(loosen, blob_ids=[part_id], at=now))
        await self._blobs.put(data)
        unit = partial(self._name, part, part_id, now)
        if await self._database.write(unit, order=part.log_id):
            return True
        # an erasure may have come between: the bytes are due at once, see `Erasure.finish`
        due = erased_at(self._clock.now())
        await self._database.write(partial(release_erased, blob_ids=[part_id], due=due))
        return False

    def _name(
        self, part: Candidate, part_id: BlobId, entered: Moment, connection: Connection
    ) -> bool:
        cursor, log_id = connection.connection.cursor(), part.log_id
        cursor.execute(self._sql.lock_log, (log_id,))
        # a sweep that claimed the blob meanwhile has changed the time of its row
        mine = (loose_blobs.c.blob_id == part_id, loose_blobs.c.at == entered)
        own = (events.c.log_id == log_id, events.c.seq > part.seen, events.c.seq <= part.until)
        stored = select(events.c.seq, events.c.body).where(*own, events.c.blob_id.is_(None))
        now = {seq: body for seq, body in connection.execute(stored) if seq in part.bodies}
        if now != part.bodies or not connection.execute(loose_blobs.delete().where(*mine)).rowcount:
            return False
        places = [(str(place), part_id, log_id, seq) for place, seq in enumerate(part.bodies)]
        cursor.executemany(self._sql.move_body, places)
        self._skip(part, connection)
        return True

    def _skip(self, part: Candidate, connection: Connection) -> None:
        own = logs.update().where(logs.c.log_id == part.log_id, logs.c.archived == part.seen)
        connection.execute(own.values(archived=part.until))

    def _put_back(
        self, log_id: LogId, part_id: BlobId, bodies: Sequence[str], connection: Connection
    ) -> None:
        cursor = connection.connection.cursor()
        cursor.execute(self._sql.lock_log, (log_id,))
        own = (events.c.log_id == log_id, events.c.blob_id == part_id)
        rows = connection.execute(select(events.c.seq, events.c.body).where(*own)).all()
        moved = [(body_at(bodies, place), None, log_id, seq) for seq, place in rows]
        if moved:
            cursor.executemany(self._sql.move_body, moved)
            first = min(seq for *_, seq in moved) - 1
            again = logs.update().where(logs.c.log_id == log_id, logs.c.archived > first)
            connection.execute(again.values(archived=first))
        release_erased(connection, {part_id}, erased_at(self._clock.now()))


def before_days(clock: Clock, days: float) -> Moment:
    """Return the time so many days ago."""
    return Moment(clock.now() - round(days * 24 * 3_600_000))


def _is_worth_it(body: str) -> bool:
    return len(body) >= SHORTEST and _BLOB_ID.search(body) is None


def _long_logs(connection: Connection) -> list[tuple[LogId, int]]:
    enough = logs.c.head - logs.c.archived >= FEWEST_EVENTS
    found = select(logs.c.log_id, logs.c.archived).where(enough).order_by(logs.c.log_id)
    return [(LogId(log_id), archived) for log_id, archived in connection.execute(found)]


def _parts_of(log_id: LogId, task_id: TaskId, connection: Connection) -> list[BlobId]:
    own = (events.c.log_id == log_id, events.c.task_id == task_id, events.c.body != "")
    parts = select(events.c.blob_id).where(*own, events.c.blob_id.is_not(None)).distinct()
    return [BlobId(each) for each in connection.execute(parts).scalars()]
