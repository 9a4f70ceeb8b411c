"""Answers of people to open questions: by the id of a question, or by the next message.

Guarantees: an answer is committed when a method returns, and its task gets a run; a repeated answer
has no effect. Relies on the store, which refuses a second answer to a question. Shown by
tests/chat/test_answers.py and tests/contracts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from penstock.chat.recorded.task_records import RepeatedRequests
from penstock.chat.requests import NewMessage, RequestKey, SentMessage, TaskReply
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.errors import (
    AlreadyAnswered,
    Forbidden,
    InvalidAnswer,
    InvalidRequest,
    NotFound,
    QuestionOpen,
)
from penstock.core.events.events import Entry, QuestionAnswered
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.profile import APPROVE, CHAT, LOCAL_PROFILE, Profile
from penstock.core.task import QuestionKind, QuestionRecord, QuestionStatus, TaskStatus
from penstock.engine.answers import answer_in_words, check_answer
from penstock.engine.launcher import Launcher
from penstock.engine.slash_commands import is_command, is_informational, text_for_model
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf

ANSWERED_BY_MESSAGE = frozenset(
    {QuestionKind.ASK_USER, QuestionKind.USER_MESSAGE, QuestionKind.TASK}
)
"""Questions that the next message of a conversation answers."""


class OpenWaits(Struct, frozen=True):
    """The questions that a conversation waits for."""

    questions: Sequence[QuestionRecord] = ()
    """Its own."""
    parked: TaskReply | None = None
    """Without own ones: the task that waits for a run of a flow with an open question."""

    @property
    def tasks(self) -> list[TaskId]:
        """The tasks that wait, one for each question."""
        if self.parked is not None:
            return [self.parked.task_id]
        return [record.task_id for record in self.questions]

    @property
    def question_ids(self) -> list[QuestionId]:
        """The ids of the questions, those of runs too."""
        records = self.parked.questions if self.parked is not None else self.questions
        return [record.question.question_id for record in records]


class Starter(Protocol):
    """The part that folds a log, and the launcher that wakes its task."""

    launcher: Launcher

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache. Raises StoreCorrupt if it cannot be read."""
        ...


class Answers:
    """Accepts answers to the open questions of tasks."""

    def __init__(
        self, log: Log, projections: Projections, starter: Starter, waiter: TaskWaiter
    ) -> None:
        self._log = log
        self._projections = projections
        self._starter = starter
        self._waiter = waiter
        self._repeated = RepeatedRequests(log, projections)

    async def answer(
        self, question_id: QuestionId, body: Mapping[str, Any], profile: Profile = LOCAL_PROFILE
    ) -> QuestionRecord:
        """Answer a question. Repeating the same answer has no effect.

        Raises NotFound, Forbidden, InvalidAnswer, AlreadyAnswered, QuestionClosed.
        """
        await self._record_answer(question_id, body, profile, RequestKey())
        return await self._question(question_id, profile)

    async def open_waits(self, log_id: LogId) -> OpenWaits:
        """Return the questions that a conversation waits for."""
        questions = await self._projections.open_questions(log_id)
        return OpenWaits(questions, None if questions else await self._parked_on_runs(log_id))

    async def answer_with(
        self, message: NewMessage, waits: "OpenWaits", profile: Profile
    ) -> SentMessage | None:
        """Answer an open question with a message; return None if the message need not wait.

        Raises QuestionOpen if a message cannot answer it, and InvalidRequest for files.
        """
        if is_informational(message.content):
            return None
        if message.attachments:
            issue = "must be left out: this message answers a question, and an answer has no files"
            raise InvalidRequest([{"field": "/attachments", "issue": issue}])
        for record in waits.questions:
            if record.question.kind in ANSWERED_BY_MESSAGE and not is_command(message.content):
                return await self._answered(message, record, profile)
        ids = waits.question_ids
        raise QuestionOpen(
            f"answer {', '.join(ids)} first, or send the message with cancelOpen",
            details={"questions": ids},
        )

    async def _record_answer(
        self,
        question_id: QuestionId,
        body: Mapping[str, Any],
        profile: Profile,
        idempotency: RequestKey,
    ) -> None:
        """Append an answer and wake its task."""
        record = await self._question(question_id, profile)
        answer, problems = check_answer(record.question, body, JSON_DEPTH)
        if problems:
            raise InvalidAnswer(problems)
        await self._starter.ensure_readable(record.log_id)
        event = QuestionAnswered(
            question_id=question_id,
            status=QuestionStatus.ANSWERED,
            answer=answer,
            by=profile.profile_id,
            idempotency_key=idempotency.key,
            request_hash=idempotency.request_hash,
        )
        try:
            await self._log.send(record.log_id, [Entry(event, record.task_id)])
        except AlreadyAnswered as error:
            recorded = (error.details or {}).get("answer")
            if recorded != answer:
                raise
        self._starter.launcher.wake(record.log_id)

    async def _parked_on_runs(self, log_id: LogId) -> TaskReply | None:
        """Return the reply of the task that waits for a run with an open question, if any."""
        of = TasksOf(status=TaskStatus.SUSPENDED)
        tasks, _ = await self._projections.tasks(log_id=log_id, of=of, page=Page(limit=1))
        reply = await self._waiter.wait(tasks[0].task_id, 0) if tasks else None
        return reply if reply and reply.questions else None

    async def _answered(
        self, message: NewMessage, record: QuestionRecord, profile: Profile
    ) -> SentMessage:
        head = await self._log.head(record.log_id)
        question = record.question
        answer = answer_in_words(
            text_for_model(message.content),
            kind=question.kind,
            options=question.options,
            form=question.form,
            has_schema=question.schema is not None,
        )
        await self._record_answer(question.question_id, answer, profile, message.idempotency)
        task = await self._projections.find_task(record.task_id)
        if task is None:
            raise NotFound(f"there is no task {record.task_id!r}")
        return await self._repeated.sent(task, head)

    async def _question(self, question_id: QuestionId, profile: Profile) -> QuestionRecord:
        record = await self._projections.find_question(question_id)
        if record is None or not profile.owns(record.profile_id, record.log_id):
            raise NotFound(f"there is no question {question_id!r}")
        needed = APPROVE if record.question.kind is QuestionKind.APPROVAL else CHAT
        if not profile.holds(needed):
            raise Forbidden(f"answering this question requires the permission {needed!r}")
        return record
