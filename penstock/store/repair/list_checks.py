"""Whether the lists of tasks, conversations and questions fit the logs they are made from.

Every check is one statement over the whole database, and names a few rows. `rebuild` mends what is
found, unless it is the log itself that is damaged. Proof: tests/store/repair/test_list_checks.py.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, and_, literal, or_, select

from penstock.core.task import QuestionStatus, TaskStatus
from penstock.store.database import Database
from penstock.store.tables import events, logs, questions, sessions, tasks

MOST_NAMED = 20
_FINAL = [each.value for each in TaskStatus if each.is_final]
_STATUS = "{} {!r} has the status {!r}, which there is not"
_GONE = "{} {!r} is of log {!r}, which is not there"
_HALF = "{} {!r} is {}, and whether it has ended is listed otherwise"
_ELSEWHERE = "{} {!r} is event {} of log {!r} in the lists, and that is of something else"
_EMPTY = "log {!r} has no events"
_BACK = "log {!r} was held, and its epoch went back to {}"
_Checks = Iterator[tuple[str, Select[Any]]]


async def unfit_rows(database: Database) -> Sequence[str]:
    """Return what lists say that their logs do not: `doctor --rebuild` mends it."""
    return await database.read(partial(_found, list(_of_lists())))


async def odd_logs(database: Database) -> Sequence[str]:
    """Return logs whose own row cannot be right: only a copy of the database mends that."""
    return await database.read(partial(_found, list(_of_logs())))


def _found(checks: Sequence[tuple[str, Select[Any]]], connection: Connection) -> list[str]:
    """Return a sentence for each row of the first few that each check finds."""
    return [
        said.format(*row)
        for said, wanted in checks
        for row in connection.execute(wanted.limit(MOST_NAMED))
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
        there_are = [each.value for each in statuses]
        yield _STATUS, select(literal(name), key, status).where(status.not_in(there_are))
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
    """Yield checks for logs without events, and for logs with an epoch from before they were held.

    Only an epoch below 1 shows: an event does not say under which epoch it was written.
    """
    has_events = select(events.c.seq).where(events.c.log_id == logs.c.log_id).exists()
    yield _EMPTY, select(logs.c.log_id).where(logs.c.head <= 0, ~has_events)
    was_held = or_(logs.c.owner.is_not(None), logs.c.head > logs.c.outside)
    yield _BACK, select(logs.c.log_id, logs.c.epoch).where(logs.c.epoch < 1, was_held)
