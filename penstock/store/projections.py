"""The lists of tasks, sessions and questions: the port that reads them, and their writer.

Guarantees: a list row is never older or newer than the log; an outside event that the log cannot
accept is refused before anything is written; of several answers to one question the first one wins;
one Idempotency-Key starts at most one task within `limits.idempotency_seconds`.

How it works. `admit` reads the lists and raises, `follow` updates them. Both run in the transaction
that writes the event, after the row of the log was locked (`logs/log_units.py`), so what `admit`
found cannot change before the commit. `repair.py` calls `follow` for each stored event, so the
lists contain nothing that the log does not.

Relies on: every event kind that changes a list is in `HAVE_CONSEQUENCES`; other kinds skip the
writer. Proof: tests/store/test_projections.py, tests/contracts/test_projections.py.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.clock import Moment
from penstock.core.errors import (
    AlreadyAnswered,
    IdempotencyConflict,
    NotFound,
    QuestionClosed,
    SessionBusy,
    TaskOver,
)
from penstock.core.events import events, history_events
from penstock.core.events.child_events import ChildRequested, TreeAsked, WaiterAdded
from penstock.core.events.events import Event, Record
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.events.schedule_events import NO_SCHEDULE, ScheduleFired
from penstock.core.ids import (
    LogId,
    ProfileId,
    QuestionId,
    SessionId,
    TaskId,
)
from penstock.core.json_values.json_text import without_surrogates
from penstock.core.limits import Limits
from penstock.core.task import (
    FLOW,
    QuestionRecord,
    QuestionStatus,
    SessionRecord,
    TaskRecord,
    TaskStatus,
    tasks_awaited,
)
from penstock.store.failures import queue_full, task_exists
from penstock.store.rows import blocked_on, child_row
from penstock.store.statements import Statements
from penstock.store.values.due_times import claim_due_time


class Page(Struct, frozen=True, kw_only=True):
    """The part of a list to return."""

    limit: int = 50
    offset: int = 0
    is_descending: bool | None = None
    """None means the usual direction of the list."""

    def descends(self, *, usually: bool) -> bool:
        """Whether the list is in descending order."""
        return usually if self.is_descending is None else self.is_descending


class SessionSort(StrEnum):
    """The order of sessions: newest first, or by title from A to Z."""

    UPDATED = "updated_at"
    CREATED = "created_at"
    TITLE = "title"


class TasksOf(Struct, frozen=True, kw_only=True):
    """A filter of tasks; None matches all."""

    kind: str | None = None
    """The kind, as in TaskRecord."""
    agent: str | None = None
    """The agent; for a run the command of its flow."""
    status: TaskStatus | None = None
    statuses: tuple[TaskStatus, ...] = ()
    """Any of these; empty matches all."""
    parent_id: TaskId | None = None
    """The parent; `NO_PARENT` matches tasks without one."""
    root_id: TaskId | None = None
    """The task at the top of their tree, which does not match itself."""
    since: Moment | None = None
    until: Moment | None = None
    """They were requested from `since` on, and before `until`."""


NO_PARENT = TaskId("")
ALL_TASKS = TasksOf()


class Projections(Protocol):
    """Lists of tasks, sessions and questions, derived from the logs.

    Contract: as new as the newest committed event. A list is returned with the total count. Equal
    entries are ordered by id, so pages of one order fit together. `find_…` returns None for an
    unknown id, and raises StoreCorrupt for an entry that cannot be read. A list skips such an entry
    but counts it; a task with an unreadable outcome is listed with an error as its outcome.
    """

    async def find_task(self, task_id: TaskId) -> TaskRecord | None:
        """Return the task."""
        ...

    async def tasks(
        self,
        *,
        log_id: LogId | None = None,
        profile_id: ProfileId | None = None,
        of: TasksOf = ALL_TASKS,
        page: Page,
    ) -> tuple[Sequence[TaskRecord], int]:
        """Return tasks by the time of their request, usually newest first."""
        ...

    async def task_at(self, log_id: LogId, seq: int) -> TaskRecord | None:
        """Return the newest task that had started when this event was written."""
        ...

    async def find_session(self, session_id: SessionId) -> SessionRecord | None:
        """Return the session."""
        ...

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
        ...

    async def find_question(self, question_id: QuestionId) -> QuestionRecord | None:
        """Return the question."""
        ...

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
        ...

    async def open_questions(
        self, log_id: LogId, task_id: TaskId | None = None
    ) -> Sequence[QuestionRecord]:
        """Return the open questions of a log, or of one of its tasks, oldest first."""
        ...


AT_WORK = "a message is being answered; cancel its task, or wait for its end"
SUPERSEDED = "this message was answered again or removed; read the conversation again"


Keyed = events.MessageReceived | events.CallRequested | FlowRequested | events.QuestionAnswered
"""The events that a request with an Idempotency-Key can become."""


class ProjectionWriter:
    """Admits outside events and updates the lists after any event."""

    def __init__(self, statements: Statements, limits: Limits) -> None:
        self._sql = statements
        self.limits = limits

    def admit(self, cursor: DBAPICursor, record: Record) -> None:
        """Raise if the log cannot accept the outside event; see `Log.send` for the errors."""
        match record.event:
            case events.MessageReceived() | events.CallRequested() | FlowRequested() as request:
                self._admit_task(cursor, record, request)
            case events.CancelRequested() | RunEnded() | WaiterAdded() | TreeAsked():
                self._admit_to_task(cursor, record)
            case ScheduleFired(schedule_id=found) if found != NO_SCHEDULE:
                claim_due_time(self._sql, cursor, record, record.event)
            case events.QuestionAnswered():
                self._admit_answer(cursor, record, record.event)
            case history_events.MessagesErased(of_task=task_id):
                self._find(cursor, self._sql.task_end, (task_id, record.log_id), "task")
            case _:
                pass

    def follow(self, cursor: DBAPICursor, record: Record) -> None:
        """Update the lists for an event that is being written, or is read during a rebuild."""
        match record.event:
            case events.SessionOpened(profile_id=profile_id, agent=agent, title=title):
                opened = (profile_id, agent, plain(title), record.at, record.at)
                cursor.execute(self._sql.add_session, (record.log_id, *opened))
            case events.MessageReceived() | events.CallRequested() | FlowRequested():
                self._queue(cursor, record, record.event)
            case ScheduleFired(schedule_id=found, due_at=due_at) if found != NO_SCHEDULE:
                cursor.execute(self._sql.note_schedule, (found, due_at, record.task_id))
            case ChildRequested() as child:
                cursor.execute(self._sql.add_child_task, child_row(record, child))
            case history_events.Erased():
                # a rebuild meets this in place of an erased message, whose task is still listed
                erased_task = (record.task_id, record.at, record.seq, record.log_id)
                cursor.execute(self._sql.add_erased_task, erased_task)
            case events.QuestionAsked() | events.QuestionAnswered():
                self._ask_or_answer(cursor, record, record.event)
            case events.CancelRequested():
                # closed before the holder receives the event: a later answer would have no effect
                cursor.execute(self._sql.cancel_task, (record.seq, record.task_id))
                closed = (record.at, record.log_id, record.task_id)
                cursor.execute(self._sql.close_questions, closed)
            case _:
                self._move(cursor, record)

    # ---- admission ----

    def _admit_task(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.MessageReceived | events.CallRequested | FlowRequested,
    ) -> None:
        cursor.execute(self._sql.queued, (record.task_id, record.log_id))
        known, queued = cursor.fetchone() or (None, 0)
        if known is not None:
            raise task_exists(record.task_id)
        if event.idempotency_key is not None:
            self._claim(cursor, record, event)
        if isinstance(event, events.MessageReceived) and event.supersedes is not None:
            self._admit_again(cursor, record, event.supersedes)
        if queued >= self.limits.queued_tasks:
            raise queue_full(record.log_id, queued)

    def _admit_again(self, cursor: DBAPICursor, record: Record, superseded: TaskId) -> None:
        """Refuse to answer a message again while a task is active, or if it left the history."""
        log_id = record.log_id
        cursor.execute(self._sql.superseding, (superseded, log_id, log_id))
        messages, still_open = cursor.fetchone() or (None, 0)
        if still_open:
            raise SessionBusy(AT_WORK)
        if not messages:
            raise SessionBusy(SUPERSEDED)

    def _claim(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: Keyed,
    ) -> None:
        """Claim the request's key, or raise IdempotencyConflict with the task that has it."""
        key, log_id, at = event.idempotency_key, record.log_id, record.at
        oldest = at - 1000 * self.limits.idempotency_seconds
        claim = (key, event.request_hash, record.task_id, at, log_id, oldest)
        cursor.execute(self._sql.claim, claim)
        if cursor.fetchone() is not None:
            cursor.execute(self._sql.forget_claims, (oldest,))  # delete all expired claims
            return
        cursor.execute(self._sql.claimed, (key, log_id))
        request_hash, first_log, task_id = cursor.fetchone() or (None, None, None)
        same = request_hash == event.request_hash
        details = {"task_id": task_id, "log_id": first_log, "same": same}
        raise IdempotencyConflict(details=details)

    def _admit_to_task(self, cursor: DBAPICursor, record: Record) -> None:
        key = (record.task_id, record.log_id)
        if self._find(cursor, self._sql.task_end, key, "task")[0] is not None:
            raise TaskOver(f"the task {record.task_id!r} has ended")

    def _admit_answer(
        self, cursor: DBAPICursor, record: Record, answer: events.QuestionAnswered
    ) -> None:
        key = (answer.question_id, record.log_id)
        status, seq = self._find(cursor, self._sql.question_end, key, "question")
        if status == QuestionStatus.ANSWERED:
            raise AlreadyAnswered(details={"question": answer.question_id, "seq": seq})
        if status == QuestionStatus.CANCELLED:
            raise QuestionClosed
        if answer.idempotency_key is not None:
            self._claim(cursor, record, answer)

    def is_late(self, cursor: DBAPICursor, log_id: LogId, event: Event) -> bool:
        """Whether the event closes a question that an earlier event of the log has closed."""
        if not isinstance(event, events.QuestionAnswered):
            return False
        cursor.execute(self._sql.question_end, (event.question_id, log_id))
        row = cursor.fetchone()
        return row is not None and row[1] is not None

    def _find(
        self, cursor: DBAPICursor, statement: str, key: tuple[str | None, str], noun: str
    ) -> Any:
        cursor.execute(statement, key)
        row = cursor.fetchone()
        if row is None:
            raise NotFound(f"there is no {noun} {key[0]!r} in {key[1]!r}")
        return row

    # ---- updates of the lists ----

    def _queue(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.MessageReceived | events.CallRequested | FlowRequested,
    ) -> None:
        sql, at, log_id = self._sql, record.at, record.log_id
        key = (at, record.seq, log_id)
        if not isinstance(event, events.MessageReceived):
            kind = "call" if isinstance(event, events.CallRequested) else FLOW
            cursor.execute(sql.add_call_task, (record.task_id, kind, event.profile_id, *key))
            return
        if event.supersedes is not None:
            cursor.execute(sql.drop_messages, (log_id, event.supersedes, log_id))
            cursor.execute(sql.recount, (log_id,))
        cursor.execute(sql.add_message_task, (record.task_id, *key))
        cursor.execute(sql.touch, (at, 1, log_id))

    def _move(self, cursor: DBAPICursor, record: Record) -> None:
        """Update the status of a task."""
        sql, at, task_id = self._sql, record.at, record.task_id
        match record.event:
            case events.TaskStarted():
                cursor.execute(sql.start_task, (at, record.seq, task_id))
            case events.TaskResumed():
                cursor.execute(sql.set_status, (TaskStatus.RUNNING.value, task_id))
            case events.TaskSuspended(questions=(), runs=(), joins=joins) if joins:
                runs = tasks_awaited(run for join in joins for run in join.runs)
                cursor.execute(sql.block_task, (blocked_on(runs), task_id))
            case events.TaskSuspended():
                cursor.execute(sql.set_status, (TaskStatus.SUSPENDED.value, task_id))
            case events.TaskBlocked(blocked_on=missing):
                cursor.execute(sql.block_task, (blocked_on(missing), task_id))
            case events.TaskEnded(status=status, message_id=message_id):
                answers = 0 if message_id is None else 1
                cursor.execute(sql.end_task, (status.value, at, record.seq, answers, task_id))
                cursor.execute(sql.close_questions, (at, record.log_id, task_id))
                cursor.execute(sql.touch, (at, answers, record.log_id))
            case _:
                pass

    def _ask_or_answer(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.QuestionAsked | events.QuestionAnswered,
    ) -> None:
        """Add a question, or record its answer."""
        log_id, at, seq = record.log_id, record.at, record.seq
        if isinstance(event, events.QuestionAsked):
            asked = (event.question.question_id, record.task_id, record.task_id, at, seq, log_id)
            cursor.execute(self._sql.add_question, asked)
        else:
            answer = (event.status.value, at, event.by, seq, event.question_id, log_id)
            cursor.execute(self._sql.answer, answer)


HAVE_CONSEQUENCES = frozenset(
    {
        events.SessionOpened,
        events.MessageReceived,
        events.CallRequested,
        FlowRequested,
        ScheduleFired,
        ChildRequested,
        events.TaskStarted,
        events.TaskResumed,
        events.TaskSuspended,
        events.TaskBlocked,
        events.TaskEnded,
        events.CancelRequested,
        events.QuestionAsked,
        events.QuestionAnswered,
        history_events.Erased,
    }
)
"""The kinds of events that change a list."""


def plain(text: str) -> str:
    """Return the text without characters that databases refuse: lone surrogates and NUL."""
    return without_surrogates(text).replace("\x00", "")
