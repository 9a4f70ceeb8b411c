"""Checks a database, and rebuilds its lists from the logs.

`probe` tries what every request needs, `check` and `read_back` examine the whole database, and
`mismatched_rows` compares the lists with their logs: one statement per rule, for a few rows each.
`rebuild` replaces the lists of each log in one transaction, so readers never see half of them. It
cannot repair a damaged log; only a copy of the database can.

Proof: tests/store/test_repair.py.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, and_, delete, func, literal, or_, select, text
from sqlalchemy.exc import SQLAlchemyError

from penstock.core.errors import PenstockError, StoreCorrupt
from penstock.core.events.events import (
    CallRequested,
    MessageReceived,
    QuestionAsked,
    Record,
    SessionOpened,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId
from penstock.core.limits import MIB
from penstock.core.task import QuestionStatus, TaskStatus
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.log import Log
from penstock.store.logs.sql_snapshots import drop_snapshots
from penstock.store.projections import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.rows import EventRows, Parts, advice, record_of
from penstock.store.rows import Row as EventRow
from penstock.store.statements import Statements
from penstock.store.tables import REVISION, events, logs, questions, sessions, tasks

_SOUND = "ok"
MAX_READ = 100_000
MAX_NAMED = 20


class Check(Struct, frozen=True):
    """The result of one check that `probe` makes."""

    name: str
    why: str = ""
    """Why it failed, without paths and secrets; empty if it passed."""


class Health(Struct, frozen=True, kw_only=True):
    """The result of checking a whole database."""

    revision: str
    """The revision of the tables that this version needs."""
    logs: int
    events: int
    problems: tuple[str, ...] = ()
    """Damage that SQLite reports about its file; Postgres checks its own files."""


async def probe(
    database: Database, blobs: Blobs, *, seconds: float | None = None
) -> tuple[Check, ...]:
    """Run the checks of `/api/ready` at once, each for at most `limits.ready_seconds`."""
    timeout = database.limits.ready_seconds if seconds is None else seconds
    places = {each for each in (database.folder, blobs.folder) if each is not None}
    checks = {
        "database": _reads_and_writes(database),
        "migrations": _is_current(database),
        "disk": asyncio.to_thread(space_problem, places, database.limits.free_bytes),
        "blobs": blobs.try_write(),
    }
    reasons = await asyncio.gather(*[_reason(check, timeout) for check in checks.values()])
    return tuple(map(Check, checks, reasons))


def space_problem(places: Iterable[Path], least: int) -> str:
    """Return a message about the free space if there is less than `least` bytes."""
    try:
        free = min((shutil.disk_usage(each).free for each in places), default=least)
    except OSError as error:
        return f"the free space cannot be read: {error.strerror}"
    if free >= least:
        return ""
    return f"{free // MIB:,} MiB are free, at least {least // MIB:,} are needed"


async def check(database: Database) -> Health:
    """Check a whole database. Reads all of it once."""
    try:
        problems = await database.read(_problems)
        sizes = await database.read(_sizes)
    except StoreCorrupt as error:
        return Health(revision=REVISION, logs=0, events=0, problems=(str(error),))
    return Health(revision=REVISION, logs=sizes[0], events=sizes[1], problems=problems)


async def read_back(
    database: Database, blobs: Blobs, *, most: int = MAX_READ
) -> tuple[int, tuple[str, ...]]:
    """Read the newest events. Return their number, and the names of those that cannot be read."""
    read, broken, large = await database.read(partial(_read_back, most))
    rows, parts = EventRows(blobs), Parts()
    for log_id, row in large:
        try:
            await rows.records(log_id, [row], parts=parts)
        except StoreCorrupt:
            broken.append(_named(log_id, row[0]))
    return read, tuple(sorted(broken)[:MAX_NAMED])


async def gaps(database: Database) -> tuple[str, ...]:
    """Return the logs that lack events, by comparing each with its head."""
    return await database.read(_gaps)


async def _reads_and_writes(database: Database) -> str:
    await database.read(lambda each: each.execute(select(logs.c.log_id).limit(1)).first())
    await database.try_write()
    return ""


async def _is_current(database: Database) -> str:
    statement = text("SELECT version_num FROM alembic_version")
    current = await database.read(lambda each: each.execute(statement).scalar())
    if current == REVISION:
        return ""
    return f"the tables are at revision {current}, this version needs {REVISION}"


async def _reason(check: Awaitable[str | None], seconds: float) -> str:
    """Return why a check failed; empty if it passed."""
    try:
        async with asyncio.timeout(seconds):
            return await check or ""
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except PenstockError as error:
        # not its own message, which may name paths of this machine
        return (type(error).__doc__ or error.code).strip()
    except SQLAlchemyError as error:
        return f"the database failed: {type(error).__name__}"


def _read_back(
    most: int, connection: Connection
) -> tuple[int, list[str], list[tuple[LogId, EventRow]]]:
    """Return the number of events, the unreadable ones, and those whose bodies are blobs."""
    read, broken, large = 0, list[str](), list[tuple[LogId, EventRow]]()
    newest = select(events).order_by(events.c.at.desc()).limit(most)
    for log_id, *columns in connection.execute(newest):
        seq, at, task_id, path, kind, body, blob_id = columns
        row = (seq, at, task_id, path, kind, body, blob_id)
        read += 1
        if blob_id is not None:
            large.append((log_id, row))
            continue
        try:
            record_of(log_id, row)
        except StoreCorrupt:
            broken.append(_named(log_id, seq))
    return read, broken, large


def _named(log_id: str, seq: int) -> str:
    return f"event {seq} of log {log_id!r}"


def _gaps(connection: Connection) -> tuple[str, ...]:
    count = func.count(events.c.seq)
    statement = (
        select(logs.c.log_id, logs.c.head, count.label("count"))
        .outerjoin(events, events.c.log_id == logs.c.log_id)
        .group_by(logs.c.log_id, logs.c.head)
        .having(or_(count != logs.c.head, func.max(events.c.seq) != logs.c.head))
        .order_by(logs.c.log_id)
        .limit(MAX_NAMED)
    )
    return tuple(
        f"{_named(log_id, _first_gap(connection, log_id))}, which has {number} of {head}"
        for log_id, head, number in connection.execute(statement).all()
    )


def _first_gap(connection: Connection, log_id: str) -> int:
    own = select(events.c.seq).where(events.c.log_id == log_id).order_by(events.c.seq)
    seqs = connection.execute(own).scalars().all()
    return next(
        (expected for expected, seq in enumerate(seqs, 1) if seq != expected), len(seqs) + 1
    )


def _problems(connection: Connection) -> tuple[str, ...]:
    if connection.dialect.name != "sqlite":
        return ()
    lines = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return tuple(str(line) for line in lines if line != _SOUND)


def _sizes(connection: Connection) -> tuple[int, ...]:
    return tuple(
        connection.execute(select(func.count()).select_from(table)).scalar_one()
        for table in (logs, events)
    )


_FINAL = [each.value for each in TaskStatus if each.is_final]
_STATUS = "{} {!r} has the status {!r}, which does not exist"
_GONE = "{} {!r} belongs to log {!r}, which does not exist"
_HALF = "{} {!r} has the status {}, which contradicts its end"
_ELSEWHERE = "{} {!r} is listed as event {} of log {!r}, which belongs to another task"
_EMPTY = "log {!r} has no events"
_BACK = "log {!r} was held, and its epoch went back to {}"
_Checks = Iterator[tuple[str, Select[Any]]]


async def mismatched_rows(database: Database) -> Sequence[str]:
    """Return rows of lists that do not match their logs; `doctor --rebuild` repairs them."""
    return await database.read(partial(_messages, list(_of_lists())))


async def damaged_logs(database: Database) -> Sequence[str]:
    """Return logs whose own row is damaged; only a copy of the database repairs them."""
    return await database.read(partial(_messages, list(_of_logs())))


def _messages(checks: Sequence[tuple[str, Select[Any]]], connection: Connection) -> list[str]:
    """Return a sentence for each row that a check finds, for a few rows per check."""
    return [
        message.format(*row)
        for message, statement in checks
        for row in connection.execute(statement.limit(MAX_NAMED))
    ]


def _of_lists() -> _Checks:
    known = select(logs.c.log_id)
    for name, key, log_id in (
        ("task", tasks.c.task_id, tasks.c.log_id),
        ("question", questions.c.question_id, questions.c.log_id),
        ("conversation", sessions.c.session_id, sessions.c.session_id),
    ):
        yield _GONE, select(literal(name), key, log_id).where(log_id.not_in(known))
    for name, key, status, statuses in (
        ("task", tasks.c.task_id, tasks.c.status, TaskStatus),
        ("question", questions.c.question_id, questions.c.status, QuestionStatus),
    ):
        valid = [each.value for each in statuses]
        yield _STATUS, select(literal(name), key, status).where(status.not_in(valid))
    is_final, has_end = tasks.c.status.in_(_FINAL), tasks.c.ended_seq.is_not(None)
    halves = or_(and_(is_final, ~has_end), and_(~is_final, has_end))
    yield _HALF, select(literal("task"), tasks.c.task_id, tasks.c.status).where(halves)
    for name, key, seq in (
        ("the beginning of task", tasks.c.task_id, tasks.c.first_seq),
        ("the end of task", tasks.c.task_id, tasks.c.ended_seq),
        ("question", questions.c.question_id, questions.c.asked_seq),
    ):
        table = key.table.c
        place = and_(events.c.log_id == table.log_id, events.c.seq == seq)
        is_other = or_(events.c.task_id.is_(None), events.c.task_id != table.task_id)
        named = select(literal(name), key, seq, table.log_id)
        yield _ELSEWHERE, named.join_from(key.table, events, place).where(is_other)


def _of_logs() -> _Checks:
    """Yield checks for logs without events, and for held logs without an epoch.

    An epoch that went back but stayed above 0 is not found: events do not contain their epoch.
    """
    has_events = select(events.c.seq).where(events.c.log_id == logs.c.log_id).exists()
    yield _EMPTY, select(logs.c.log_id).where(logs.c.head <= 0, ~has_events)
    was_held = or_(logs.c.owner.is_not(None), logs.c.head > logs.c.outside)
    yield _BACK, select(logs.c.log_id, logs.c.epoch).where(logs.c.epoch < 1, was_held)


_MAX_IDS = 500
"""Ids in one statement."""


class Rebuilt(Struct, frozen=True):
    """The result of a rebuild."""

    logs: int
    left: tuple[str, ...]
    """An error for each log that cannot be read; its list rows stay unchanged."""


async def rebuild(database: Database, log: Log) -> Rebuilt:
    """Replace the rows of tasks, sessions and questions by what the logs contain.

    Each log is one transaction, so readers never see half of it, and tasks may run meanwhile. The
    rows of a log that cannot be read stay unchanged.
    """
    projections = ProjectionWriter(Statements(database.dialect), database.limits)
    log_ids = await database.read(lambda each: each.execute(select(logs.c.log_id)).scalars().all())
    # the next fold writes them again: a rebuild trusts nothing that was derived before
    await database.write(drop_snapshots)
    left: list[str] = []
    for log_id in log_ids:
        try:
            # the log is read outside of the transaction, which fails if events came meanwhile
            while not await _try_one(database, log, LogId(log_id), projections):
                pass
        except StoreCorrupt as error:
            left.append(str(error))
    await database.write(_drop_orphans)
    return Rebuilt(len(log_ids) - len(left), tuple(left))


async def _try_one(
    database: Database, log: Log, log_id: LogId, projections: ProjectionWriter
) -> bool:
    """Rebuild the rows of one log. Return False if the log grew meanwhile. Raises StoreCorrupt."""
    records = await log.read(log_id)
    unit = partial(_again, projections, log_id, records)
    return await database.write(unit, order=log_id)


def _again(
    projections: ProjectionWriter, log_id: LogId, records: Sequence[Record], connection: Connection
) -> bool:
    """Replace the rows of one log. Return False if the log grew since it was read."""
    own = sorted(_ids_of(log_id, records))
    head = connection.execute(select(logs.c.head).where(logs.c.log_id == log_id)).scalar()
    if head is None:
        return True
    if head < len(records):
        raise _damaged(log_id, len(records), head)
    if head > len(records):
        return False
    # by log and by id: a damaged row may name another log, and would block its correct twin
    for key in (tasks.c.task_id, questions.c.question_id):
        table = key.table
        connection.execute(delete(table).where(table.c.log_id == log_id))
        for start in range(0, len(own), _MAX_IDS):
            connection.execute(delete(table).where(key.in_(own[start : start + _MAX_IDS])))
    connection.execute(delete(sessions).where(sessions.c.session_id == log_id))
    cursor = connection.connection.cursor()
    for record in records:
        if type(record.event) in HAVE_CONSEQUENCES:
            projections.follow(cursor, record)
    return True


def _ids_of(log_id: LogId, records: Sequence[Record]) -> set[str]:
    """Return the ids of the tasks, questions and the session that start in a log.

    Raises StoreCorrupt if one starts twice: a list can contain it only once.
    """
    seen: set[str] = set()
    for record in records:
        match record.event:
            case MessageReceived() | CallRequested() | FlowRequested():
                name = str(record.task_id)
            case QuestionAsked(question=question):
                name = question.question_id
            case SessionOpened():
                name = log_id
            case _:
                continue
        if name in seen:
            raise StoreCorrupt(
                f"event {record.seq} of log {log_id!r} starts {name!r} a second time. "
                f"{advice(log_id)}",
                details={"log": log_id, "event": record.seq},
            )
        seen.add(name)
    return seen


def _damaged(log_id: LogId, count: int, head: int) -> StoreCorrupt:
    return StoreCorrupt(
        f"log {log_id!r} has {count} events in place of {head}. {advice(log_id)}",
        details={"log": log_id},
    )


def _drop_orphans(connection: Connection) -> None:
    """Delete the list rows of logs that do not exist."""
    known = select(logs.c.log_id)
    for column in (tasks.c.log_id, questions.c.log_id, sessions.c.session_id):
        connection.execute(delete(column.table).where(column.not_in(known)))
