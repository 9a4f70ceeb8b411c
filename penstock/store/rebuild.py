"""Makes the projections again from the logs, when they are in doubt."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, delete, select

from penstock.core.events import Record
from penstock.core.ids import LogId
from penstock.store.database import Database
from penstock.store.log import Log
from penstock.store.projection_writer import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.statements import Statements, cursor_of
from penstock.store.tables import logs, questions, sessions, tasks


async def rebuild(database: Database, log: Log) -> int:
    """Delete tasks, sessions and questions and make them again; returns how many logs there are.

    Each log is done in one transaction, so that nobody sees half of it; logs may be at work.
    """
    consequences = ProjectionWriter(Statements(database.dialect), database.limits)
    log_ids = await database.read(lambda each: each.execute(select(logs.c.log_id)).scalars().all())
    for log_id in log_ids:
        done = False
        while not done:
            unit = partial(_again, consequences, log_id, await log.read(LogId(log_id)))
            done = await database.write(unit, order=log_id)
    await database.write(_drop_orphans)
    return len(log_ids)


def _again(
    consequences: ProjectionWriter, log_id: LogId, records: Sequence[Record], connection: Connection
) -> bool:
    """Do one log; False: something was written meanwhile."""
    head = connection.execute(select(logs.c.head).where(logs.c.log_id == log_id)).scalar()
    if head != (records[-1].seq if records else None):
        return head is None
    for table in (tasks, questions):
        connection.execute(delete(table).where(table.c.log_id == log_id))
    connection.execute(delete(sessions).where(sessions.c.session_id == log_id))
    cursor = cursor_of(connection)
    for record in records:
        if type(record.event) in HAVE_CONSEQUENCES:
            consequences.follow(cursor, record)
    return True


def _drop_orphans(connection: Connection) -> None:
    """Delete what follows from logs that are gone."""
    known = select(logs.c.log_id)
    for column in (tasks.c.log_id, questions.c.log_id, sessions.c.session_id):
        connection.execute(delete(column.table).where(column.not_in(known)))
