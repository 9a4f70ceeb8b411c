"""Deletes old conversations, calls and runs by the rules of the operator, in small steps.

Guarantees: nothing that is open is deleted: a log with a task that has not ended, an open question,
a lease, a pending run or a schedule, and a run whose caller has not ended. That is checked in the
transaction that deletes, so a message that arrives at the same time wins. What is deleted goes the
way of an erasure (`erasure.py`), with its state, files, blobs, list rows, runs and children.

How it works. A step looks at a limited number of logs in the order of their ids, and deletes at
most `step` of those that a rule matches; the place is kept between steps, so a round reads every
log once. The age of a log is that of its newest event. The caller pauses between two steps.

Proof: tests/store/upkeep/test_retention.py, tests/journeys/test_retention.py.
"""

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from penstock.core.clock import Clock, Moment
from penstock.core.events.child_events import CHILD
from penstock.core.ids import UNDO, LogId, TaskId
from penstock.core.task import FLOW, QuestionStatus
from penstock.store.database import Database
from penstock.store.erasure import Erasure
from penstock.store.references import waiter_of
from penstock.store.tables import events, logs, questions, schedules, sessions, tasks
from penstock.store.upkeep.rules import CALLS, CONVERSATIONS, DAY, RUNS, OldLog, RetentionRule

_KINDS = {"message": CONVERSATIONS, "call": CALLS, FLOW: RUNS, CHILD: CALLS}
"""Logs by the kind of their task. A child goes with its parent, and a retry of a child has none."""
_COMPLETED = "completed"
"""The status of a schedule that was due once and fires no more."""
_LOOKED = 500
"""Logs that one step looks at."""


class Retention:
    """Finds and deletes the logs that the rules match."""

    def __init__(
        self, database: Database, erasure: Erasure, clock: Clock, rules: Sequence[RetentionRule]
    ) -> None:
        self._database = database
        self._erasure = erasure
        self._clock = clock
        self._rules = rules
        # a younger log matches no rule, so it is not looked at
        self._youngest = min((each.days for each in rules), default=0.0)

    async def due(self) -> AsyncGenerator[OldLog, None]:
        """Yield every log that a rule matches now, in the order of ids. Deletes nothing."""
        place: LogId | None = LogId("")
        while place is not None and self._rules:
            found, place = await self._look(place)
            for log in found:
                yield log

    async def steps(self, size: int) -> AsyncGenerator[Sequence[OldLog], None]:
        """Delete the matching logs, at most `size` before each yield. Raises StoreError."""
        place: LogId | None = LogId("")
        while place is not None and self._rules:
            found, place = await self._look(place)
            for start in range(0, len(found), size):
                yield [each for each in found[start : start + size] if await self._delete(each)]

    async def _delete(self, log: OldLog) -> bool:
        kept = partial(_is_kept, log)
        return log.log_id in await self._erasure.collect(log.log_id, kept)

    async def _look(self, place: LogId) -> tuple[list[OldLog], LogId | None]:
        """Return the matching logs among the next ones, and the place of the last one."""
        now = self._clock.now()
        oldest = Moment(int(now - self._youngest * DAY))
        found, place_after = await self._database.read(partial(_old_logs, place, oldest))
        matching = [log for log in found if any(each.matches(log, now) for each in self._rules)]
        return matching, place_after


def _old_logs(
    place: LogId, oldest: Moment, connection: Connection
) -> tuple[list[OldLog], LogId | None]:
    """Return the closed logs among the next ones after a place, and the last of them, if any."""
    following = select(logs.c.log_id, logs.c.head).where(logs.c.log_id > place)
    rows = connection.execute(following.order_by(logs.c.log_id).limit(_LOOKED)).all()
    if not rows:
        return [], None
    some = [row.log_id for row in rows]
    newest = select(logs.c.log_id, events.c.at).join(
        events, and_(events.c.log_id == logs.c.log_id, events.c.seq == logs.c.head)
    )
    old = newest.where(logs.c.log_id.in_(some), events.c.at <= oldest).order_by(logs.c.log_id)
    found = []
    for log_id, at in connection.execute(old).all():
        log = None if is_open(log_id, connection) else _described(log_id, at, connection)
        if log is not None:
            found.append(log)
    return found, some[-1]


def _described(log_id: LogId, at: Moment, connection: Connection) -> OldLog | None:
    """Return the log as the rules see it; None for one of a kind that they do not name.

    An undo goes with the task that it undid: without it the calls could be taken back again.
    """
    if log_id.startswith(f"{UNDO}_"):
        return None
    columns = (tasks.c.kind, tasks.c.status, tasks.c.agent)
    rows = connection.execute(select(*columns).where(tasks.c.log_id == log_id)).all()
    opened = select(sessions.c.agent).where(sessions.c.session_id == log_id)
    agent = connection.execute(opened).scalar()
    of = CONVERSATIONS if agent is not None else _KINDS.get(rows[0].kind if rows else "")
    if of is None or (rows and rows[0].kind == CHILD and _has_parent(log_id, connection)):
        return None
    return OldLog(
        log_id=log_id,
        of=of,
        agent=agent if agent is not None else rows[0].agent,
        at=at,
        status=frozenset(row.status for row in rows),
    )


def _has_parent(log_id: LogId, connection: Connection) -> bool:
    """Whether the task that requested a child is in the database."""
    above = tasks.alias()
    is_parent = above.c.task_id == tasks.c.parent_id
    statement = select(above.c.task_id).join_from(tasks, above, is_parent)
    return connection.execute(statement.where(tasks.c.log_id == log_id)).first() is not None


def _is_kept(expected: OldLog, log_id: LogId, connection: Connection) -> bool:
    """Whether a log must stay: it is open, or it is the chosen one and has grown since then."""
    if log_id != expected.log_id:
        return is_open(log_id, connection, is_waited_for=False)
    newest = select(events.c.at).join(
        logs, and_(events.c.log_id == logs.c.log_id, events.c.seq == logs.c.head)
    )
    at = connection.execute(newest.where(logs.c.log_id == log_id)).scalar()
    return at != expected.at or is_open(log_id, connection)


def is_open(log_id: LogId, connection: Connection, *, is_waited_for: bool = True) -> bool:
    """Whether a log has an open task or question, a lease, a pending run, a plan or a caller.

    With `is_waited_for=False` the caller is not looked at: it is deleted together with its runs.
    """
    held = or_(logs.c.owner.is_not(None), logs.c.needs_run != 0)
    is_planned = schedules.c.status != _COMPLETED
    is_asked = questions.c.status == QuestionStatus.OPEN.value
    for statement in (
        select(logs.c.log_id).where(logs.c.log_id == log_id, held),
        select(tasks.c.task_id).where(tasks.c.log_id == log_id, tasks.c.ended_seq.is_(None)),
        select(questions.c.question_id).where(questions.c.log_id == log_id, is_asked),
        select(schedules.c.schedule_id).where(schedules.c.session_id == log_id, is_planned),
    ):
        if connection.execute(statement.limit(1)).first() is not None:
            return True
    return is_waited_for and (
        _has_open_parent(log_id, connection) or _has_open_caller(log_id, connection)
    )


def _has_open_parent(log_id: LogId, connection: Connection) -> bool:
    """Whether the task that requested a child, or the root of its tree, has not ended."""
    above = tasks.alias()
    is_above = or_(above.c.task_id == tasks.c.parent_id, above.c.task_id == tasks.c.root_id)
    statement = select(above.c.task_id).join_from(tasks, above, is_above)
    unfinished = statement.where(tasks.c.log_id == log_id, above.c.ended_seq.is_(None))
    return connection.execute(unfinished.limit(1)).first() is not None


def _has_open_caller(log_id: LogId, connection: Connection) -> bool:
    """Whether a call of a task that has not ended started the run of this log."""
    first = select(events.c.kind, events.c.body, events.c.blob_id)
    row: Any = connection.execute(first.where(events.c.log_id == log_id, events.c.seq == 1)).first()
    if row is None:
        return False
    if row.blob_id is not None:
        # a unit cannot read blobs: the run of an unknown caller stays until the caller ended
        profile = select(logs.c.profile_id).where(logs.c.log_id == log_id).scalar_subquery()
        unfinished = select(tasks.c.task_id).where(
            tasks.c.profile_id == profile, tasks.c.ended_seq.is_(None)
        )
        return connection.execute(unfinished.limit(1)).first() is not None
    waiting: TaskId | None = waiter_of(row.kind, row.body)[1]
    if waiting is None:
        return False
    caller = select(tasks.c.task_id).where(tasks.c.task_id == waiting, tasks.c.ended_seq.is_(None))
    return connection.execute(caller).first() is not None
