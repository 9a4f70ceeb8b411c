"""The state of a session: the fold of its log.

Guarantees: the state depends on the events alone, so every process that folds a log gets the same
state, and resuming after a crash is folding again. `apply` costs the same for event 10 and event
10,000: it changes in place, because copying a dict per event would be quadratic.

Events of the current task go through `apply`, events of the session and of queued tasks through
`_apply_elsewhere`; both end in `assert_never`, so mypy reports an event without a case. The holder
applies its own events before they are written and outside events when it reads them, so outside
events must commute with the holder's. `seq` is the position in the log, `tick` the order of
application, which also orders events that have no `seq` yet.

Shown by tests/engine/test_state.py; tests/engine/test_held_log.py folds each log again.
"""

from collections.abc import Iterable
from typing import assert_never

from penstock.core.call import CallPath
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    CancelRequested,
    Erased,
    Event,
    MessageReceived,
    MessagesErased,
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
    RunEnded,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import LogId, TaskId
from penstock.core.messages import AssistantMessage, UserMessage, text_for_model
from penstock.engine.dialogue import MessageList, back_to
from penstock.engine.task_state import TaskState


class SessionState:
    """A log after some events. Only `apply` changes it, at constant cost."""

    __slots__ = (
        "current",
        "last_at",
        "log_id",
        "opened",
        "past",
        "queue",
        "said",
        "selected",
        "seq",
        "tick",
    )

    def __init__(self, log_id: LogId) -> None:
        self.log_id = log_id
        self.seq = 0
        """Number of the newest event that is applied together with all events before it."""
        self.tick = 0
        """Number of applied events; orders events that have no `seq` yet."""
        self.last_at = 0
        self.opened: SessionOpened | None = None
        self.selected: tuple[str, ...] = ()
        """Skills selected for the session. Replaced when it grows, so rounds can keep the old one.
        """
        self.queue: dict[TaskId, TaskState] = {}
        """Tasks that wait for the current one, oldest first."""
        self.current: TaskState | None = None
        self.said = MessageList()
        self.past: list[MessageList] = []
        """The messages before each fresh start."""

    @property
    def is_idle(self) -> bool:
        """Whether no task is running, queued or suspended."""
        return not self.queue and (self.current is None or self.current.is_ended)

    def next_task(self) -> TaskState | None:
        """Return the task to run next: the current one, or a queued one that may run now."""
        current = self.current
        if current is None or current.is_ended:
            return next(iter(self.queue.values()), None)
        if current.is_suspended:
            return next((task for task in self.queue.values() if task.may_pass), None)
        return current

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
                task.add_reply(event, path, self.selected)
            case AgentStarted() | AgentReminded() if path:
                task.instruct_agent(event, path)
            case FlowStarted() | StepStarted() | StepSettled() | FlowNotified():
                task.story.append((path, event))
            case CallStarted() | CallRetried() if path:
                task.enter(event, path, self.tick)
            case QuestionAsked(question=question):
                task.waits.ask(question, self.tick)
            case QuestionAnswered():
                task.answer(event, self.tick)
            case SkillsSelected():
                self._select(event)
            case PromptResolved() | SecretGiven() | StateWritten():
                task.keep(event)
            case TaskSuspended() | TaskBlocked():
                task.wait(event)
            case RunEnded():
                task.end_run(event.run_id)
            case TaskResumed():
                task.is_suspended, task.blocked_on = False, ()
            case ReplyRestarted():
                task.dialogue_at(path).reply = None
            case CancelRequested():
                task.cancel_requested, task.is_suspended, task.cancelled_by = True, False, event.by
            case TaskEnded():
                self._end(task, event)
            case NoteEmitted() if path:
                for note in ((path, event.event_type), (path, event.line)):
                    task.records.notes[note] = task.records.notes.get(note, 0) + 1
            case CallStarted() | CallRetried() | NoteEmitted() | AgentStarted() | AgentReminded():
                pass
            case SessionOpened() | MessageReceived() | CallRequested() | FlowRequested():
                pass
            case TaskStarted() | Erased() | MessagesErased():
                pass
            case _:
                assert_never(event)

    def _spend(self, task: TaskState, event: Event, at: int) -> None:
        """Add the time since the last event to the task's active time, unless it waited."""
        waits = task.is_suspended or task.blocked_on
        if not (waits or type(event) in (TaskResumed, TaskBlocked)):
            task.spent.active_ms += at - self.last_at
        self.last_at = at

    def _apply_elsewhere(self, event: Event, task_id: TaskId | None, at: int) -> None:
        match event:
            case MessageReceived() | CallRequested() | FlowRequested() if task_id:
                self.queue[task_id] = TaskState(task_id, event)
            case TaskStarted() if task_id:
                self._start(event, task_id, at)
            case CancelRequested() if task_id in self.queue:
                self.queue[task_id].cancel_requested = True
                self.queue[task_id].cancelled_by = event.by
            case TaskEnded() if task_id in self.queue:
                self.queue.pop(task_id).is_ended = True
            case TaskBlocked() if task_id in self.queue:
                self.queue[task_id].blocked_on = event.blocked_on
            case SessionOpened():
                self.opened = event
            case SkillsSelected():
                self._select(event)
            case (
                MessageReceived()
                | CallRequested()
                | TaskBlocked()
                | TaskStarted()
                | TaskResumed()
                | TaskEnded()
            ):
                pass
            case ReplyReceived() | ReplyRestarted() | TaskSuspended() | CancelRequested():
                pass
            case CallStarted() | CallRetried() | CallSettled() | StateWritten() | NoteEmitted():
                pass
            case QuestionAsked() | QuestionAnswered() | Erased() | MessagesErased():
                pass
            case PromptResolved() | SecretGiven() | FlowRequested() | FlowStarted() | StepStarted():
                pass
            case StepSettled() | FlowNotified() | AgentStarted() | AgentReminded() | RunEnded():
                pass
            case _:
                assert_never(event)

    def _start(self, event: TaskStarted, task_id: TaskId, at: int) -> None:
        if self.current is not None and not self.current.is_ended and task_id in self.queue:
            # A queued task that was cancelled, or a slash command, may start before its turn.
            self.queue[task_id].started = event
            return
        self.current = task = self.queue.pop(task_id, None) or TaskState(task_id, None)
        task.started, self.last_at = event, at
        # Kept in `past`: superseding an older message restores the messages before it.
        if event.is_fresh:
            self.past.append(self.said)
            self.said, self.selected = MessageList(), ()
        brief = task.brief
        if isinstance(brief, MessageReceived) and brief.supersedes is not None:
            self.said = back_to(brief.supersedes, self.past, self.said)
        self.said.begin(task_id)
        task.main.said = self.said
        if isinstance(brief, MessageReceived) and brief.message_id:
            text = text_for_model(brief.content)
            self.said.say(UserMessage(text), text)

    def _select(self, event: SkillsSelected) -> None:
        self.selected = tuple(dict.fromkeys((*self.selected, *event.skill_ids)))

    def _end(self, task: TaskState, event: TaskEnded) -> None:
        task.is_ended = True
        # No model replied to a command, so no other event brings its answer to the messages.
        if task.is_command and event.content:
            self.said.say(AssistantMessage(event.content), event.content)


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
