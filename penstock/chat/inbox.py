"""The inbox of conversations: messages, answers, cancels, direct calls and flow runs.

Guarantees: what a method accepts is committed when it returns, and its task gets a run; a request
that is repeated with its Idempotency-Key has the effect of one; a caller sees only what its profile
owns, and everything else as NotFound.

How: each request is one outside event, appended without the lease of the log, so it never waits for
the task that is running. A message to a new or idle conversation takes a short way: one write
appends it, starts its task and acquires the lease (docs/decisions/006). If the log changed in
between, nothing is written and the message takes the ordinary way.

Relies on: the store orders concurrent appends and refuses a second answer, a taken name and a
reused key; the checks here only choose the error message. A log is read before an event is appended
to it: otherwise a damaged log would accept events that no task can ever process. Shown by
tests/chat/test_inbox.py and tests/contracts.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.chat.message import (
    NewCall,
    NewMessage,
    NewRun,
    Reply,
    RequestKey,
    SentMessage,
    call_requested,
    run_requested,
)
from penstock.chat.starter import TaskStarter
from penstock.chat.task_records import RepeatedRequests, first_task
from penstock.chat.waiter import TaskWaiter
from penstock.core.errors import (
    AlreadyAnswered,
    Forbidden,
    IdempotencyConflict,
    InvalidAnswer,
    InvalidRequest,
    NotFound,
    QuestionOpen,
    TaskOver,
)
from penstock.core.events.events import (
    CallRequested,
    CancelRequested,
    Entry,
    MessageReceived,
    QuestionAnswered,
    Record,
    SessionOpened,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, MessageId, QuestionId, SessionId, TaskId
from penstock.core.json_values.json_text import JSON_DEPTH
from penstock.core.limits import World
from penstock.core.messages import is_command, is_informational, text_for_model
from penstock.core.profile import APPROVE, CHAT, LOCAL_PROFILE, Profile
from penstock.core.task import QuestionKind, QuestionRecord, QuestionStatus, TaskRecord, TaskStatus
from penstock.core.text import cut, one_line
from penstock.engine.answers import answer_in_words, check_answer
from penstock.engine.bus import Bus
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf

ANSWERED_BY_MESSAGE = frozenset(
    {QuestionKind.ASK_USER, QuestionKind.USER_MESSAGE, QuestionKind.TASK}
)
"""Questions that the next message of a conversation answers."""


class Inbox:
    """Accepts requests of people and programs, and waits for their results."""

    def __init__(
        self,
        log: Log,
        projections: Projections,
        starter: TaskStarter,
        *,
        bus: Bus,
        world: World,
    ) -> None:
        self._log = log
        self._projections = projections
        self._starter = starter
        self._launcher = starter.launcher
        is_blocked = self._launcher.is_blocked
        self._waiter = TaskWaiter(log, projections, bus, world, is_blocked=is_blocked)
        self._repeated = RepeatedRequests(log, projections)
        self._limits = world.limits
        self._new_id = world.new_id

    async def send(
        self,
        message: NewMessage,
        profile: Profile = LOCAL_PROFILE,
        *,
        task_id: TaskId | None = None,
    ) -> SentMessage:
        """Send a message. It is committed and its task queued when this returns.

        Raises InvalidRequest, NotFound (the session), QuestionOpen, SessionBusy, StoreCorrupt.
        """
        self._check(message)
        _check_place(message.session_id, profile)
        try:
            return await self._sent(message, profile, task_id or TaskId(self._new_id("task")))
        except IdempotencyConflict as error:
            return await self._repeated.first(message, error)

    async def chat(self, message: NewMessage, profile: Profile = LOCAL_PROFILE) -> Reply:
        """Send a message, and wait for the answer or a question."""
        task_id = TaskId(self._new_id("task"))
        # Listen before sending: a fast task could end between the two.
        with self._waiter.expected(task_id) as end:
            sent = await self.send(message, profile, task_id=task_id)
            if sent.task_id == task_id:
                return await end.reply()
        return await self._waiter.reply(sent.task_id)

    async def wait(self, task_id: TaskId, *, seconds: float | None = None) -> Reply | None:
        """Wait until the task has ended or waits for a person; return None on timeout."""
        return await self._waiter.wait(task_id, seconds)

    async def call(
        self, call: NewCall, profile: Profile = LOCAL_PROFILE, *, task_id: TaskId | None = None
    ) -> Reply:
        """Make a direct call, and wait until it is settled or waits for a person."""
        task_id = task_id or TaskId(self._new_id("task"))
        return await self._reply_to(self.request(call, profile, task_id=task_id), task_id)

    async def request(
        self, call: NewCall, profile: Profile = LOCAL_PROFILE, *, task_id: TaskId | None = None
    ) -> TaskId:
        """Request a direct call. It is committed and its task queued when this returns.

        Raises InvalidRequest for an input that cannot be stored, NotFound (the session),
        SessionBusy, IdempotencyConflict, StoreCorrupt.
        """
        _check_place(call.session_id, profile)
        requested = call_requested(call, profile, JSON_DEPTH)
        task_id = task_id or TaskId(self._new_id("task"))
        log_id = LogId(call.session_id or task_id)
        if call.session_id is not None:
            await self._own_session(SessionId(call.session_id), profile)
            await self._starter.ensure_readable(log_id)
        return await self._queued(log_id, task_id, requested)

    async def run_flow(
        self, run: NewRun, profile: Profile = LOCAL_PROFILE, *, task_id: TaskId | None = None
    ) -> Reply:
        """Start a run of a flow, and wait until it has ended or waits for a person."""
        task_id = task_id or TaskId(self._new_id("task"))
        return await self._reply_to(self.start_flow(run, profile, task_id=task_id), task_id)

    async def start_flow(
        self, run: NewRun, profile: Profile = LOCAL_PROFILE, *, task_id: TaskId | None = None
    ) -> TaskId:
        """Request a flow run. It is committed and its task queued when this returns.

        Raises InvalidRequest for inputs that cannot be stored, and IdempotencyConflict.
        """
        _check_place(None, profile)
        task_id = task_id or TaskId(self._new_id("task"))
        requested = run_requested(run, profile, JSON_DEPTH)
        return await self._queued(LogId(task_id), task_id, requested)

    async def answer(
        self, question_id: QuestionId, body: Mapping[str, Any], profile: Profile = LOCAL_PROFILE
    ) -> QuestionRecord:
        """Answer a question. Repeating the same answer has no effect.

        Raises NotFound, Forbidden, InvalidAnswer, AlreadyAnswered, QuestionClosed.
        """
        await self._record_answer(question_id, body, profile, RequestKey())
        return await self._question(question_id, profile)

    async def go_on(self, task_id: TaskId, profile: Profile) -> None:
        """Wake a task that may have been left unfinished. Raises NotFound."""
        task = await self.task(task_id, profile)
        if not (task.status.is_final or task.status is TaskStatus.SUSPENDED):
            self._launcher.wake(task.log_id)

    async def cancel(self, task_id: TaskId, profile: Profile = LOCAL_PROFILE) -> TaskRecord:
        """Cancel a task, whatever it is doing.

        Raises NotFound, TaskOver if it has ended, and StoreCorrupt if its log cannot be read: then
        nothing can end the task, but its log can be deleted.
        """
        task = await self.task(task_id, profile)
        await self._starter.ensure_readable(task.log_id)
        await self._log.send(task.log_id, [Entry(CancelRequested(by=profile.profile_id), task_id)])
        self._launcher.wake(task.log_id)
        return await self.task(task_id, profile)

    async def task(self, task_id: TaskId, profile: Profile = LOCAL_PROFILE) -> TaskRecord:
        """Return a task that the profile owns, or raise NotFound."""
        task = await self._projections.find_task(task_id)
        if task is None or not profile.owns(task.profile_id, task.log_id):
            raise NotFound(f"there is no task {task_id!r}")
        return task

    async def _queued(
        self, log_id: LogId, task_id: TaskId, request: CallRequested | FlowRequested
    ) -> TaskId:
        """Append the request of a task; return its id, or that of the first such request."""
        try:
            entries = [Entry(request, task_id)]
            await self._log.send(log_id, entries, on_way=self._launcher.wake)
        except IdempotencyConflict as error:
            return first_task(error)
        return task_id

    async def _reply_to(self, request: Awaitable[TaskId], task_id: TaskId) -> Reply:
        """Make a request whose task gets this id, and wait until the task ends or waits."""
        with self._waiter.expected(task_id) as end:
            accepted = await request
            if accepted == task_id:
                return await end.reply()
        return await self._waiter.reply(accepted)  # a repeated request: the first one's task

    async def _record_answer(
        self,
        question_id: QuestionId,
        body: Mapping[str, Any],
        profile: Profile,
        idempotency: RequestKey,
    ) -> None:
        """Append an answer and wake its task."""
        asked = await self._question(question_id, profile)
        answer, problems = check_answer(asked.question, body, JSON_DEPTH)
        if problems:
            raise InvalidAnswer(problems)
        await self._starter.ensure_readable(asked.log_id)
        event = QuestionAnswered(
            question_id=question_id,
            status=QuestionStatus.ANSWERED,
            answer=answer,
            by=profile.profile_id,
            idempotency_key=idempotency.key,
            request_hash=idempotency.request_hash,
        )
        try:
            await self._log.send(asked.log_id, [Entry(event, asked.task_id)])
        except AlreadyAnswered as error:
            recorded = (error.details or {}).get("answer")
            if recorded != answer:
                raise
        self._launcher.wake(asked.log_id)

    async def _sent(self, message: NewMessage, profile: Profile, task_id: TaskId) -> SentMessage:
        is_new = message.supersedes is None and message.head is None
        is_short = is_new and self._starter.may(message, profile)
        if not is_short and (answered := await self._as_answer(message, profile)):
            return answered
        log_id = LogId(message.session_id or self._new_id("conv"))
        entries = self._entries(message, profile, task_id)
        if is_short:
            if records := await self._starter.begin(log_id, message.agent, entries, profile):
                return _sent(log_id, records, is_started=True)
            # The log is not as the cache has it, so the checks that were skipped are due now.
            if answered := await self._as_answer(message, profile):
                return answered
        wake = self._launcher.wake
        records = await self._log.send(log_id, entries, head=message.head, on_way=wake)
        return _sent(log_id, records, is_started=False)

    def _check(self, message: NewMessage) -> None:
        limit = self._limits.content_chars
        if not message.content.strip():
            raise InvalidRequest([{"field": "/content", "issue": "must not be blank"}])
        if len(message.content) > limit:
            issue = f"must have at most {limit} characters, has {len(message.content)}"
            raise InvalidRequest([{"field": "/content", "issue": issue}])

    async def _as_answer(self, message: NewMessage, profile: Profile) -> SentMessage | None:
        """Check the session of a message; if the message answers an open question, do that."""
        if message.session_id is None:
            return None
        await self._own_session(SessionId(message.session_id), profile, message.agent)
        await self._starter.ensure_readable(LogId(message.session_id))
        return await self._answer_open(message, profile)

    async def _own_session(
        self, session_id: SessionId, profile: Profile, agent: str | None = None
    ) -> None:
        session = await self._projections.find_session(session_id)
        if (
            session is None
            or agent not in {None, session.agent}
            or not profile.owns(session.profile_id, session_id)
        ):
            whose = "there is" if agent is None else f"agent {agent!r} has"
            raise NotFound(f"{whose} no conversation {session_id!r}")

    async def _answer_open(self, message: NewMessage, profile: Profile) -> SentMessage | None:
        """Answer the open question with the message, if there is one; else return None.

        Raises QuestionOpen if a message cannot answer it.
        """
        if message.session_id is None or message.supersedes is not None:
            return None
        log_id = LogId(message.session_id)
        asked = await self._projections.open_questions(log_id)
        parked = None if asked else await self._parked_on_runs(log_id)
        waiting = [parked.task_id] if parked else [question.task_id for question in asked]
        if not waiting:
            return None
        if sent := await self._repeated.find(message, waiting[0]):
            return sent
        if message.cancel_open:
            for task_id in set(waiting):
                with suppress(TaskOver):
                    await self.cancel(task_id, profile)
            return None
        if is_informational(message.content):
            return None
        for record in asked:
            if record.question.kind in ANSWERED_BY_MESSAGE and not is_command(message.content):
                return await self._answered(message, record, profile)
        ids = [record.question.question_id for record in (parked.questions if parked else asked)]
        raise QuestionOpen(
            f"answer {', '.join(ids)} first, or send the message with cancelOpen",
            details={"questions": ids},
        )

    async def _parked_on_runs(self, log_id: LogId) -> Reply | None:
        """Return the reply of the task that waits for a run with an open question, if any."""
        of = TasksOf(status=TaskStatus.SUSPENDED)
        tasks, _ = await self._projections.tasks(log_id=log_id, of=of, page=Page(limit=1))
        reply = await self._waiter.wait(tasks[0].task_id, 0) if tasks else None
        return reply if reply and reply.questions else None

    async def _answered(
        self, message: NewMessage, asked: QuestionRecord, profile: Profile
    ) -> SentMessage:
        head = await self._log.head(asked.log_id)
        question = asked.question
        answer = answer_in_words(
            text_for_model(message.content),
            kind=question.kind,
            options=question.options,
            form=question.form,
            has_schema=question.schema is not None,
        )
        await self._record_answer(question.question_id, answer, profile, message.idempotency)
        return await self._repeated.sent(await self.task(asked.task_id, profile), head)

    def _entries(self, message: NewMessage, profile: Profile, task_id: TaskId) -> list[Entry]:
        received = MessageReceived(
            message_id=message.message_id or MessageId(self._new_id("msg")),
            content=message.content,
            model=message.model,
            enable_tools=message.enable_tools,
            selected_skills=message.selected_skills,
            supersedes=message.supersedes,
            permissions=profile.noted,
            idempotency_key=message.idempotency.key,
            request_hash=message.idempotency.request_hash,
        )
        entries = [Entry(received, task_id)]
        if message.session_id is None:
            title = cut(one_line(message.content), self._limits.title_chars)
            owner = profile.profile_id
            opened = SessionOpened(profile_id=owner, agent=message.agent, title=title)
            return [Entry(opened), *entries]
        return entries

    async def _question(self, question_id: QuestionId, profile: Profile) -> QuestionRecord:
        asked = await self._projections.find_question(question_id)
        if asked is None or not profile.owns(asked.profile_id, asked.log_id):
            raise NotFound(f"there is no question {question_id!r}")
        needed = APPROVE if asked.question.kind is QuestionKind.APPROVAL else CHAT
        if not profile.holds(needed):
            raise Forbidden(f"answering this question requires the permission {needed!r}")
        return asked


def _check_place(session_id: str | None, profile: Profile) -> None:
    """Raise NotFound if the profile is limited to another conversation."""
    if profile.session_id not in {None, session_id}:
        raise NotFound(
            f"this link opens the conversation {profile.session_id!r} only; "
            "send its id as conversationId"
        )


def _sent(log_id: LogId, records: Sequence[Record], *, is_started: bool) -> SentMessage:
    record, received = next(
        (record, record.event) for record in records if isinstance(record.event, MessageReceived)
    )
    return SentMessage(
        session_id=SessionId(log_id),
        task_id=record.task_id or TaskId(""),
        message_id=received.message_id,
        seq=record.seq,
        records=records if is_started else (),
    )
