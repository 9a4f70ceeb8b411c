"""What lists and doors see of the logs: tasks, sessions, questions, all rebuildable."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.task import QuestionRecord, QuestionStatus, SessionRecord, TaskRecord, TaskStatus


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted."""

    limit: int = 50
    offset: int = 0
    is_descending: bool | None = None
    """None is the direction that is usual for the list."""

    def descends(self, *, usually: bool) -> bool:
        """Whether the greatest comes first."""
        return usually if self.is_descending is None else self.is_descending


class SessionSort(StrEnum):
    """By what sessions are ordered: newest first, or titles from A to Z."""

    UPDATED = "updated_at"
    CREATED = "created_at"
    TITLE = "title"


class TasksOf(Struct, frozen=True, kw_only=True):
    """Which tasks are wanted; what is None does not matter."""

    kind: str | None = None
    """As that of a TaskRecord."""
    agent: str | None = None
    """The agent, or of a run the command of its flow."""
    status: TaskStatus | None = None


ALL_TASKS = TasksOf()


class Projections(Protocol):
    """What follows from the logs.

    Contract: as new as the newest committed event. Lists come with how many there are in all, and
    what is equal in a list is ordered by its id: pages of one order fit together. `find_…` returns
    None for what is not there, and raises StoreCorrupt for what does not read back. A list leaves
    that out, though it is counted; of a task only the outcome is missing, and says so.
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
        """Return tasks, by when they were asked for; usually newest first."""
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
        """Return questions, by when they were asked; usually oldest first."""
        ...

    async def open_questions(
        self, log_id: LogId, task_id: TaskId | None = None
    ) -> Sequence[QuestionRecord]:
        """Return all that a log, or one task of it, waits for, oldest first."""
        ...
