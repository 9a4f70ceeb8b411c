"""Projections in memory: tasks, sessions and questions, derived from the events of logs.

They pass the contract tests of the SQL projections. `admission` refuses outside events.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.core.clock import Moment
from penstock.core.events import events
from penstock.core.events.child_events import CHILD, ChildRequested
from penstock.core.events.events import Event, Record
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
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
from penstock.store.projections import (
    ALL_TASKS,
    Keyed,
    Page,
    SessionSort,
    TasksOf,
)
from penstock.testing.admission import Admission
from penstock.testing.rows import (
    Claim,
    LogOwner,
    QuestionRow,
    SessionRow,
    TaskRow,
    close,
    id_of,
)

_Row = TypeVar("_Row")


class MemoryProjections:
    """Tasks, sessions and questions of logs in memory."""

    def __init__(self, limits: Limits, now: Callable[[], Moment]) -> None:
        self._now = now
        self._tasks: dict[TaskId, TaskRow] = {}
        self._sessions: dict[LogId, SessionRow] = {}
        self._questions: dict[QuestionId, QuestionRow] = {}
        self._keys: dict[tuple[ProfileId, str | None], Claim] = {}
        self.admission = Admission(limits, self._tasks, self._questions, self._keys)
        self._follows: dict[type[Any], Callable[[LogOwner, Record, Any], None]] = {
            events.SessionOpened: self._session_opened,
            events.MessageReceived: self._message_received,
            events.CallRequested: self._call_requested,
            FlowRequested: self._flow_requested,
            ChildRequested: self._child_requested,
            events.TaskStarted: self._task_started,
            events.TaskResumed: self._task_resumed,
            events.TaskSuspended: self._task_suspended,
            events.TaskBlocked: self._task_blocked,
            events.TaskEnded: self._task_ended,
            events.CancelRequested: self._cancel_requested,
            events.QuestionAsked: self._question_asked,
            events.QuestionAnswered: self._question_answered,
        }

    async def find_task(self, task_id: TaskId) -> TaskRecord | None:
        """Return the task."""
        task = self._tasks.get(task_id)
        return task.record() if task else None

    async def tasks(
        self,
        *,
        log_id: LogId | None = None,
        profile_id: ProfileId | None = None,
        of: TasksOf = ALL_TASKS,
        page: Page,
    ) -> tuple[Sequence[TaskRecord], int]:
        """Return tasks in the order of their requests, newest first by default."""
        tasks = [
            task
            for task in self._tasks.values()
            if log_id in {None, task.log.log_id}
            and profile_id in {None, task.profile_id}
            and of.kind in {None, task.kind}
            and of.agent in {None, task.log.agent}
            and of.status in {None, task.status}
            and task.is_in(of)
        ]
        part = _on(page, tasks, _asked_for, usually=True)
        return [task.record() for task in part], len(tasks)

    async def task_at(self, log_id: LogId, seq: int) -> TaskRecord | None:
        """Return the newest task that had started at this event."""
        started = [
            (task.started.seq, task)
            for task in self._tasks.values()
            if task.log.log_id == log_id and task.started and task.started.seq <= seq
        ]
        return max(started, key=lambda each: each[0])[1].record() if started else None

    async def find_session(self, session_id: SessionId) -> SessionRecord | None:
        """Return the session."""
        session = self._sessions.get(LogId(session_id))
        return session.record() if session else None

    async def sessions(
        self,
        *,
        profile_id: ProfileId,
        agent: str | None = None,
        search: str = "",
        sort: SessionSort = SessionSort.UPDATED,
        page: Page,
    ) -> tuple[Sequence[SessionRecord], int]:
        """Return the sessions of a profile, newest first by default."""
        sessions = [
            session
            for session in self._sessions.values()
            if session.log.profile_id == profile_id
            and agent in {None, session.log.agent}
            and search.lower() in session.title.lower()
        ]
        part = _on(page, sessions, _SORTED[sort], usually=sort is not SessionSort.TITLE)
        return [session.record() for session in part], len(sessions)

    async def find_question(self, question_id: QuestionId) -> QuestionRecord | None:
        """Return the question."""
        asked = self._questions.get(question_id)
        return asked.record() if asked else None

    async def questions(
        self,
        *,
        profile_id: ProfileId | None = None,
        log_id: LogId | None = None,
        agent: str | None = None,
        status: QuestionStatus | None = None,
        page: Page,
    ) -> tuple[Sequence[QuestionRecord], int]:
        """Return questions in the order in which they were asked, oldest first by default."""
        questions = [
            asked
            for asked in self._questions.values()
            if profile_id in {None, asked.log.profile_id}
            and log_id in {None, asked.log.log_id}
            and agent in {None, asked.log.agent}
            and status in {None, asked.status}
        ]
        part = _on(page, questions, _asked_at, usually=False)
        return [asked.record() for asked in part], len(questions)

    async def open_questions(
        self, log_id: LogId, task_id: TaskId | None = None
    ) -> Sequence[QuestionRecord]:
        """Return the open questions of a log, or of one of its tasks, oldest first."""
        return [
            asked.record()
            for asked in self._questions.values()
            if asked.log.log_id == log_id
            and task_id in {None, asked.task_id}
            and asked.status is QuestionStatus.OPEN
        ]

    def follow(self, log: LogOwner, record: Record) -> None:
        """Apply a written event."""
        follow = self._follows.get(type(record.event))
        if follow is not None:
            follow(log, record, record.event)

    def is_late(self, event: Event) -> bool:
        """Whether the event closes a question that is already closed."""
        if not isinstance(event, events.QuestionAnswered):
            return False
        asked = self._questions.get(event.question_id)
        return asked is not None and asked.answered is not None

    def _session_opened(self, log: LogOwner, record: Record, event: events.SessionOpened) -> None:
        self._sessions[log.log_id] = SessionRow(log, event.title, record.at, record.at)

    def _message_received(
        self, log: LogOwner, record: Record, event: events.MessageReceived
    ) -> None:
        superseded = self._tasks.get(event.supersedes) if event.supersedes else None
        if superseded is not None and superseded.log is log:
            for task in log.tasks[log.tasks.index(superseded) :]:
                task.messages = 0
        self._claim(log, record, event)
        self._queue(log, record, TaskRow(id_of(record), log, "message", log.profile_id, record, 1))

    def _claim(self, log: LogOwner, record: Record, event: Keyed) -> None:
        if event.idempotency_key is not None:
            claim = Claim(log.log_id, id_of(record), record.at, event)
            self._keys[log.profile_id, event.idempotency_key] = claim

    def _call_requested(self, log: LogOwner, record: Record, event: events.CallRequested) -> None:
        self._claim(log, record, event)
        self._queue(log, record, TaskRow(id_of(record), log, "call", event.profile_id, record, 0))

    def _flow_requested(self, log: LogOwner, record: Record, event: FlowRequested) -> None:
        self._claim(log, record, event)
        self._queue(log, record, TaskRow(id_of(record), log, FLOW, event.profile_id, record, 0))

    def _child_requested(self, log: LogOwner, record: Record, event: ChildRequested) -> None:
        child = TaskRow(id_of(record), log, CHILD, event.profile_id, record, 0)
        if event.dependencies:
            child.status, child.blocked_on = TaskStatus.BLOCKED, tasks_awaited(event.join.runs)
        self._queue(log, record, child)

    def _queue(self, log: LogOwner, record: Record, task: TaskRow) -> None:
        self._tasks[task.task_id] = task
        log.tasks.append(task)
        log.queued += 1
        self._touch(log, record)

    def _task_started(self, log: LogOwner, record: Record, event: events.TaskStarted) -> None:
        if task := self._move(record, TaskStatus.RUNNING):
            task.started = record

    def _task_resumed(self, log: LogOwner, record: Record, event: events.TaskResumed) -> None:
        self._move(record, TaskStatus.RUNNING)

    def _task_suspended(self, log: LogOwner, record: Record, event: events.TaskSuspended) -> None:
        waits = event.joins and not (event.questions or event.runs)
        task = self._move(record, TaskStatus.BLOCKED if waits else TaskStatus.SUSPENDED)
        if task and waits:
            task.blocked_on = tasks_awaited(run for join in event.joins for run in join.runs)

    def _task_blocked(self, log: LogOwner, record: Record, event: events.TaskBlocked) -> None:
        if task := self._move(record, TaskStatus.BLOCKED):
            task.blocked_on = event.blocked_on

    def _task_ended(self, log: LogOwner, record: Record, event: events.TaskEnded) -> None:
        if task := self._move(record, event.status):
            task.ended = record
            task.messages += event.message_id is not None
            close(task, record)
        self._touch(log, record)

    def _cancel_requested(
        self, log: LogOwner, record: Record, event: events.CancelRequested
    ) -> None:
        if task := self._tasks.get(id_of(record)):
            task.is_cancelled = True
            close(task, record)

    def _move(self, record: Record, status: TaskStatus) -> TaskRow | None:
        task = self._tasks.get(id_of(record))
        if task is not None:
            is_left = status is not TaskStatus.BLOCKED and not task.status.is_final
            task.log.queued -= is_left and task.started is None
            task.status = status
        return task

    def _question_asked(self, log: LogOwner, record: Record, event: events.QuestionAsked) -> None:
        asked = QuestionRow(event.question, log, id_of(record), record.at, record.seq)
        self._questions[event.question.question_id] = asked
        if task := self._tasks.get(id_of(record)):
            task.asked.append(asked)
            if task.is_cancelled:
                asked.status = QuestionStatus.CANCELLED

    def _question_answered(
        self, log: LogOwner, record: Record, event: events.QuestionAnswered
    ) -> None:
        asked = self._questions.get(event.question_id)
        if asked is not None and asked.answered is None:
            asked.status, asked.answered_at, asked.answered = event.status, record.at, event
            self._claim(log, record, event)

    def _touch(self, log: LogOwner, record: Record) -> None:
        if session := self._sessions.get(log.log_id):
            session.updated_at = record.at


def _on(
    page: Page, rows: Sequence[_Row], key: Callable[[_Row], Any], *, usually: bool
) -> Sequence[_Row]:
    ranked = sorted(rows, key=key, reverse=page.descends(usually=usually))
    return ranked[page.offset : page.offset + page.limit]


def _asked_for(task: TaskRow) -> tuple[Any, ...]:
    return task.asked_for.at, task.asked_for.seq, task.task_id


def _asked_at(asked: QuestionRow) -> tuple[Any, ...]:
    return asked.asked_at, asked.asked_seq, asked.question.question_id


_SORTED: dict[SessionSort, Callable[[SessionRow], Any]] = {
    SessionSort.UPDATED: lambda each: (each.updated_at, each.log.log_id),
    SessionSort.CREATED: lambda each: (each.created_at, each.log.log_id),
    SessionSort.TITLE: lambda each: (each.title.lower(), each.log.log_id),
}
