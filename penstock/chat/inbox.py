"""The inbox of conversations: messages, cancels, direct calls and flow runs.

Guarantees: what a method accepts is committed when it returns, and its task gets a run; a request
that is repeated with its Idempotency-Key has the effect of one; a caller sees only what its profile
owns, and everything else as NotFound.

How: each request is one outside event, appended without the lease of the log, so it never waits
for the task that is running. A message to a new conversation, or to one that is cached and idle,
takes a short way, and so does a direct call with a log of its own: `Log.begin` appends it with
TaskStarted and acquires the lease, in one commit instead of three, each of which the reader would
wait for (docs/decisions/006). The cache may be wrong, because another process has written to the
log. So the expected head is part of the statement: if it differs, or the log is held, nothing is
written and the message takes the ordinary way. So does a request that must wait for a free slot of
the launcher: it holds no lease while it waits.

Relies on: the store orders concurrent appends and refuses a second answer, a taken name and a
reused key; the checks here only choose the error message. A log is read before an event is appended
to it: otherwise a damaged log would accept events that no task can ever process. Shown by
tests/chat/test_inbox.py and tests/contracts.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from penstock.chat.answers import Answers
from penstock.chat.recorded.task_records import RepeatedRequests, first_task
from penstock.chat.requests import (
    NewMessage,
    SentMessage,
    check_content,
    check_reach,
    message_entries,
    sent_message,
)
from penstock.chat.task_waiter import TaskWaiter
from penstock.core.errors import (
    IdempotencyConflict,
    NotFound,
    TaskOver,
)
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import (
    CallRequested,
    CancelRequested,
    Entry,
    MessageReceived,
    Record,
    TaskStarted,
)
from penstock.core.events.flow_events import FlowRequested
from penstock.core.ids import LogId, SessionId, TaskId
from penstock.core.limits import World
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.task import TaskRecord, TaskStatus
from penstock.engine.activation import Activations
from penstock.engine.launcher import Launcher
from penstock.store.blobs import Blobs
from penstock.store.logs.log import Log
from penstock.store.projections import Projections

Start = Callable[[str, MessageReceived, Profile], TaskStarted | None]
"""Return the start event of a task; None if that needs more checks, as for a missing model."""


def start_of_call(requested: CallRequested) -> TaskStarted:
    """Return the start event of a direct call's task."""
    return TaskStarted(offered=(requested.tool_id,))


class TaskStarter:
    """Starts tasks of conversations that are new, or cached and idle."""

    def __init__(self, activations: Activations, launcher: Launcher, start: Start) -> None:
        self._activations = activations
        self.launcher = launcher
        self._start = start

    def can_start_now(self, message: NewMessage, profile: Profile) -> bool:
        """Return whether nothing precedes a message of this profile, as far as the cache knows."""
        if message.session_id is None:
            return True
        state = self._activations.states.find(LogId(message.session_id))
        if state is None or state.opened is None or not state.is_idle:
            return False
        opened, agent = state.opened, message.agent
        is_its = agent in (opened.agent, state.agents.newest)
        return is_its and profile.owns(opened.profile_id, message.session_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache. Raises StoreCorrupt if it cannot be read."""
        await self._activations.ensure_readable(log_id)

    async def newest_agent(self, log_id: LogId) -> str:
        """Return the agent that has a conversation now."""
        return await self._activations.newest_agent(log_id)

    async def begin(
        self, log_id: LogId, agent: str, entries: Sequence[Entry], profile: Profile
    ) -> Sequence[Record] | None:
        """Write a message (the last entry) with the start of its task, and wake the launcher.

        Returns None, with nothing written, if the message has to wait. Raises what `Log.send`
        raises.
        """
        received, task_id = entries[-1].event, entries[-1].task_id
        assert isinstance(received, MessageReceived)  # noqa: S101
        # The entries of a new conversation begin with SessionOpened: nothing of it is cached.
        state = None if len(entries) > 1 else self._activations.states.find(log_id)
        head, handed = (0, ()) if state is None else (state.seq, state.agents.handed)
        started = self._start(handed[-1] if handed else agent, received, profile)
        if started is None:
            return None
        if handed:
            started = replace(started, agent=handed[-1])
        records = await self._activations.begin(
            log_id, [*entries, Entry(started, task_id)], head=head
        )
        if records is not None:
            self.launcher.wake(log_id)
        return records

    async def begin_call(self, task_id: TaskId, requested: CallRequested) -> bool:
        """Write a direct call with the start of its task to a new log, and wake the launcher.

        Returns False, with nothing written, if the call has to wait. Raises what `Log.send` raises.
        """
        log_id = LogId(task_id)
        entries = [Entry(requested, task_id), Entry(start_of_call(requested), task_id)]
        if await self._activations.begin(log_id, entries, head=0) is None:
            return False
        self.launcher.wake(log_id)
        return True


class Inbox:
    """Accepts requests of people and programs; `app/runtime` waits for their results."""

    def __init__(
        self,
        log: Log,
        projections: Projections,
        starter: TaskStarter,
        waiter: TaskWaiter,
        *,
        world: World,
        blobs: Blobs,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._projections = projections
        self._starter = starter
        self._launcher = starter.launcher
        self._repeated = RepeatedRequests(log, projections)
        self.answers = Answers(log, projections, starter, waiter)
        self._world = world
        self._limits = world.limits

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
        try:
            check_content(message, self._limits)
            check_reach(message.session_id, profile)
            return await self._sent(message, profile, task_id or TaskId(self._world.new_id("task")))
        except IdempotencyConflict as error:
            self._abandon(message)
            return await self._repeated.first(message, error)
        except BaseException:
            self._abandon(message)
            raise

    def _abandon(self, message: NewMessage) -> None:
        """Let a sweep delete the files of a message that was not written."""
        if message.attachments:
            self._blobs.abandon(each.blob_id for each in message.attachments)

    async def request_reply(self, message: NewMessage, profile: Profile, task_id: TaskId) -> TaskId:
        """Send a message as `send` does, and return the id of the task that answers it."""
        return (await self.send(message, profile, task_id=task_id)).task_id

    async def request(
        self,
        log_id: LogId,
        task_id: TaskId,
        requested: CallRequested | FlowRequested | ChildRequested,
    ) -> TaskId:
        """Request a task. It is committed and the task queued when this returns.

        Returns the id of the task, or that of the first request with the same key. Raises
        SessionBusy, IdempotencyConflict.
        """
        try:
            # A call outside of a conversation has a log of its own, with the id of its task.
            alone = requested if str(log_id) == task_id else None
            if isinstance(alone, CallRequested) and await self._starter.begin_call(task_id, alone):
                return task_id
            await self._log.send(log_id, [Entry(requested, task_id)], on_way=self._launcher.wake)
        except IdempotencyConflict as error:
            return first_task(error)
        return task_id

    async def check_session(
        self, session_id: SessionId, profile: Profile, agent: str | None = None
    ) -> None:
        """Raise NotFound if it is not the profile's or agent's, StoreCorrupt if it is damaged.

        A conversation that was handed off is that of both: of the agent that it started with, and
        of the one that has it now.
        """
        session = await self._projections.find_session(session_id)
        if session is not None and profile.owns(session.profile_id, session_id):
            await self._starter.ensure_readable(LogId(session_id))
            if agent in {None, session.agent}:
                return
            if agent == await self._starter.newest_agent(LogId(session_id)):
                return
        whose = "there is" if agent is None else f"agent {agent!r} has"
        raise NotFound(f"{whose} no conversation {session_id!r}")

    async def resume(self, task_id: TaskId, profile: Profile) -> None:
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

    async def _sent(self, message: NewMessage, profile: Profile, task_id: TaskId) -> SentMessage:
        is_new = message.supersedes is None and message.head is None
        is_short = is_new and self._starter.can_start_now(message, profile)
        if not is_short and (answered := await self._as_answer(message, profile)):
            return answered
        log_id = LogId(message.session_id or self._world.new_id("conv"))
        entries = message_entries(message, profile, task_id, self._world)
        if is_short:
            if records := await self._starter.begin(log_id, message.agent, entries, profile):
                return sent_message(log_id, records, is_started=True)
            # The log is not as the cache has it, so the checks that were skipped are due now.
            if answered := await self._as_answer(message, profile):
                return answered
        wake = self._launcher.wake
        records = await self._log.send(log_id, entries, head=message.head, on_way=wake)
        return sent_message(log_id, records, is_started=False)

    async def _as_answer(self, message: NewMessage, profile: Profile) -> SentMessage | None:
        """Check the session of a message; if the message answers an open question, do that."""
        if message.session_id is None:
            return None
        await self.check_session(SessionId(message.session_id), profile, message.agent)
        if message.supersedes is not None:
            return None
        waits = await self.answers.open_waits(LogId(message.session_id))
        if not waits.tasks:
            return None
        if sent := await self._repeated.find(message, waits.tasks[0]):
            return sent
        if message.cancel_open:
            for task_id in set(waits.tasks):
                with suppress(TaskOver):
                    await self.cancel(task_id, profile)
            return None
        return await self.answers.answer_with(message, waits, profile)
