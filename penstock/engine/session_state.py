"""The state of a session: the fold of its log, and a bounded cache of folded logs.

`SessionState` guarantees: the state depends on the events alone, so every process that folds a log
gets the same state, and resuming after a crash is folding again. `apply` costs the same for event
10 and event 10,000: it changes in place, because copying a dict per event would be quadratic.
Events of the current task go through `apply`, events of the session and of queued tasks through
`_apply_elsewhere`; both end in `assert_never`, so mypy reports an event without a case. The holder
applies its own events before they are written and outside events when it reads them, so outside
events must commute with the holder's. `seq` is the position in the log, `tick` the order of
application, which also orders events that have no `seq` yet.

`StateCache` guarantees: `take` returns the state at the head of the lease, or past it if outside
events followed; it contains no erased text. A cached state loses text that another process erased
within one sweep (`limits.sweep_seconds`). A damaged log raises StoreCorrupt before anything is
appended to it. A cached state follows the commits of this process, so a next turn folds nothing;
what another process wrote in between is applied on top. A log that is erased while it is held or
being folded is marked stale, and `keep` refuses its state. It relies on `observe` receiving the
commits of this process to logs that are not held here, in order, and on `drop_erased` in every
sweep, since `observe` does not receive an erase by another process.

Shown by test_session_state.py and test_cold_folds.py; test_held_log.py folds each log again.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import assert_never

from penstock.core.call import CallPath
from penstock.core.events.child_events import ChildEvent, ChildRequested, WaiterAdded
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Event,
    MessageReceived,
    NoteEmitted,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    ReplyRestarted,
    SecretGiven,
    SessionOpened,
    SkillsSelected,
    StateWritten,
    TaskBlocked,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FlowNotified,
    FlowRequested,
    FlowStarted,
    HandedBack,
    HandedOff,
    RunEnded,
    StepSettled,
    StepStarted,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.events.roles import OwnEvent
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import AssistantMessage, UserMessage
from penstock.engine.agent_chain import AgentChain, back_to, opened_by
from penstock.engine.dialogue import Dialogue, MessageList
from penstock.engine.related_tasks import hear, may_start, relate
from penstock.engine.slash_commands import text_for_model
from penstock.engine.task_state import Brief, TaskState
from penstock.store.logs.log import Lease, Log

_RESUMES = frozenset({TaskResumed, TaskBlocked})
"""Events before which a task did not work."""


class SessionState:
    """A log after some events. Only `apply` changes it, at constant cost."""

    __slots__ = (
        *("__weakref__", "is_short", "is_stale", "omits", "saved"),
        "agents",
        "aside",
        "current",
        "last_at",
        "log_id",
        "messages",
        "opened",
        "past",
        "queue",
        "selected",
        "seq",
        "session_id",
        "tick",
    )

    def __init__(self, log_id: LogId) -> None:
        self.log_id = log_id
        self.session_id = log_id
        self.seq = 0
        """Number of the newest event that is applied together with all events before it."""
        self.tick = 0
        """Number of applied events; orders events that have no `seq` yet."""
        self.last_at = 0
        self.opened: SessionOpened | None = None
        self.agents = AgentChain()
        self.selected: tuple[str, ...] = ()
        """Skills selected for the session. Replaced when it grows: rounds keep the old one."""
        self.queue: dict[TaskId, TaskState] = {}
        """Tasks that wait for the current one, oldest first."""
        self.aside: list[TaskState] = []
        """Tasks that ended in the queue while others wait for their ends."""
        self.current: TaskState | None = None
        self.messages = MessageList()
        self.past: list[MessageList] = []
        """The messages before each fresh start."""
        self.saved = 0
        """The event of the newest known snapshot."""
        self.omits = False
        """It was folded from a snapshot that leaves out `past`, and `gone` of the messages."""
        self.is_short = False
        """A task needed what the snapshot leaves out: fold all events instead."""
        self.is_stale = False
        """It may have text that was erased: do not keep it."""

    @property
    def is_idle(self) -> bool:
        """Whether no task is running, queued or suspended."""
        return not self.queue and (self.current is None or self.current.is_ended)

    @property
    def has_questions(self) -> bool:
        """Whether the current task has open questions, which may expire, or some that did."""
        return (task := self.current) is not None and bool(task.waits.waiting or task.waits.bounded)

    def next_task(self) -> TaskState | None:
        """Return the task to run next: the current one, or a queued one that may run now."""
        current = self.current
        if current is None or current.is_ended:
            first = next(iter(self.queue.values()), None)
            waits = first is not None and type(first.brief) is ChildRequested
            return None if first is None or (waits and not may_start(first)) else first
        if current.is_suspended:
            return next((task for task in self.queue.values() if task.may_pass), None)
        return current

    def lacks(self, task: TaskState) -> bool:
        """Whether a task replaces one whose messages are not here."""
        replaced = task.brief.supersedes if isinstance(task.brief, MessageReceived) else None
        known = [each for messages in (*self.past, self.messages) for each in messages.boundaries]
        return replaced is not None and replaced not in [each.task_id for each in known]

    def apply(self, event: Event, task_id: TaskId | None, path: CallPath | None, at: int) -> None:
        """Apply the next event."""
        self.tick += 1
        task = self.current
        if task is None or task.task_id != task_id:
            self._apply_elsewhere(event, task_id, at)
            return
        self._spend(task, event, at)
        match event:
            case CallSettled():
                task.settle(event, path, self.tick)
            case ReplyReceived():
                task.add_reply(event, path, self.selected, at)
            case TaskEnded():
                self._end(task, event)
            case AgentStarted() | AgentReminded():
                task.instruct_agent(event, path)
            case FlowStarted() | StepStarted() | StepSettled() | FlowNotified():
                task.flow_events.append((path, event))
            case CallStarted() | CallRetried() if path:
                task.record_start(event, path, self.tick)
            case QuestionAsked(question=question):
                task.ask(question, self.tick, at)
            case QuestionAnswered():
                task.answer(event, self.tick)
            case SkillsSelected():
                self._select(event, task.agent_around(path))
            case PromptResolved() | SecretGiven() | StateWritten() | HookDecided() | Summarised():
                task.record_value(event, path)
            case TaskSuspended() | TaskBlocked() | TaskResumed() | WaitExpired():
                task.suspend_or_block(event, self.tick)
            case _ if isinstance(event, RunEnded | ChildEvent):
                relate(task, event, self.tick)
            case HandedOff():
                task.hand_off(event, self.agents)
            case ReplyRestarted():
                task.dialogue_at(path).reply = None
            case CancelRequested():
                task.cancel_requested, task.is_suspended, task.cancelled_by = True, False, event.by
            case NoteEmitted():
                task.note(event, path)
            case (
                (CallStarted() | CallRetried() | TaskStarted() | SessionOpened() | Erased())
                | (MessageReceived() | CallRequested() | FlowRequested() | ScheduleFired())
                | (MessagesErased() | HandedBack() | Forked())
            ):
                pass
            case _:
                assert_never(event)

    def _spend(self, task: TaskState, event: Event, at: int) -> None:
        """Add the time since the last event to the task's active time, unless it waited."""
        if not (task.is_suspended or task.blocked_on) and type(event) not in _RESUMES:
            elapsed = at - self.last_at
            if type(event) is ReplyReceived:
                elapsed -= event.waited_ms
            if elapsed > 0:
                task.spent.active_ms += elapsed
        self.last_at = at

    def _apply_elsewhere(self, event: Event, task_id: TaskId | None, at: int) -> None:
        match event:
            case TaskStarted() if task_id:
                self._start(event, task_id, at)
            case SessionOpened():
                self.opened, self.agents.first, self.agents.newest = event, event.agent, event.agent
            case MessageReceived() | CallRequested() | FlowRequested() | ChildRequested():
                self._enqueue(event, task_id or TaskId(""))
            case RunEnded() | WaiterAdded() | CancelRequested() | TaskBlocked() | ScheduleFired():
                if queued := self.queue.get(task_id or TaskId("")):
                    hear(queued, event)
            case TaskEnded() if task_id in self.queue:
                task = self.queue.pop(task_id)
                task.is_ended, task.ended_as = True, event.status
                if self.current is not None and task.waits.waiters:
                    self.aside.append(task)
                self.current = self.current or task
            case HandedBack():
                self.agents.hand_back()
            case SkillsSelected():
                self._select(event)
            case TaskStarted() | TaskEnded() | Forked():
                pass
            case _ if isinstance(event, OwnEvent):
                pass
            case _:
                assert_never(event)

    def _enqueue(self, brief: Brief, task_id: TaskId) -> None:
        self.queue[task_id] = TaskState(task_id, brief, main=Dialogue(self.messages))
        if isinstance(brief, ChildRequested):
            self.session_id, self.opened = brief.session, opened_by(brief)
            self.agents.first = self.agents.newest = brief.agent

    def _start(self, event: TaskStarted, task_id: TaskId, at: int) -> None:
        if self.current is not None and not self.current.is_ended and task_id in self.queue:
            # A queued task that was cancelled, or a slash command, may start before its turn.
            self.queue[task_id].started = event
            return
        self.current = task = self.queue.pop(task_id, None) or TaskState(task_id, None)
        task.started, self.last_at = event, at
        self.is_short = self.is_short or (self.omits and self.lacks(task))
        # Kept in `past`: superseding an older message restores the messages before it.
        if event.is_fresh:
            self.past.append(self.messages)
            self.messages, self.selected = MessageList(), ()
        brief = task.brief
        if isinstance(brief, MessageReceived) and brief.supersedes is not None:
            self.messages = back_to(brief.supersedes, self.past, self.messages, self.agents)
        if type(brief) not in (CallRequested, FlowRequested):  # these add no messages
            self.messages.begin(task_id, self.agents.handed, event.offered)
        task.main.messages = self.messages
        if isinstance(brief, MessageReceived) and brief.message_id:
            text = text_for_model(brief.content)
            self.messages.add_asked(UserMessage(text, brief.attachments))
        elif event.brief:
            self.messages.add_asked(UserMessage(event.brief))

    def _select(self, event: SkillsSelected, inner: Dialogue | None = None) -> None:
        holder = inner or self
        holder.selected = tuple(dict.fromkeys((*holder.selected, *event.skill_ids)))

    def _end(self, task: TaskState, event: TaskEnded) -> None:
        task.is_ended, task.ended_as = True, event.status
        if (event.content or event.output) and (text := task.text_without_reply(event)):
            self.messages.add(AssistantMessage(text), text)


def fold(log_id: LogId, records: Iterable[Record]) -> SessionState:
    """Return the state after the given events of a log."""
    state = SessionState(log_id)
    catch_up(state, records)
    return state


def catch_up(state: SessionState, records: Iterable[Record]) -> None:
    """Apply stored events that follow those in the state."""
    for record in records:
        state.apply(record.event, record.task_id, record.path, record.at)
        state.seq = record.seq


CACHED_STATES = 512
"""Folded states that a process keeps in memory for their next turn."""
SNAPSHOT_EVENTS = 500
"""Fewest events between two snapshots of a log; folding them takes about 5 ms."""
Fold = Callable[[LogId, int, SessionState | None], Awaitable[SessionState]]
"""Folds a log to its head, from a known state or as `ColdFolds` does. Raises StoreCorrupt."""


class StateCache:
    """States of at most `most` logs; the state that was kept longest is dropped first."""

    def __init__(
        self, log: Log, held: Container[LogId], folded: Fold, *, most: int = CACHED_STATES
    ) -> None:
        self._log = log
        self._folded = folded
        self._held = held
        """Logs with an activation in this process."""
        self._reading: set[LogId] = set()
        """Logs that `ensure_readable` is folding."""
        self._stale: set[LogId] = set()
        """Held or folding logs in which something was erased; their states are not kept."""
        self._most = most
        self._kept: OrderedDict[LogId, SessionState] = OrderedDict()
        self._due: dict[LogId, None] = {}

    def find(self, log_id: LogId) -> SessionState | None:
        """Return the cached state of a log."""
        return self._kept.get(log_id)

    async def ensure_readable(self, log_id: LogId) -> None:
        """Fold a log into the cache, unless it is cached, held or empty.

        Raises StoreCorrupt if the log cannot be read.
        """
        if self._is_here(log_id):
            return
        self._reading.add(log_id)
        try:
            state = await self._folded(log_id, await self._log.head(log_id), None)
        finally:
            self._reading.discard(log_id)
        if state.seq and not self._is_here(log_id):
            self.keep(state)

    async def take(self, lease: Lease) -> SessionState:
        """Remove and return the state of a log at the head of its lease, or past it."""
        log_id = lease.log_id
        self._stale.discard(log_id)
        state = self._kept.pop(log_id, None)
        if state is not None and state.seq == lease.head:
            return state
        return await self._folded(log_id, lease.head, state)

    def keep(self, state: SessionState) -> None:
        """Cache a state, unless something in its log was erased meanwhile."""
        if state.log_id in self._stale or state.is_stale:
            self._stale.discard(state.log_id)
            return
        self._kept[state.log_id] = state
        if state.seq - state.saved >= SNAPSHOT_EVENTS:
            self._due[state.log_id] = None
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def observe(self, records: Sequence[Record]) -> None:
        """Apply committed events to the cached state; cache the state of a new log."""
        log_id, first = records[0].log_id, records[0].seq
        if len(records) > SNAPSHOT_EVENTS or MessagesErased in [type(one.event) for one in records]:
            self.forget(log_id)  # its next activation folds it, a long copy in parts
        elif first == 1:  # a new log: these records are all of it, so nothing has to be read
            self.keep(fold(log_id, records))
        elif (state := self._kept.get(log_id)) and state.seq == first - 1:
            catch_up(state, records)
            if state.is_short:
                del self._kept[log_id]

    def forget(self, log_id: LogId) -> None:
        """Drop the state of a log in which something was erased."""
        self._kept.pop(log_id, None)
        if log_id in self._held or log_id in self._reading:
            self._stale.add(log_id)

    async def drop_erased(self) -> None:
        """Drop states of logs that another process deleted or in which it erased something."""
        known = {log_id: state.seq for log_id, state in self._kept.items()}
        for log_id in await self._log.erased(known) if known else ():
            self.forget(log_id)

    def next_due(self) -> SessionState | None:
        """Return a state that rests here with enough new events for a snapshot, once."""
        while self._due:
            if state := self._kept.get(self._due.popitem()[0]):
                return state
        return None

    def _is_here(self, log_id: LogId) -> bool:
        return log_id in self._kept or log_id in self._held
