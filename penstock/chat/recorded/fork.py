"""Forks: a new task that continues a copy of another one from an event in its middle.

Guarantees: the other task and its log stay as they are; the copy is written in one transaction, so
a crash leaves all of it or nothing; nothing that has an outcome runs again, and a write that was
open at that event is INTERRUPTED, as after a crash.

How it works. The events of the log up to the chosen one are copied under new ids of tasks,
questions and messages. Paths of calls begin with the id of their task, and bodies name all three,
so the ids are replaced in the stored form. What is left out: that the task waited or was blocked,
its open questions, which it asks again, all cancellations, and tasks that had not ended at that
event, which would run a second time. The task has only those of its permissions that the profile
of the request has too: a key must not act with those of another key. From then on the copy is a log
like any other: an activation folds it and continues.

A copy, not a reference to the other log: each conversation can be erased without the other, and no
reader has to follow two logs (docs/decisions/101). Shown by tests/chat/recorded/test_fork.py.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CallPath, tools_on
from penstock.core.envelope import Status
from penstock.core.errors import InvalidRequest, NotFound, TextErased
from penstock.core.events.child_events import (
    ChildrenSpawned,
    ChildRequested,
    TreeAsked,
    WaiterAdded,
)
from penstock.core.events.codec import encode, from_wire, kind_of
from penstock.core.events.events import (
    CallRequested,
    CallSettled,
    CallStarted,
    CancelRequested,
    Entry,
    Event,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    SessionOpened,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import (
    FlowRequested,
    HandedBack,
    HandedOff,
    RunEnded,
    StepSettled,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.schedule_events import NO_SCHEDULE, ScheduleFired
from penstock.core.ids import LogId, NewId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.core.profile import ADMIN, Profile
from penstock.core.task import TaskRecord
from penstock.engine.agent_chain import AgentChain
from penstock.store.logs.log import Log

_ID = re.compile(r"(?<![a-z])[a-z]+_\w+")
"""Begins before a word: else a long word would be searched again from each of its letters."""
_WAITS = (TaskSuspended, TaskBlocked, TaskResumed)
"""Events of the task that do not hold for its copy."""
_OUTCOMES = (CallStarted, CallSettled, StepSettled)
_NEVER = (CancelRequested, WaiterAdded, TreeAsked)
"""Events of no task hold for the copy, for which nothing waits. The end of a task says that it was
cancelled."""
_TITLE = "Fork of {}"


class EarlierWrite(Struct, frozen=True, kw_only=True):
    """A write that the task had started before the event of a fork, which does not undo it.

    Example:
        >>> from penstock import EarlierWrite
        >>> EarlierWrite(path=("order", "send_email"), tool="send_email", status="success").tool
        'send_email'
    """

    path: tuple[str, ...]
    """The tools around it, and the tool itself."""
    tool: str
    """The tool that wrote."""
    status: str
    """How it ended; `interrupted` if it was open at the event."""


class Fork(Struct, frozen=True, kw_only=True):
    """A new task with the beginning of another one.

    Example:
        >>> from penstock import Fork
        >>> Fork(task_id="task_2", log_id="conv_2").session
        'conv_2'
    """

    task_id: TaskId
    """The new task, which runs."""
    log_id: LogId
    """Its conversation; equal to the task for a direct call or a run of its own."""
    effects: tuple[EarlierWrite, ...] = ()
    """The writes before the event: the copy has their outcomes, and nothing is undone."""

    @property
    def session(self) -> str | None:
        """The new conversation; None for a direct call or a run of a flow."""
        return None if self.log_id == LogId(self.task_id) else self.log_id


class ForkRequest(Struct, frozen=True, kw_only=True):
    """The event up to which a task is copied, and the changes of the copy."""

    seq: int
    """The newest event that the copy has."""
    agent: str | None = None
    """The agent that continues; only for a task that had not started at the event."""
    title: str | None = None
    """The title of the new conversation."""
    content: str | None = None
    """Another text of the task's message; only if the message is the event."""
    task_id: TaskId | None = None
    """The id of the copy, from which that of its conversation follows; None draws both. The store
    refuses a second log of one name, also in another process."""
    again: frozenset[CallPath] = frozenset()
    """Calls and steps that run again although they have an outcome."""


class TaskCopier:
    """Copies tasks, and starts the copies."""

    def __init__(self, log: Log, new_id: NewId, wake: Callable[[LogId], None]) -> None:
        self._log = log
        self._new_id = new_id
        self._wake = wake

    async def fork(self, task: TaskRecord, request: ForkRequest, profile: Profile) -> Fork:
        """Copy a task up to an event, and start the copy with permissions that the profile has.

        Raises InvalidRequest (the event is not one of the task, or a change does not fit it),
        TextErased, NotFound, and NameTaken if the id of the copy is in use.
        """
        read = await self._log.read(task.log_id, limit=request.seq + 1)
        records = [each for each in read if each.seq <= request.seq]
        _check(task, request, records)
        # Written with the message: without it, a copy from the message would lack the context.
        more = [each for each in read[len(records) :] if isinstance(each.event, ScheduleFired)]
        copy = _Copy(task, self._new_id, profile, task_id=request.task_id)
        # A long log takes longer than other conversations should wait: 25 microseconds an event.
        entries = await asyncio.to_thread(copy.entries, [*records, *more], request)
        await self._log.send(copy.log_id, entries, on_way=self._wake)
        own = [each for each in records if each.task_id == task.task_id]
        return Fork(task_id=copy.task_id, log_id=copy.log_id, effects=tuple(_writes(own)))


class _Copy:
    """The copy of a log: its new ids and its events."""

    def __init__(
        self, task: TaskRecord, new_id: NewId, profile: Profile, *, task_id: TaskId | None
    ) -> None:
        self._task = task
        self._new_id = new_id
        self._profile = profile
        self._is_conversation = task.log_id != LogId(task.task_id)
        self.task_id = task_id or TaskId(new_id("task"))
        named = new_id("conv") if task_id is None else f"conv_{task_id}"
        self.log_id = LogId(named if self._is_conversation else self.task_id)
        self._new: dict[str, str] = {task.task_id: self.task_id}
        """The new ids by the old ones."""

    def entries(self, records: Sequence[Record], request: ForkRequest) -> list[Entry]:
        """Return the events of the copy."""
        answered = {
            each.event.question_id for each in records if isinstance(each.event, QuestionAnswered)
        }
        kept = {each.task_id for each in records if isinstance(each.event, TaskEnded)}
        kept |= {None, self._task.task_id}
        entries: list[Entry] = []
        places = {0: 0}
        """The new number of each event, for events that name the newest one before them."""
        for record in records:
            event = record.event
            is_own = record.task_id == self._task.task_id
            is_open = isinstance(event, QuestionAsked) and (
                event.question.question_id not in answered
            )
            is_undone = record.path in request.again and isinstance(event, _OUTCOMES)
            is_left_out = is_own and (is_open or is_undone or isinstance(event, _WAITS))
            if record.task_id in kept and not (is_left_out or isinstance(event, _NEVER)):
                self._name(record)
                entries.append(self._copied(record, places, request))
            places[record.seq] = len(entries)
        if request.agent is not None:
            entries += self._handed_back(entries)
        forked = Forked(from_task=self._task.task_id, from_log=self._task.log_id, seq=request.seq)
        return [*entries, Entry(forked, self.task_id)]

    def _handed_back(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return what gives the copy to its first agent: earlier tasks may have handed it off."""
        chain, longest = AgentChain(), 0
        for entry in entries:
            match entry.event:
                case SessionOpened(agent=agent):
                    chain.first = chain.newest = agent
                case HandedOff(agent=agent):
                    chain.hand_off(agent)
                case HandedBack():
                    chain.hand_back()
                case _:
                    continue
            longest = max(longest, len(chain.handed))  # a replaced message can restore an older one
        event = HandedBack(agent=chain.first, by=self._profile.profile_id)
        return [Entry(event)] * max(longest - 1, 0)

    def _name(self, record: Record) -> None:
        """Make new ids for what an event names first."""
        event = record.event
        if record.task_id is not None and record.task_id not in self._new:
            self._new[record.task_id] = self._new_id("task")
        if isinstance(event, QuestionAsked):
            self._new[event.question.question_id] = self._new_id("q")
        if isinstance(event, MessageReceived | ReplyReceived | TaskEnded) and event.message_id:
            self._new.setdefault(event.message_id, self._new_id("msg"))

    def _copied(self, record: Record, places: dict[int, int], request: ForkRequest) -> Entry:
        """Return an event under its new ids, with the changes that the fork asks for."""
        body = parse_json(self._renamed(encode(record.event)))
        event: Event = from_wire(kind_of(record.event), body)
        if isinstance(event, ReplyReceived | Summarised):
            event = replace(event, base=places.get(event.base, event.base))
        elif isinstance(event, SessionOpened):
            title = request.title or _TITLE.format(event.title)
            event = replace(event, title=title, agent=request.agent or event.agent)
        elif isinstance(event, QuestionAnswered):
            event = replace(event, idempotency_key=None, request_hash=None)
        if isinstance(event, FlowRequested):  # nothing waits for the copy of a run
            event = replace(event, waiter_log=None, waiter=None)
        elif isinstance(event, ScheduleFired):  # its context holds; no due time is taken
            nothing = {"due_at": None, "next_run": None, "missed": 0, "missed_from": None}
            event = replace(event, schedule_id=NO_SCHEDULE, **nothing)
        if isinstance(event, MessageReceived) and record.seq == request.seq and request.content:
            event = replace(event, content=request.content)
        is_own = record.task_id == self._task.task_id
        match event:
            case MessageReceived() | CallRequested() | FlowRequested():
                event = as_own(event, self._profile if is_own else None)
        path = None if record.path is None else CallPath(self._renamed(record.path))
        task_id = None if record.task_id is None else TaskId(self._new[record.task_id])
        return Entry(event, task_id, path)

    def _renamed(self, text: str) -> str:
        return _ID.sub(lambda found: self._new.get(found[0], found[0]), text)


def _check(task: TaskRecord, request: ForkRequest, records: Sequence[Record]) -> None:
    """Raise InvalidRequest or TextErased if these events cannot be continued."""
    if not records:
        raise NotFound(f"there is no task {task.task_id!r}")
    newest = records[-1]
    if newest.seq != request.seq or newest.task_id != task.task_id:
        until = "" if task.ended_seq is None else f" to {task.ended_seq}"
        issue = f"is not an event of this task, which has events from {task.first_seq}{until}"
        raise InvalidRequest([{"field": "/seq", "issue": issue}])
    if any(is_erased(each.event) for each in records):
        raise TextErased
    _check_children(task, records)
    has_started = any(
        isinstance(each.event, TaskStarted) and each.task_id == task.task_id for each in records
    )
    is_conversation = isinstance(records[0].event, SessionOpened)
    if request.agent is not None and (has_started or not is_conversation):
        issue = f"needs a seq before the task started; its message is event {task.first_seq}"
        raise InvalidRequest([{"field": "/agent", "issue": issue}])
    if request.content is not None and not isinstance(newest.event, MessageReceived):
        issue = f"needs the seq of the task's message, {task.first_seq}"
        raise InvalidRequest([{"field": "/content", "issue": issue}])


def _check_children(task: TaskRecord, records: Sequence[Record]) -> None:
    """Raise InvalidRequest for a child, and for an event at which children had not ended.

    The copy would wait for children that report to the other task only, and its end would cancel
    them; a copy of a child would report to a parent that does not know it.
    """
    own = [each.event for each in records if each.task_id == task.task_id]
    if isinstance(own[0], ChildRequested):
        issue = f"is an event of a child; fork the task that requested it: {own[0].parent}"
        raise InvalidRequest([{"field": "/seq", "issue": issue}])
    ended = {event.run_id for event in own if isinstance(event, RunEnded)}
    for record in records:
        event = record.event
        if record.task_id != task.task_id or not isinstance(event, ChildrenSpawned):
            continue
        if not ended.issuperset(event.children):
            issue = (
                f"is an event at which children of the task had not ended; name one before event "
                f"{record.seq}, which requested them, or one after their ends"
            )
            raise InvalidRequest([{"field": "/seq", "issue": issue}])


def is_erased(event: Event) -> bool:
    """Whether something of an event's task was erased. Some blank forms keep their kind."""
    match event:
        case Erased() | MessagesErased():
            return True
        case MessageReceived(message_id=message_id):
            return not message_id
        case _:
            return False


Requested = TypeVar("Requested", bound=MessageReceived | CallRequested | FlowRequested)


def as_own(event: Requested, profile: Profile | None) -> Requested:
    """Return a request as another one: without its key, and with permissions that a profile has."""
    event = replace(event, idempotency_key=None, request_hash=None)
    if profile is None:
        return event
    return replace(event, permissions=common(event.permissions, profile))


def common(noted: tuple[str, ...] | None, profile: Profile) -> tuple[str, ...] | None:
    """Return the permissions of a request that a profile has too; None means all."""
    if noted is None or (ADMIN in noted and not profile.holds(ADMIN)):
        return profile.noted
    return tuple(each for each in noted if profile.holds(each))


def _writes(records: Sequence[Record]) -> list[EarlierWrite]:
    """Return the writes that had started, with their outcomes."""
    ends = {
        record.path: record.event.envelope.status
        for record in records
        if isinstance(record.event, CallSettled)
    }
    began = {
        record.path: record.event.tool_id
        for record in records
        if isinstance(record.event, CallStarted) and record.path
    }
    return [
        EarlierWrite(path=tuple(tools_on(path)), tool=tool, status=_status(ends.get(path)))
        for path, tool in began.items()
    ]


def _status(status: Status | None) -> str:
    return "interrupted" if status is None else status.value
