"""Admits outside events to logs in memory, or refuses them as the database does.

A request of a task, an answer or a cancel needs no lease, so it may come at any time: for a task
that has ended, for a question that has its answer, or with a key that was used before. Shown by
tests/contracts.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

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
from penstock.core.events.events import Entry
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import ProfileId, QuestionId, TaskId
from penstock.core.limits import Limits
from penstock.core.task import QuestionStatus
from penstock.store.failures import queue_full, task_exists
from penstock.store.logs.child_rows import check_parent, check_room
from penstock.store.projections import AT_WORK, SUPERSEDED, Keyed
from penstock.testing.rows import Claim, LogOwner, QuestionRow, TaskRow


class Coming(Struct):
    """The effect of earlier entries in the same `send`."""

    queued: int
    tasks: set[TaskId | None] = field(default_factory=set)
    ended: set[TaskId | None] = field(default_factory=set)
    cancelled: set[TaskId | None] = field(default_factory=set)
    asked: set[QuestionId] = field(default_factory=set)
    """Questions that have no answer yet."""
    answers: dict[QuestionId, events.QuestionAnswered] = field(default_factory=dict)

    def follow(self, entry: Entry) -> None:
        """Apply an entry that is always admitted."""
        match entry.event:
            case events.QuestionAsked(question=question):
                self.asked.add(question.question_id)
            case events.TaskStarted():
                self.queued -= entry.task_id in self.tasks
            case events.TaskEnded():
                self.ended.add(entry.task_id)
            case _:
                pass


class Admission:
    """Decides whether a log takes outside events, by the rows of the events before them."""

    def __init__(
        self,
        limits: Limits,
        tasks: Mapping[TaskId, TaskRow],
        questions: Mapping[QuestionId, QuestionRow],
        keys: Mapping[tuple[ProfileId, str | None], Claim],
    ) -> None:
        self._limits = limits
        self._tasks = tasks
        self._questions = questions
        self._keys = keys

    def check(self, log: LogOwner, entries: Sequence[Entry], at: Moment) -> None:
        """Refuse outside events that the log cannot take, such as a late answer."""
        coming = Coming(log.queued)
        for entry in entries:
            match entry.event:
                case events.SessionOpened() | events.TaskStarted() | events.ReplyReceived():
                    coming.follow(entry)
                case events.MessageReceived() | events.CallRequested() | FlowRequested() as asked:
                    self._admit_key(log, asked, at)
                    self._admit_again(log, asked, coming)
                    self._admit_task(log, entry, coming)
                case ChildRequested() as child:
                    self._admit_child(child, entry)
                case events.CancelRequested() | RunEnded() | WaiterAdded() | TreeAsked() if (
                    entry.task_id not in coming.tasks
                ):
                    if self._task_in(log, entry.task_id).ended:
                        raise TaskOver(f"the task {entry.task_id!r} has ended")
                    if isinstance(entry.event, events.CancelRequested):
                        coming.cancelled.add(entry.task_id)
                case history_events.MessagesErased(of_task=task_id) if task_id not in coming.tasks:
                    self._task_in(log, task_id)
                case events.QuestionAnswered() as answer:
                    self._admit_answer(log, answer, coming)
                    self._admit_key(log, answer, at)
                case _:
                    coming.follow(entry)

    def _task_in(self, log: LogOwner, task_id: TaskId | None) -> TaskRow:
        task = self._tasks.get(task_id) if task_id else None
        if task is None or task.log is not log:
            raise NotFound(f"there is no task {task_id!r} in {log.log_id!r}")
        return task

    def _admit_task(self, log: LogOwner, entry: Entry, coming: Coming) -> None:
        if entry.task_id in self._tasks or entry.task_id in coming.tasks:
            raise task_exists(entry.task_id)
        if coming.queued >= self._limits.queued_tasks:
            raise queue_full(log.log_id, coming.queued)
        coming.queued += 1
        coming.tasks.add(entry.task_id)

    def _admit_child(self, child: ChildRequested, entry: Entry) -> None:
        if entry.task_id in (tasks := self._tasks):
            raise task_exists(entry.task_id)
        check_parent(child, tasks[child.parent].end if child.parent in tasks else None)
        check_room(child, sum(each.root_id == child.root for each in tasks.values()), self._limits)

    def _admit_again(
        self,
        log: LogOwner,
        event: events.MessageReceived | events.CallRequested | FlowRequested,
        coming: Coming,
    ) -> None:
        if not isinstance(event, events.MessageReceived) or event.supersedes is None:
            return
        if coming.tasks - coming.ended or any(task.ended is None for task in log.tasks):
            raise SessionBusy(AT_WORK)
        if event.supersedes in coming.ended:
            return
        superseded = self._tasks.get(event.supersedes)
        if superseded is None or superseded.log is not log or not superseded.messages:
            raise SessionBusy(SUPERSEDED)

    def _admit_key(self, log: LogOwner, event: Keyed, at: Moment) -> None:
        first = self._keys.get((log.profile_id, event.idempotency_key))
        if first is None or first.at < at - 1000 * self._limits.idempotency_seconds:
            return
        same = first.event.request_hash == event.request_hash
        raise IdempotencyConflict(
            details={"task_id": first.task_id, "log_id": first.log_id, "same": same}
        )

    def _admit_answer(self, log: LogOwner, answer: events.QuestionAnswered, coming: Coming) -> None:
        if answer.question_id in coming.asked:
            coming.asked.remove(answer.question_id)
            return
        asked = self._questions.get(answer.question_id)
        if asked is None or asked.log is not log:
            raise NotFound(f"there is no question {answer.question_id!r} in {log.log_id!r}")
        first = asked.answered or coming.answers.get(answer.question_id)
        if first is not None and first.status is QuestionStatus.ANSWERED:
            raise AlreadyAnswered(details={"answer": first.answer})
        is_open = asked.status is QuestionStatus.OPEN and asked.task_id not in coming.cancelled
        if first is not None or not is_open:
            raise QuestionClosed
        coming.answers[answer.question_id] = answer
