"""Mutable rows of logs, snapshots, tasks, sessions and questions for the log in memory."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.clock import Moment
from penstock.core.errors import NotFound
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.codec import encode, to_wire
from penstock.core.events.events import (
    CallRequested,
    Entry,
    QuestionAnswered,
    Record,
    SessionOpened,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.events.history_events import MessagesErased
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
from penstock.store.logs.log import StoredState
from penstock.store.logs.quarantine import LeaseHistory
from penstock.store.projections import NO_PARENT, Keyed, TasksOf

IMMEDIATELY = Moment(0)


class LogOwner(Struct):
    """The owner of a log, and its tasks."""

    log_id: LogId
    profile_id: ProfileId
    agent: str
    tasks: "list[TaskRow]" = field(default_factory=list)
    queued: int = 0


class KeptLog(Struct):
    """A log: its events and its lease."""

    owned: LogOwner
    records: list[Record] = field(default_factory=list)
    outside: list[Record] = field(default_factory=list)
    owner: str | None = None
    epoch: int = 0
    lease_until: int = 0
    held_from: int = 0
    deaths: int = 0
    cohort: int = 0
    alone: int = 0
    tried_at: int = 0
    watch_ms: int = 0
    known: int = 0
    """How many events the holder knows of."""
    wake_at: Moment = IMMEDIATELY

    @property
    def standing(self) -> LeaseHistory:
        """The history of the lease, for decisions about quarantine."""
        return LeaseHistory(
            self.owned.log_id,
            self.owner,
            self.lease_until,
            self.held_from == len(self.records),
            self.deaths,
            self.cohort,
            self.alone,
            self.tried_at,
            self.watch_ms,
        )

    def bury(self, history: LeaseHistory) -> None:
        """Free the lease of an owner that died, and note what quarantine needs to know."""
        self.owner, self.lease_until = None, 0
        self.deaths, self.cohort, self.alone = history.deaths, history.cohort, history.alone
        self.watch_ms = history.watch_ms

    def read(self, after: int, limit: int | None, size: int | None) -> Sequence[Record]:
        """Return at most `limit` events after `after`, and none beyond `size` bytes but one."""
        records = self.records[after : None if limit is None else after + limit]
        for number, record in enumerate(records, 1):
            if size is None:
                break
            size -= len(encode(record.event))
            if size <= 0:
                return records[:number]
        return records


class MemorySnapshots:
    """The newest snapshot of each log."""

    def __init__(self, find_log: Callable[[LogId], KeptLog | None]) -> None:
        self._find_log = find_log
        self.kept: dict[LogId, StoredState] = {}

    async def read(self, log_id: LogId) -> StoredState | None:
        """Return the snapshot of a log, unless something was erased after it."""
        snapshot = self.kept.get(log_id)
        return snapshot if snapshot and self._is_valid(log_id, snapshot) else None

    async def write(self, log_id: LogId, snapshot: StoredState) -> bool:
        """Replace the snapshot of a log; return False if it was refused."""
        newest = self.kept.get(log_id)
        is_old = newest is not None and newest.version == snapshot.version
        is_old = is_old and newest is not None and newest.seq > snapshot.seq
        if is_old or not self._is_valid(log_id, snapshot):
            return False
        self.kept[log_id] = snapshot
        return True

    def _is_valid(self, log_id: LogId, snapshot: StoredState) -> bool:
        if (log := self._find_log(log_id)) is None:
            return False
        return MessagesErased not in [type(each.event) for each in log.records[snapshot.seq :]]


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
            **self._relation(),
        )

    @property
    def root_id(self) -> TaskId | None:
        """The task at the top of its tree, if that is another one."""
        child = self.asked_for.event
        return child.root if isinstance(child, ChildRequested) else None

    @property
    def end(self) -> tuple[int | None]:
        """The number of the event that ended it, as a row."""
        return (self.ended.seq if self.ended else None,)

    def is_in(self, of: TasksOf) -> bool:
        """Whether a filter matches its place in a tree, its status and the time of its request."""
        child, at = self.asked_for.event, self.asked_for.at
        parent = child.parent if isinstance(child, ChildRequested) else NO_PARENT
        return (
            of.parent_id in {None, parent}
            and of.root_id in {None, self.root_id}
            and (not of.statuses or self.status in of.statuses)
            and (of.since is None or at >= of.since)
            and (of.until is None or at < of.until)
        )

    def _relation(self) -> dict[str, Any]:
        """Return what a child has more than other tasks."""
        child = self.asked_for.event
        if not isinstance(child, ChildRequested):
            return {}
        return {
            "parent_id": child.parent or None,
            "root_id": child.root,
            "title": child.title,
            "task_key": child.key,
            "worker_kind": child.worker_kind,
            "batch_id": child.batch_id,
        }


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


class Claim(Struct, frozen=True):
    """The task that used an Idempotency-Key first."""

    log_id: LogId
    task_id: TaskId
    at: Moment
    event: Keyed


def close(task: TaskRow, record: Record) -> None:
    """Close the open questions of a task that is cancelled."""
    for asked in task.asked:
        if asked.status is QuestionStatus.OPEN:
            asked.status, asked.answered_at = QuestionStatus.CANCELLED, record.at


def id_of(record: Record) -> TaskId:
    """Return the task of a record; empty without one."""
    return record.task_id or TaskId("")


def owner_of(log_id: LogId, entries: Sequence[Entry]) -> LogOwner:
    """Return the owner of a new log, by its first entry. Raises NotFound if it opens none."""
    match entries[0].event:
        case SessionOpened(profile_id=profile_id, agent=agent):
            return LogOwner(log_id, profile_id, agent)
        case CallRequested(profile_id=profile_id):
            return LogOwner(log_id, profile_id, "")
        case FlowRequested(profile_id=profile_id, command=command):
            return LogOwner(log_id, profile_id, command)
        case ChildRequested(profile_id=profile_id, agent=agent):
            return LogOwner(log_id, profile_id, agent)
        case _:
            raise NotFound(f"there is no log {log_id!r}")
