"""Retries: a new task with the start of one that failed or was cancelled.

Guarantees: a task has one retry that is open or has succeeded, over any number of requests at the
same time; a task that has not ended, or that succeeded, is not started again.

How: the id of a retry follows from the id of the task and its number, so the store refuses the
second of two equal requests, and the number of a retry is found without a table. A retry from the
start is requested as the task was: a message is answered again in the place of the missing answer,
calls and runs have a log of their own. One that resumes is a fork: what has an outcome is copied
(`chat/recorded/fork`), but for the failure itself. The retry of a child is a task of no parent: the
one that requested it has continued, or ended, with the failure.
Shown by tests/chat/recorded/test_retry.py and tests/journeys/test_retries.py.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.chat.recorded.fork import (
    ForkRequest,
    TaskCopier,
    as_own,
    common,
    is_erased,
)
from penstock.chat.recorded.task_records import first_record, records_of
from penstock.core.call import CallPath, is_below
from penstock.core.call_errors import Cancelled, Interrupted, ToolTimeout
from penstock.core.errors import (
    InvalidRequest,
    NameTaken,
    NotFound,
    SessionBusy,
    TaskOver,
    TaskRunning,
    TextErased,
)
from penstock.core.events.child_events import CHILD, ChildRequested
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CallStarted,
    Entry,
    Event,
    MessageReceived,
    QuestionAnswered,
    Record,
    TaskEnded,
)
from penstock.core.events.flow_events import (
    AgentStarted,
    FlowNotified,
    FlowRequested,
    Outcome,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import LogId, SessionId, TaskId, retried, retry_id
from penstock.core.profile import Profile
from penstock.core.task import TaskRecord, TaskStatus
from penstock.store.blobs import Blobs
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections

LATER = (
    "the conversation went on after this task, and a new answer would remove what followed; fork "
    "the task, or send the message again"
)
_UNCLEAR = frozenset({Interrupted.code, ToolTimeout.code})
"""The codes of calls that may or may not have happened."""
_FAILURES = frozenset({TaskStatus.FAILED, TaskStatus.CANCELLED})


Attend = Callable[[TaskId, TaskId, LogId], Awaitable[None]]
"""Has the end of a task reported to another one, in its log."""


class TaskRequests(Protocol):
    """Requests tasks; see `Inbox`."""

    async def task(self, task_id: TaskId, profile: Profile) -> TaskRecord:
        """Return a task that the profile owns, or raise NotFound."""
        ...

    async def resume(self, task_id: TaskId, profile: Profile) -> None:
        """Wake a task that may have been left unfinished."""
        ...

    async def check_session(self, session_id: SessionId, profile: Profile) -> None:
        """Raise NotFound if it is not the profile's, StoreCorrupt if it is damaged."""
        ...

    async def request(
        self,
        log_id: LogId,
        task_id: TaskId,
        requested: CallRequested | FlowRequested | ChildRequested,
    ) -> TaskId:
        """Request a task. It is committed and the task queued when this returns."""
        ...


class RetryParts(Struct, frozen=True, kw_only=True):
    """The parts of the runtime that start and know tasks."""

    log: Log
    projections: Projections
    blobs: Blobs
    inbox: TaskRequests
    copier: TaskCopier
    attend: Attend


class TaskRetries:
    """Starts tasks again."""

    def __init__(self, parts: RetryParts) -> None:
        self._parts = parts

    async def retry(self, task_id: str, profile: Profile, *, resumes: bool = False) -> TaskRecord:
        """Start a task again, or return its retry that is open or has succeeded.

        With `resumes` the retry has all that the task has done, and continues before its failure.
        Raises NotFound, TaskRunning, TaskOver (it succeeded), TextErased, InvalidRequest (an undo,
        or what cannot be resumed) and SessionBusy (its conversation went on).
        """
        parts = self._parts
        task = await parts.inbox.task(TaskId(task_id), profile)
        original = retried(task.task_id) or task.task_id
        while True:
            retries = await self._retries(original)
            if retries and retries[-1].status not in _FAILURES:
                await self._go_on(retries[-1], profile)
                return retries[-1]
            _check(task)
            new = retry_id(original, len(retries) + 1)
            try:
                if resumes:
                    await self._resume(task, new, profile)
                else:
                    await self._begin(task, [task, *retries], new, profile)
            except (NameTaken, SessionBusy):
                if await parts.projections.find_task(new) is None:
                    raise
                continue  # another request was faster: its retry is returned
            return await parts.inbox.task(new, profile)

    async def _retries(self, original: TaskId) -> list[TaskRecord]:
        """Return the retries of a task, oldest first."""
        found: list[TaskRecord] = []
        find = self._parts.projections.find_task
        while (record := await find(retry_id(original, len(found) + 1))) is not None:
            found.append(record)
        return found

    async def _begin(
        self, task: TaskRecord, tried: Sequence[TaskRecord], new: TaskId, profile: Profile
    ) -> None:
        """Request a task as it was requested. `tried` is the task with its retries."""
        parts, brief = self._parts, (await first_record(self._parts.log, task)).event
        if is_erased(brief):
            raise TextErased
        match brief:
            case MessageReceived():
                await self._send(brief, tried, new, profile)
            case CallRequested(undoes=undone) if undone is not None:
                raise _refused(f"{task.task_id!r} is an undo; undo {undone!r} again")
            case CallRequested():
                log_id = LogId(new) if task.log_id == LogId(task.task_id) else task.log_id
                await parts.inbox.request(log_id, new, as_own(brief, profile))
            case FlowRequested():
                alone = replace(as_own(brief, profile), waiter_log=None, waiter=None, depth=0)
                await parts.inbox.request(LogId(new), new, alone)
            case ChildRequested():
                await self._begin_child(brief, new, profile)

    async def _send(
        self, brief: MessageReceived, tried: Sequence[TaskRecord], new: TaskId, profile: Profile
    ) -> None:
        """Answer a message again, in the place of the answer that is missing."""
        parts, log_id = self._parts, tried[0].log_id
        await parts.inbox.check_session(SessionId(log_id), profile)
        head = await parts.log.head(log_id)
        (newest, *_), _ = await parts.projections.tasks(log_id=log_id, page=Page(limit=1))
        if newest.task_id not in {each.task_id for each in tried}:
            raise SessionBusy(LATER)
        for each in brief.attachments:  # named by two messages from now on
            await parts.blobs.share(each.blob_id)
        again = replace(as_own(brief, profile), supersedes=newest.task_id)
        await parts.log.send(log_id, [Entry(again, new)], head=head)
        await parts.inbox.resume(new, profile)

    async def _begin_child(self, brief: ChildRequested, new: TaskId, profile: Profile) -> None:
        """Request a child as a task of its own, below no other one."""
        parts, log_id, nobody = self._parts, LogId(new), TaskId("")
        permissions = common(brief.permissions, profile)
        alone = replace(brief, parent=nobody, parent_log=LogId(""), root=new, root_log=log_id)
        alone = replace(alone, depth=0, key="", batch_id="", permissions=permissions)
        await parts.inbox.request(log_id, new, alone)
        await self._attend(new, brief)

    async def _attend(self, new: TaskId, brief: ChildRequested) -> None:
        """Have the ends of its dependencies reported to a child; those that have ended, at once."""
        for each in brief.dependencies:
            await self._parts.attend(each.task_id, new, LogId(new))

    async def _go_on(self, task: TaskRecord, profile: Profile) -> None:
        """Wake a retry that a process may have left, also right after it had requested it."""
        if task.kind == CHILD and task.started_seq is None:
            brief = (await first_record(self._parts.log, task)).event
            if isinstance(brief, ChildRequested):
                await self._attend(task.task_id, brief)
        await self._parts.inbox.resume(task.task_id, profile)

    async def _resume(self, task: TaskRecord, new: TaskId, profile: Profile) -> None:
        """Copy a task up to its failure."""
        parts = self._parts
        if profile.session_id is not None:
            raise NotFound("a link to one conversation cannot resume: a copy is another one")
        records = await records_of(parts.log, task)
        if any(isinstance(each.event, ChildRequested) for each in records):
            raise _refused('"resume" is not for children; leave it out', "/mode")
        seq, again = before_failure(records)
        await parts.copier.fork(task, ForkRequest(seq=seq, task_id=new, again=again), profile)


def _check(task: TaskRecord) -> None:
    """Raise TaskRunning or TaskOver if a task need not be started again."""
    if not task.status.is_final:
        raise TaskRunning("the task has not ended; wait for its end, or cancel it")
    if task.status not in _FAILURES:
        raise TaskOver("the task succeeded; fork it to try something else")


def _refused(issue: str, field: str = "/taskId") -> InvalidRequest:
    return InvalidRequest([{"field": field, "issue": issue}])


def before_failure(records: Sequence[Record]) -> tuple[int, frozenset[CallPath]]:
    """Return the newest event before the end of a task, and what ended it: calls and steps.

    Calls that failed with the task, or were not made because of its end, run again; so do the
    newest steps of a flow if they failed. A write that may have happened does not.
    """
    kept, codes = list(records[:-1]), {Cancelled.code, *_codes(records[-1].event)}
    begun = {each.path for each in kept if isinstance(each.event, CallStarted)}
    frames = {each.path for each in kept if isinstance(each.event, AgentStarted)}
    again: set[CallPath] = set()
    is_last = True
    """Whether only ends follow: of calls, of steps, and of questions."""
    for record in reversed(kept):
        event, path = record.event, record.path
        if isinstance(event, StepStarted):
            break
        if isinstance(event, StepSettled) and event.outcome is not Outcome.SUCCESS and path:
            again.add(path)
        elif isinstance(event, CallSettled) and is_last and path and event.envelope.error:
            code = event.envelope.error.code
            is_inside = any(is_below(path, outer) for outer in again - frames)
            if (code in codes or is_inside) and not (code in _UNCLEAR and path in begun):
                again.add(path)
        elif not isinstance(event, QuestionAnswered | FlowNotified | StepSettled):
            is_last = False
    return kept[-1].seq, frozenset(again)


def _codes(end: Event) -> Iterator[str]:
    """Yield the code of the error that ended a task."""
    if isinstance(end, TaskEnded):
        error = end.error or (end.envelope and end.envelope.error)
        if error:
            yield error.code
