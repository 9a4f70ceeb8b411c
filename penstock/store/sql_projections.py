"""Reads the lists of tasks, sessions and questions from their tables.

Guarantees: a damaged row or log hides no other entry of a list. A page costs the same wherever it
is, apart from skipping index entries. How it works. The rows refer to events by number; an outcome,
a question or an answer is decoded from its event, so lists store no text twice.

Proof: tests/store/test_sql_projections.py, tests/contracts/test_projections.py.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, bindparam, func, select

from penstock.core.clock import Moment
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import StoreCorrupt
from penstock.core.events.codec import to_wire
from penstock.core.events.events import Event, QuestionAnswered, QuestionAsked, TaskEnded
from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.task import (
    Missing,
    MissingKind,
    QuestionRecord,
    QuestionStatus,
    SessionRecord,
    TaskRecord,
    TaskStatus,
)
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.projections import ALL_TASKS, NO_PARENT, Page, SessionSort, TasksOf, plain
from penstock.store.rows import (
    REBUILD,
    EventRows,
    check_columns,
    is_number,
    missing,
    moment_or_first,
)
from penstock.store.tables import events, questions, sessions, tasks

log = logging.getLogger(__name__)

_Record = TypeVar("_Record")
_Status = TypeVar("_Status", bound=StrEnum)


def _columns(name: str) -> list[ColumnElement[Any]]:
    """Return the columns of the event that a row refers to by `{name}_seq`."""
    event = _EVENTS[name]
    return [event.c[each].label(f"{name}_{each}") for each in ("kind", "body", "blob_id")]


def _is(name: str, table: Table) -> ColumnElement[bool]:
    event = _EVENTS[name]
    return and_(event.c.log_id == table.c.log_id, event.c.seq == table.c[f"{name}_seq"])


_EVENTS = {name: events.alias(name) for name in ("asked", "answered", "ended")}
_TASKS = select(tasks, *_columns("ended")).outerjoin(_EVENTS["ended"], _is("ended", tasks))
_BY_TIME: tuple[ColumnElement[Any], ...]
_BY_TIME = (tasks.c.created_at, tasks.c.first_seq, tasks.c.task_id)
_IN_LOG = (tasks.c.first_seq, tasks.c.task_id)

_status_of = select(tasks.c.status).where(tasks.c.log_id == sessions.c.session_id)
_newest_status = _status_of.order_by(tasks.c.first_seq.desc()).limit(1)
_PLACE_IN_HAND = tasks.c.first_seq + 0
"""Orders tasks that have not ended. By the column itself, SQLite would read every task that the log
ever had in the order of that index, in place of the few in the index `tasks_in_hand`."""
_OWNER = tasks.c.profile_id + ""
"""Filters the tasks of a tree. By the column itself, SQLite would read all tasks of the profile."""


def _open_in(log_id: Any) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for tasks of a log that have not ended.

    A range, because SQLite weighs the index of all tasks like `tasks_in_hand` for an equal value.
    """
    return tasks.c.log_id.between(log_id, log_id), tasks.c.ended_seq.is_(None)


_open_status = select(tasks.c.status).where(*_open_in(sessions.c.session_id))
_in_hand = _open_status.order_by(_PLACE_IN_HAND.desc()).limit(1)
_SESSIONS = select(
    sessions,
    func.coalesce(_in_hand.scalar_subquery(), _newest_status.scalar_subquery()).label("status"),
)

_QUESTIONS = (
    select(questions, *_columns("asked"), *_columns("answered"))
    .outerjoin(_EVENTS["asked"], _is("asked", questions))
    .outerjoin(_EVENTS["answered"], _is("answered", questions))
)
_OLDEST_QUESTION = (questions.c.asked_at, questions.c.asked_seq, questions.c.question_id)

_TASK_COLUMNS = {
    "moments": ("created_at", "started_at", "ended_at"),
    "numbers": ("first_seq", "started_seq", "ended_seq"),
    "texts": (
        *("task_id", "log_id", "kind", "status", "profile_id", "agent", "blocked_on"),
        *("parent_id", "root_id", "title", "task_key", "worker_kind", "batch_id"),
    ),
}
_QUESTION_COLUMNS = {
    "moments": ("asked_at", "answered_at"),
    "numbers": ("asked_seq", "answered_seq"),
    "texts": ("question_id", "log_id", "task_id", "profile_id", "agent", "status", "answered_by"),
}

# built once: building a statement for each lookup takes three times as long as executing it
_FIND_TASK = _TASKS.where(tasks.c.task_id == bindparam("task_id"))
_newest_start = (
    select(events.c.task_id)
    .where(events.c.log_id == bindparam("log_id"), events.c.seq <= bindparam("seq"))
    .where(events.c.kind == "task_started")
    .order_by(events.c.seq.desc())
    .limit(1)
)
_TASK_AT = _TASKS.where(tasks.c.task_id == _newest_start.scalar_subquery())
_FIND_SESSION = _SESSIONS.where(sessions.c.session_id == bindparam("session_id"))
_FIND_QUESTION = _QUESTIONS.where(questions.c.question_id == bindparam("question_id"))
_OPEN_QUESTIONS = _QUESTIONS.where(
    questions.c.log_id == bindparam("log_id"), questions.c.status == QuestionStatus.OPEN.value
).order_by(*_OLDEST_QUESTION)


class SqlProjections:
    """The lists of tasks, sessions and questions in a database."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._rows = EventRows(blobs)
        title = func.lower(sessions.c.title)
        self._title = title.collate("C") if database.dialect == "postgresql" else title
        """By code points, so that both databases sort alike; Postgres would use its own locale."""

    async def find_task(self, task_id: TaskId) -> TaskRecord | None:
        """Return the task."""
        row = await self._first(_FIND_TASK, task_id=task_id)
        return None if row is None else await self._task(row)

    async def tasks(
        self,
        *,
        log_id: LogId | None = None,
        profile_id: ProfileId | None = None,
        of: TasksOf = ALL_TASKS,
        page: Page,
    ) -> tuple[Sequence[TaskRecord], int]:
        """Return tasks by the time of their request, usually newest first."""
        conditions = _equal(
            (_OWNER if of.root_id or of.parent_id else tasks.c.profile_id, profile_id),
            (tasks.c.kind, of.kind),
            (tasks.c.agent, of.agent),
            (tasks.c.status, of.status),
            (tasks.c.parent_id, of.parent_id or None),
            (tasks.c.root_id, of.root_id),
        )
        conditions += _within(of)
        columns = _BY_TIME if log_id is None else _IN_LOG
        if log_id is not None and of.status is not None and not of.status.is_final:
            conditions += _open_in(log_id)
            columns = (_PLACE_IN_HAND, tasks.c.task_id)
        elif log_id is not None:
            conditions.append(tasks.c.log_id == log_id)
        order = _ordered(page, *columns, usually=True)
        rows, total = await self._page(_TASKS, conditions, order, page)
        return await self._readable(rows, self._listed_task), total

    async def task_at(self, log_id: LogId, seq: int) -> TaskRecord | None:
        """Return the newest task that had started when this event was written."""
        row = await self._first(_TASK_AT, log_id=log_id, seq=seq)
        return None if row is None else await self._task(row)

    async def find_session(self, session_id: SessionId) -> SessionRecord | None:
        """Return the session."""
        row = await self._first(_FIND_SESSION, session_id=session_id)
        return None if row is None else _session(row)

    async def sessions(
        self,
        *,
        profile_id: ProfileId,
        agent: str | None = None,
        search: str = "",
        sort: SessionSort = SessionSort.UPDATED,
        page: Page,
    ) -> tuple[Sequence[SessionRecord], int]:
        """Return the sessions of a profile, usually newest first."""
        conditions = _equal((sessions.c.profile_id, profile_id), (sessions.c.agent, agent))
        if search:
            title = func.lower(sessions.c.title)
            conditions.append(title.contains(plain(search).lower(), autoescape=True))
        by = self._title if sort is SessionSort.TITLE else sessions.c[sort.value]
        usually = sort is not SessionSort.TITLE
        order = _ordered(page, by, sessions.c.session_id, usually=usually)
        rows, total = await self._page(_SESSIONS, conditions, order, page)
        return [_session(row) for row in rows], total

    async def find_question(self, question_id: QuestionId) -> QuestionRecord | None:
        """Return the question."""
        row = await self._first(_FIND_QUESTION, question_id=question_id)
        return None if row is None else await self._question(row)

    async def questions(
        self,
        *,
        profile_id: ProfileId | None = None,
        log_id: LogId | None = None,
        agent: str | None = None,
        status: QuestionStatus | None = None,
        page: Page,
    ) -> tuple[Sequence[QuestionRecord], int]:
        """Return questions by the time they were asked, usually oldest first."""
        conditions = _equal(
            (questions.c.profile_id, profile_id),
            (questions.c.log_id, log_id),
            (questions.c.agent, agent),
            (questions.c.status, None if status is None else status.value),
        )
        order = _ordered(page, *_OLDEST_QUESTION, usually=False)
        rows, total = await self._page(_QUESTIONS, conditions, order, page)
        return await self._readable(rows, self._question), total

    async def open_questions(
        self, log_id: LogId, task_id: TaskId | None = None
    ) -> Sequence[QuestionRecord]:
        """Return the open questions of a log, or of one of its tasks, oldest first."""
        key = {"log_id": log_id}
        rows = await self._database.read(lambda each: each.execute(_OPEN_QUESTIONS, key).all())
        return [await self._question(row) for row in rows if task_id in {None, row.task_id}]

    async def _first(self, statement: Select[Any], **key: str | int) -> Row[Any] | None:
        return await self._database.read(lambda each: each.execute(statement, key).first())

    async def _page(
        self,
        statement: Select[Any],
        conditions: list[ColumnElement[bool]],
        order: list[ColumnElement[Any]],
        page: Page,
    ) -> tuple[Sequence[Row[Any]], int]:
        """Return the rows of a page, and the total count. The first column must be the id."""
        identity = statement.selected_columns[0]
        # ids first: the rows before the page are skipped in the index, without joining their events
        ids = select(identity).where(*conditions).order_by(*order)
        of_page = ids.limit(page.limit).offset(page.offset).correlate(None)
        part = statement.where(identity.in_(of_page)).order_by(*order)
        count = select(func.count()).select_from(identity.table).where(*conditions)

        def unit(connection: Connection) -> tuple[Sequence[Row[Any]], int]:
            return connection.execute(part).all(), connection.execute(count).scalar_one()

        return await self._database.read(unit)

    async def _readable(
        self, rows: Sequence[Row[Any]], record: Callable[[Row[Any]], Awaitable[_Record]]
    ) -> list[_Record]:
        """Return the entries of a page that can be read: one damaged log must not hide others."""
        records: list[_Record] = []
        for row in rows:
            try:
                records.append(await record(row))
            except StoreCorrupt as error:
                log.warning("a list skips an entry that cannot be read: %s", error)
        return records

    async def _listed_task(self, row: Row[Any]) -> TaskRecord:
        """Return a task even if its outcome cannot be read; the outcome is then that error."""
        try:
            return await self._task(row)
        except StoreCorrupt as error:
            return await self._task(row, unreadable=error)

    async def _event(self, row: Row[Any], name: str) -> Event | None:
        """Return the event that a row refers to; None if it does not exist yet."""
        seq, kind, body, blob_id = (
            getattr(row, f"{name}_{part}") for part in ("seq", "kind", "body", "blob_id")
        )
        if seq is None:
            return None
        if kind is None:
            raise missing(row.log_id, seq)
        stored = (seq, Moment(0), None, None, kind, body, blob_id)
        return (await self._rows.records(row.log_id, [stored]))[0].event

    async def _task(self, row: Row[Any], *, unreadable: StoreCorrupt | None = None) -> TaskRecord:
        """Return a task, with the error of an unreadable outcome in place of the outcome."""
        check_columns(row, **_TASK_COLUMNS)
        status = _status(TaskStatus, row.status, row.task_id)
        ended: Event | None
        if unreadable is None:
            ended = await self._event(row, "ended")
        else:
            code, message = StoreCorrupt.code, str(unreadable)
            detail = ErrorDetail(code=code, message=message, continuable=False)
            ended = TaskEnded(status=status, error=detail)
        return TaskRecord(
            task_id=row.task_id,
            log_id=row.log_id,
            kind=row.kind,
            status=status,
            profile_id=row.profile_id,
            agent=row.agent,
            created_at=row.created_at,
            first_seq=row.first_seq,
            started_seq=row.started_seq,
            started_at=row.started_at,
            ended_at=row.ended_at,
            ended_seq=row.ended_seq,
            outcome=None if ended is None else to_wire(ended),
            schedule_id=row.schedule_id,
            blocked_on=_missing(row) if row.status == TaskStatus.BLOCKED else (),
            parent_id=row.parent_id,
            root_id=row.root_id,
            title=row.title or "",
            task_key=row.task_key or "",
            worker_kind=row.worker_kind or "",
            batch_id=row.batch_id or "",
        )

    async def _question(self, row: Row[Any]) -> QuestionRecord:
        check_columns(row, **_QUESTION_COLUMNS)
        asked = await self._event(row, "asked")
        if not isinstance(asked, QuestionAsked):
            raise StoreCorrupt(f"event {row.asked_seq} of log {row.log_id!r} is not a question")
        answered = await self._event(row, "answered")
        return QuestionRecord(
            question=asked.question,
            log_id=row.log_id,
            task_id=row.task_id,
            profile_id=row.profile_id,
            agent=row.agent,
            asked_at=row.asked_at,
            status=_status(QuestionStatus, row.status, row.question_id),
            answered_at=row.answered_at,
            answered_by=row.answered_by,
            answer=answered.answer if isinstance(answered, QuestionAnswered) else None,
        )


def _status(statuses: type[_Status], stored: str, whose: str) -> _Status:
    try:
        return statuses(stored)
    except ValueError as error:
        raise StoreCorrupt(
            f"{whose!r} has the status {stored!r}, which does not exist. {REBUILD}"
        ) from error


def _missing(row: Row[Any]) -> tuple[Missing, ...]:
    try:
        missing_things = parse_json(row.blocked_on or "[]")
        return tuple(Missing(MissingKind(each["kind"]), each["id"]) for each in missing_things)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorrupt(
            f"`blocked_on` of task {row.task_id!r} cannot be read. {REBUILD}"
        ) from error


def _session(row: Row[Any]) -> SessionRecord:
    # an unknown status means a damaged list; the session is listed, so that it can be deleted
    known = row.status in set(TaskStatus)
    return SessionRecord(
        session_id=row.session_id,
        profile_id=row.profile_id,
        agent=row.agent,
        title=plain(row.title),
        created_at=moment_or_first(row.created_at),
        updated_at=moment_or_first(row.updated_at),
        message_count=row.message_count if is_number(row.message_count) else 0,
        status=TaskStatus(row.status) if known else None,
    )


def _ordered(page: Page, *columns: ColumnElement[Any], usually: bool) -> list[ColumnElement[Any]]:
    descends = page.descends(usually=usually)
    return [each.desc() if descends else each.asc() for each in columns]


def _within(of: TasksOf) -> list[ColumnElement[bool]]:
    """Return the conditions of a filter that are no equations."""
    conditions: list[ColumnElement[bool]] = []
    if of.statuses:
        conditions.append(tasks.c.status.in_([each.value for each in of.statuses]))
    if of.parent_id == NO_PARENT:
        conditions.append(tasks.c.parent_id.is_(None))
    if of.since is not None:
        conditions.append(tasks.c.created_at >= of.since)
    if of.until is not None:
        conditions.append(tasks.c.created_at < of.until)
    return conditions


def _equal(*pairs: tuple[ColumnElement[Any], Any]) -> list[ColumnElement[bool]]:
    return [column == value for column, value in pairs if value is not None]
