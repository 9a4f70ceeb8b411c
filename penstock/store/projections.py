"""What lists and doors see of the logs: tasks, sessions, questions, all rebuildable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.ids import LogId, ProfileId, QuestionId, SessionId, TaskId
from penstock.core.question import QuestionRecord, QuestionStatus
from penstock.core.task import SessionRecord, TaskRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted."""

    limit: int = 50
    offset: int = 0


class Projections(Protocol):
    """What follows from the logs.

    Contract: as new as the newest committed event. Lists are newest first, and come with how many
    there are in all. `find_…` returns None for what is not there.
    """

    async def find_task(self, task_id: TaskId) -> TaskRecord | None:
        """Return the task."""
        ...

    async def tasks(
        self, *, log_id: LogId | None = None, profile_id: ProfileId | None = None, page: Page
    ) -> tuple[Sequence[TaskRecord], int]:
        """Return tasks, newest first."""
        ...

    async def task_at(self, log_id: LogId, seq: int) -> TaskRecord | None:
        """Return the newest task that had started when this event was written."""
        ...

    async def find_session(self, session_id: SessionId) -> SessionRecord | None:
        """Return the session."""
        ...

    async def sessions(
        self, *, profile_id: ProfileId, agent: str | None = None, search: str = "", page: Page
    ) -> tuple[Sequence[SessionRecord], int]:
        """Return the sessions of a profile, newest first."""
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
        """Return questions, oldest first."""
        ...

    async def open_questions(
        self, log_id: LogId, task_id: TaskId | None = None
    ) -> Sequence[QuestionRecord]:
        """Return all that a log, or one task of it, waits for, oldest first."""
        ...
