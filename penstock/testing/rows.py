"""Mutable rows of tasks, sessions and questions for the projections in memory."""

from msgspec import Struct, field

from penstock.core.clock import Moment
from penstock.core.events.codec import to_wire
from penstock.core.events.events import QuestionAnswered, Record
from penstock.core.ids import LogId, ProfileId, SessionId, TaskId
from penstock.core.task import (
    Missing,
    Question,
    QuestionRecord,
    QuestionStatus,
    SessionRecord,
    TaskRecord,
    TaskStatus,
)


class LogOwner(Struct):
    """The owner of a log, and its tasks."""

    log_id: LogId
    profile_id: ProfileId
    agent: str
    tasks: "list[TaskRow]" = field(default_factory=list)
    queued: int = 0


class TaskRow(Struct):
    """A task."""

    task_id: TaskId
    log: LogOwner
    kind: str
    profile_id: ProfileId
    asked_for: Record
    """The event that requested the task."""
    messages: int
    """How many messages of the conversation are the task's."""
    status: TaskStatus = TaskStatus.QUEUED
    started: Record | None = None
    ended: Record | None = None
    asked: "list[QuestionRow]" = field(default_factory=list)
    blocked_on: tuple[Missing, ...] = ()
    is_cancelled: bool = False
    """The task is cancelled: its questions accept no answer."""

    def record(self) -> TaskRecord:
        """Return the task as callers see it."""
        started, ended = self.started, self.ended
        return TaskRecord(
            task_id=self.task_id,
            log_id=self.log.log_id,
            kind=self.kind,
            status=self.status,
            profile_id=self.profile_id,
            agent=self.log.agent,
            created_at=self.asked_for.at,
            first_seq=self.asked_for.seq,
            started_seq=started.seq if started else None,
            started_at=started.at if started else None,
            ended_at=ended.at if ended else None,
            ended_seq=ended.seq if ended else None,
            outcome=to_wire(ended.event) if ended else None,
            blocked_on=self.blocked_on if self.status is TaskStatus.BLOCKED else (),
        )


class SessionRow(Struct):
    """A conversation."""

    log: LogOwner
    title: str
    created_at: Moment
    updated_at: Moment

    def record(self) -> SessionRecord:
        """Return the session as callers see it."""
        tasks = self.log.tasks
        in_hand = [task for task in tasks if not task.status.is_final]
        newest = (in_hand or tasks)[-1:]
        return SessionRecord(
            session_id=SessionId(self.log.log_id),
            profile_id=self.log.profile_id,
            agent=self.log.agent,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            message_count=sum(task.messages for task in tasks),
            status=newest[0].status if newest else None,
        )


class QuestionRow(Struct):
    """A question."""

    question: Question
    log: LogOwner
    task_id: TaskId
    asked_at: Moment
    asked_seq: int
    status: QuestionStatus = QuestionStatus.OPEN
    answered_at: Moment | None = None
    answered: QuestionAnswered | None = None

    def record(self) -> QuestionRecord:
        """Return the question as callers see it."""
        answered = self.answered
        return QuestionRecord(
            question=self.question,
            log_id=self.log.log_id,
            task_id=self.task_id,
            profile_id=self.log.profile_id,
            agent=self.log.agent,
            asked_at=self.asked_at,
            status=self.status,
            answered_at=self.answered_at,
            answered_by=answered.by if answered else None,
            answer=answered.answer if answered else None,
        )
