"""Penstock, a long conversation that is not in memory: what its next message waits for."""

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice

from sqlalchemy import Connection

from bench.own.fold import begin, end, first_event, task_entries
from penstock.core.clock import Moment
from penstock.core.events.events import Entry, MessageReceived, Record, SessionOpened
from penstock.core.events.history_events import Summarised
from penstock.core.ids import LogId, MessageId, TaskId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL
from penstock.store.database import open_database
from penstock.store.logs.log_units import drafts_of, insert_all, placed
from penstock.store.projections import HAVE_CONSEQUENCES, ProjectionWriter
from penstock.store.statements import Statements
from penstock.store.tables import logs

DISTRIBUTION = "penstock"
SHORTENED_EVERY = 100
"""Tasks between two events that shorten what a model reads: a window of about 30,000 tokens."""
KEPT_TASKS = 10
_PAGE = 20_000
"""Events in one transaction."""


async def fill(directory: str, events: int, url: str | None = None) -> str:
    """Write a conversation so long, as tasks with calls, and its list rows; return its name."""
    await end(await begin(directory, url))  # creates the project
    database = await open_database(url or f"sqlite:///{directory}/.penstock/penstock.db")
    log_id, seq, rest = LogId(f"conv_{events}"), 0, _entries(events)
    while page := list(islice(rest, _PAGE)):
        await database.write(partial(_write, log_id, seq, page), order=log_id)
        seq += len(page)
    await database.close()
    return log_id


async def first_events(directory: str, name: str, url: str | None = None) -> tuple[float, float]:
    """Return the seconds until the first event in a new conversation, and then in this one."""
    context = await begin(directory, url)  # nothing of any log is in memory
    try:
        await first_event(context, None)
        new = await first_event(context, None)
        return new, await first_event(context, name)
    finally:
        await end(context)


def _entries(events: int) -> Iterator[Entry]:
    yield Entry(SessionOpened(profile_id=LOCAL, agent="bench", title="A long conversation"))
    count, number, read = 1, 0, list[TaskId]()
    while count < events:
        task_id = TaskId(f"task_{events}_{number}")
        message = MessageReceived(message_id=MessageId(f"msg_{number}"), content=f"go {number}")
        entries = [Entry(message, task_id), *task_entries(number, task_id)]
        if len(read) >= SHORTENED_EVERY:
            gone, read = tuple(read[:-KEPT_TASKS]), read[-KEPT_TASKS:]
            entries.insert(2, Entry(Summarised(tasks=gone), task_id))
        read.append(task_id)
        yield from entries
        count, number = count + len(entries), number + 1


def _write(log_id: LogId, seq: int, entries: list[Entry], connection: Connection) -> None:
    """Insert events as holders and senders would have written them, only many at once."""
    cursor = connection.connection.cursor()
    sql, at = Statements(connection.dialect.name), Moment(int(time.time() * 1000))
    projections = ProjectionWriter(sql, Limits())
    if seq == 0:
        cursor.execute(sql.open_log, (log_id, LOCAL, "bench", 0, 0))
    insert_all(cursor, sql.insert, placed(log_id, seq + 1, drafts_of(entries, at)))
    for number, entry in enumerate(entries, seq + 1):
        if type(entry.event) in HAVE_CONSEQUENCES:
            record = Record(log_id, number, at, entry.task_id, entry.path, entry.event)
            projections.follow(cursor, record)
    outside = sum(type(each.event) in (MessageReceived, SessionOpened) for each in entries)
    count = {"head": logs.c.head + len(entries), "outside": logs.c.outside + outside}
    own = logs.update().where(logs.c.log_id == log_id)
    connection.execute(own.values(count | {"needs_run": 0, "epoch": 1}))
