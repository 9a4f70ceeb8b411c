"""Mutable rows of tasks, sessions and questions for the projections in memory."""

from msgspec import Struct, field

from penstock.core.clock import Moment
from penstock.core.events.codec import to_wire
from penstock.core.events.events import (
    Entry,
    QuestionAnswered,
    QuestionAsked,
    Record,
    TaskEnded,
    TaskStarted,
)
from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.task import (
    Missing,
    Question,
    QuestionRecord,
    QuestionStatus,
    SessionRecord,
    TaskRecord,
    TaskStatus,
)
from penstock.store.projections import Keyed


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


class Coming(Struct):
    """The effect of earlier entries in the same `send`."""

    queued: int
    tasks: set[TaskId | None] = field(default_factory=set)
    ended: set[TaskId | None] = field(default_factory=set)
    cancelled: set[TaskId | None] = field(default_factory=set)
    asked: set[QuestionId] = field(default_factory=set)
    """Questions that have no answer yet."""
    answers: dict[QuestionId, QuestionAnswered] = field(default_factory=dict)

    def follow(self, entry: Entry) -> None:
        """Apply an entry that is always admitted."""
        match entry.event:
            case QuestionAsked(question=question):
                self.asked.add(question.question_id)
            case TaskStarted():
                self.queued -= entry.task_id in self.tasks
            case TaskEnded():
                self.ended.add(entry.task_id)
            case _:
                pass


class Claim(Struct, frozen=True):
    """The task that used an Idempotency-Key first."""

    log_id: LogId
    task_id: TaskId
    at: Moment
    event: Keyed
