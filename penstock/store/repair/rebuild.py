"""Makes the projections again from the logs, when they are in doubt."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection, delete, select

from penstock.core.errors import StoreCorrupt
from penstock.core.events.events import (
    CallRequested,
    MessageReceived,
    QuestionAsked,
    Record,
    SessionOpened,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId
from penstock.store.database import Database
from penstock.store.logs.log import Log
from penstock.store.projections.projection_writer import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.rows import advice
from penstock.store.statements import Statements, cursor_of
from penstock.store.tables import logs, questions, sessions, tasks

_NAMED_AT_ONCE = 500
"""Names in one statement."""


class Rebuilt(Struct, frozen=True):
    """What was made again, and what was not."""

    logs: int
    left: tuple[str, ...]
    """Of each log that does not read back, what is wrong with it."""


async def rebuild(database: Database, log: Log) -> Rebuilt:
    """Delete tasks, sessions and questions and make them again.

    Each log is done in one transaction, so that nobody sees half of it; logs may be at work. What
    follows from a log that does not read back is left as it is.
    """
    projections = ProjectionWriter(Statements(database.dialect), database.limits)
    log_ids = await database.read(lambda each: each.execute(select(logs.c.log_id)).scalars().all())
    left: list[str] = []
    for log_id in log_ids:
        try:
            while not await _try_one(database, log, LogId(log_id), projections):
                pass
        except StoreCorrupt as error:
            left.append(str(error))
    await database.write(_drop_orphans)
    return Rebuilt(len(log_ids) - len(left), tuple(left))


async def _try_one(
    database: Database, log: Log, log_id: LogId, projections: ProjectionWriter
) -> bool:
    """Do one log; False: something was written meanwhile. Raises StoreCorrupt."""
    records = await log.read(log_id)
    unit = partial(_again, projections, log_id, records)
    return await database.write(unit, order=log_id)


def _again(
    projections: ProjectionWriter, log_id: LogId, records: Sequence[Record], connection: Connection
) -> bool:
    """Do one log; False: something was written meanwhile.

    A row of a task or a question of this log goes whatever log it says that it is of.
    """
    own = sorted(_begun_once(log_id, records))
    head = connection.execute(select(logs.c.head).where(logs.c.log_id == log_id)).scalar()
    if head is None:
        return True
    if head < len(records):
        raise _damaged(log_id, len(records), head)
    if head > len(records):
        return False
    for key in (tasks.c.task_id, questions.c.question_id):
        table = key.table
        connection.execute(delete(table).where(table.c.log_id == log_id))
        for start in range(0, len(own), _NAMED_AT_ONCE):
            connection.execute(delete(table).where(key.in_(own[start : start + _NAMED_AT_ONCE])))
    connection.execute(delete(sessions).where(sessions.c.session_id == log_id))
    cursor = cursor_of(connection)
    for record in records:
        if type(record.event) in HAVE_CONSEQUENCES:
            projections.follow(cursor, record)
    return True


def _begun_once(log_id: LogId, records: Sequence[Record]) -> set[str]:
    """Return the tasks and questions that begin in a log, by name.

    Raises StoreCorrupt for one that begins twice: the lists hold it once.
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
                f"event {record.seq} of log {log_id!r} begins {name!r} a second time. "
                f"{advice(log_id)}",
                details={"log": log_id, "event": record.seq},
            )
        seen.add(name)
    return seen


def _damaged(log_id: LogId, found: int, wanted: int) -> StoreCorrupt:
    return StoreCorrupt(
        f"log {log_id!r} should have {wanted} events, and has {found}. {advice(log_id)}",
        details={"log": log_id},
    )


def _drop_orphans(connection: Connection) -> None:
    """Delete what follows from logs that are gone."""
    known = select(logs.c.log_id)
    for column in (tasks.c.log_id, questions.c.log_id, sessions.c.session_id):
        connection.execute(delete(column.table).where(column.not_in(known)))
