"""What a log amounts to. Nothing else in the runtime remembers anything."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from penstock.core.call import CallPath, frame_above
from penstock.core.events import (
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
    ParkedCall,
    PromptResolved,
    QuestionAnswered,
    QuestionAsked,
    Record,
    ReplyReceived,
    ReplyRestarted,
    SessionOpened,
    SkillsSelected,
    StateWritten,
    TaskEnded,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.flow_events import (
    AgentBegan,
    AgentReminded,
    FlowEvent,
    FlowRequested,
    FlowStarted,
    FlowTold,
    RunEnded,
    StepSettled,
    StepStarted,
)
from penstock.core.ids import LogId, ProfileId, QuestionId, TaskId
from penstock.core.messages import AssistantMessage, UserMessage
from penstock.core.question import Question, is_withdrawn
from penstock.core.secret_events import SecretGiven
from penstock.core.slash import only_tells, spoken
from penstock.engine.dialogue import Dialogue, MessageList, Round, back_to

Brief = MessageReceived | CallRequested | FlowRequested


@dataclass(slots=True)
class TaskState:
    """One task after some events."""

    task_id: TaskId
    brief: Brief | None
    """None when it was erased."""
    started: TaskStarted | None = None
    main: Dialogue = field(default_factory=lambda: Dialogue(MessageList()))
    """The agent that the task is for."""
    agents: dict[CallPath, Dialogue] = field(default_factory=dict)
    """Agents that work for the task, each in a frame of its own."""
    begun_agents: dict[CallPath, AgentBegan] = field(default_factory=dict)
    """How the agents in frames began."""
    story: list[tuple[CallPath | None, FlowEvent]] = field(default_factory=list)
    """What happened in the run of a flow, for the run to be folded from."""
    settled: dict[CallPath, CallSettled] = field(default_factory=dict)
    begun: dict[CallPath, int] = field(default_factory=dict)
    """Write calls, and when they were entered last (a tick of the session)."""
    entries: dict[CallPath, int] = field(default_factory=dict)
    asked: dict[CallPath, int] = field(default_factory=dict)
    """Calls with a question, and when it was asked or answered (a tick of the session)."""
    waiting: dict[QuestionId, Question] = field(default_factory=dict)
    answers: dict[CallPath, QuestionAnswered] = field(default_factory=dict)
    questions: dict[QuestionId, CallPath] = field(default_factory=dict)
    parked: dict[CallPath, ParkedCall] = field(default_factory=dict)
    """Calls that waited when they were left, or are tried again; those not written yet, too."""
    awaited: dict[TaskId, None] = field(default_factory=dict)
    """Runs of flows that calls wait for; what is not written yet is among them."""
    runs_over: dict[TaskId, None] = field(default_factory=dict)
    """Runs whose end was told: it may come before what says that they are awaited."""
    ends_heard: int = 0
    """How many of these were awaited when it was."""
    is_suspended: bool = False
    cancel_requested: bool = False
    cancelled_by: ProfileId | None = None
    """Who wanted the end; None if nobody said so, or the runtime did."""
    is_ended: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    cost_usd: float | None = 0.0
    active_ms: int = 0
    delivered: dict[CallPath, tuple[int, int]] = field(default_factory=dict)
    """Calls that scripts made: when they settled (a tick), and what the script's clock showed."""
    notes: dict[tuple[CallPath, str], int] = field(default_factory=dict)
    """How many events of an author each call wrote, by type, and by what they say."""
    values: dict[tuple[str, str], StateWritten] = field(default_factory=dict)
    """What tools put into their state, by tool and key."""
    secrets: dict[SecretGiven, None] = field(default_factory=dict)
    """Which secrets tools were given, in the order of the first time."""
    preface: str | None = None
    """What the project's script says in the system prompt; None while it was not asked."""

    def dialogue_at(self, frame: CallPath | None) -> Dialogue:
        """Return the agent that works in a frame; without one, the agent that the task is for."""
        return self.main if frame is None else self.agents[frame]

    def dialogue_of(self, path: CallPath | None) -> Dialogue:
        """Return the agent whose model asked for a call."""
        if not self.agents or path is None:
            return self.main
        return self.agents.get(frame_above(path), self.main)

    @property
    def heard(self) -> int:
        """How often something came that a call may have waited for."""
        return len(self.answers) + self.ends_heard

    def awaits(self, awaited: str) -> bool:
        """Whether a question is open, or a run has not ended, that a call waits for."""
        return awaited in self.waiting or awaited in self.awaited

    @property
    def may_pass(self) -> bool:
        """Whether it goes on before its turn, while the one at work waits for a person."""
        brief = self.brief
        is_aside = isinstance(brief, MessageReceived) and only_tells(brief.content)
        return self.cancel_requested or is_aside

    @property
    def is_command(self) -> bool:
        """Whether a slash command is at work, and no model."""
        return self.started is not None and bool(self.started.command)


class SessionState:
    """A log after some events. Only `apply` changes it, each time at the same cost."""

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
        """The newest event of the log that is known to be in here, with all before it."""
        self.tick = 0
        """How many events were applied: an order for what has no `seq` yet."""
        self.last_at = 0
        self.opened: SessionOpened | None = None
        self.selected: tuple[str, ...] = ()
        """Skills that were selected for the whole session; another tuple when there are more."""
        self.queue: dict[TaskId, TaskState] = {}
        """Tasks whose turn has not come, oldest first."""
        self.current: TaskState | None = None
        self.said = MessageList()
        self.past: list[MessageList] = []
        """What was said before each fresh start."""

    @property
    def is_idle(self) -> bool:
        """Whether no task runs, waits for its turn, or waits for a person."""
        return not self.queue and (self.current is None or self.current.is_ended)

    def next_task(self) -> TaskState | None:
        """Return the task that has something to do now."""
        current = self.current
        if current is None or current.is_ended:
            return next(iter(self.queue.values()), None)
        if current.is_suspended:
            return next((task for task in self.queue.values() if task.may_pass), None)
        return current

    def apply(self, event: Event, task_id: TaskId | None, path: CallPath | None, at: int) -> None:
        """Take in the next event."""
        self.tick += 1
        task = self.current
        if task is None or task.task_id != task_id:
            self._apply_elsewhere(event, task_id, at)
            return
        self._spend(task, event, at)
        match event:
            case CallSettled():
                self._settle(task, event, path)
            case ReplyReceived():
                self._reply(task, event, path)
            case AgentBegan() | AgentReminded() if path:
                _tell_agent(task, event, path)
            case FlowStarted() | StepStarted() | StepSettled() | FlowTold():
                task.story.append((path, event))
            case CallStarted() | CallRetried() if path:
                self._enter(task, event, path)
            case QuestionAsked(question=question):
                self._ask(task, question)
            case QuestionAnswered():
                self._answer(task, event)
            case SkillsSelected():
                self._select(event)
            case PromptResolved() | SecretGiven() | StateWritten():
                _note(task, event)
            case TaskSuspended() | RunEnded():
                _wait(task, event)
            case TaskResumed():
                task.is_suspended = False
            case ReplyRestarted():
                task.dialogue_at(path).reply = None
            case CancelRequested():
                task.cancel_requested, task.is_suspended, task.cancelled_by = True, False, event.by
            case TaskEnded():
                self._end(task, event)
            case NoteEmitted() if path:
                for note in ((path, event.event_type), (path, event.line)):
                    task.notes[note] = task.notes.get(note, 0) + 1
            case CallStarted() | CallRetried() | NoteEmitted() | AgentBegan() | AgentReminded():
                pass
            case SessionOpened() | MessageReceived() | CallRequested() | FlowRequested():
                pass
            case TaskStarted() | Erased() | MessagesErased():
                pass
            case _:
                assert_never(event)

    def _spend(self, task: TaskState, event: Event, at: int) -> None:
        """Count the time since the last event, unless the task waited in it."""
        if not (task.is_suspended or type(event) is TaskResumed):
            task.active_ms += at - self.last_at
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
            case SessionOpened():
                self.opened = event
            case SkillsSelected():
                self._select(event)
            case MessageReceived() | CallRequested() | TaskStarted() | TaskResumed() | TaskEnded():
                pass
            case ReplyReceived() | ReplyRestarted() | TaskSuspended() | CancelRequested():
                pass
            case CallStarted() | CallRetried() | CallSettled() | StateWritten() | NoteEmitted():
                pass
            case QuestionAsked() | QuestionAnswered() | Erased() | MessagesErased():
                pass
            case PromptResolved() | SecretGiven() | FlowRequested() | FlowStarted() | StepStarted():
                pass
            case StepSettled() | FlowTold() | AgentBegan() | AgentReminded() | RunEnded():
                pass
            case _:
                assert_never(event)

    def _start(self, event: TaskStarted, task_id: TaskId, at: int) -> None:
        if self.current is not None and not self.current.is_ended and task_id in self.queue:
            self.queue[task_id].started = event  # it was cancelled in line, or may pass
            return
        self.current = task = self.queue.pop(task_id, None) or TaskState(task_id, None)
        task.started, self.last_at = event, at
        if event.is_fresh:  # what was said comes back when a message of it is answered anew
            self.past.append(self.said)
            self.said, self.selected = MessageList(), ()
        brief = task.brief
        if isinstance(brief, MessageReceived) and brief.supersedes is not None:
            self.said = back_to(brief.supersedes, self.past, self.said)
        self.said.begin(task_id)
        task.main.said = self.said
        if isinstance(brief, MessageReceived) and brief.message_id:
            text = spoken(brief.content)
            self.said.say(UserMessage(text), text)

    def _select(self, event: SkillsSelected) -> None:
        self.selected = tuple(dict.fromkeys((*self.selected, *event.skill_ids)))

    def _reply(self, task: TaskState, reply: ReplyReceived, path: CallPath | None) -> None:
        if task.is_command:
            task.main.rounds.append(Round(reply, selected=self.selected))
            return
        usage = reply.usage
        task.input_tokens += usage.input_tokens
        task.output_tokens += usage.output_tokens
        task.model_calls += 1
        if task.cost_usd is not None:
            task.cost_usd = None if usage.cost_usd is None else task.cost_usd + usage.cost_usd
        task.dialogue_at(path).hear(reply, self.selected)

    def _settle(self, task: TaskState, settled: CallSettled, path: CallPath | None) -> None:
        if path is not None:
            task.settled[path] = settled
            if settled.clock_ms is not None:
                task.delivered[path] = (self.tick, settled.clock_ms)
            if task.parked:
                task.parked.pop(path, None)
        if settled.ran:
            task.tool_calls += 1
        if settled.call_id is not None:
            task.dialogue_of(path).settle(settled.call_id, settled)

    def _end(self, task: TaskState, event: TaskEnded) -> None:
        task.is_ended = True
        if task.is_command and event.content:
            self.said.say(AssistantMessage(event.content), event.content)

    def _enter(self, task: TaskState, event: CallStarted | CallRetried, path: CallPath) -> None:
        if isinstance(event, CallStarted):
            task.begun[path], task.entries[path] = self.tick, task.entries.get(path, 0) + 1
            return
        # A crash is followed by the attempt that it cut, and not by those before it.
        entries = before.entries if (before := task.parked.get(path)) else 0
        task.parked[path] = ParkedCall(path, 0, event.attempt + 1, entries)

    def _ask(self, task: TaskState, question: Question) -> None:
        task.waiting[question.question_id] = question
        task.questions[question.question_id] = question.path
        task.asked[question.path] = self.tick

    def _answer(self, task: TaskState, event: QuestionAnswered) -> None:
        task.is_suspended = False
        task.waiting.pop(event.question_id, None)
        path = task.questions.get(event.question_id)
        if path and path not in task.answers and is_withdrawn(event.status, event.answer):
            task.asked.pop(path, None)  # who still needs it asks anew
        elif path and (event.by is not None or path not in task.answers):  # a person was first
            task.answers[path] = event
            task.asked[path] = self.tick


def _tell_agent(task: TaskState, event: AgentBegan | AgentReminded, path: CallPath) -> None:
    if isinstance(event, AgentReminded):
        task.agents[path].remind(event.message)
        return
    task.begun_agents[path] = event
    task.agents[path] = dialogue = Dialogue(MessageList(), path, event.system)
    dialogue.said.say(UserMessage(event.message), event.message)


def _note(task: TaskState, event: PromptResolved | SecretGiven | StateWritten) -> None:
    if isinstance(event, StateWritten):
        task.values[event.tool_id, event.key] = event
    elif isinstance(event, SecretGiven):
        task.secrets[event] = None
    else:
        task.preface = event.text


def _wait(task: TaskState, event: TaskSuspended | RunEnded) -> None:
    if isinstance(event, RunEnded):
        _hear_end(task, event.run_id)
        return
    task.parked.update((each.path, each) for each in event.parked)
    task.awaited.update((run, None) for run in event.runs if run not in task.runs_over)
    waits = all(task.awaits(each) for each in (*event.questions, *event.runs))
    task.is_suspended = waits and not task.cancel_requested


def _hear_end(task: TaskState, run_id: TaskId) -> None:
    """Go on, if it was waited for."""
    task.runs_over[run_id] = None
    if run_id in task.awaited:
        del task.awaited[run_id]
        task.ends_heard += 1
        task.is_suspended = False


def fold(log_id: LogId, records: Iterable[Record]) -> SessionState:
    """Return the state after all events of a log."""
    state = SessionState(log_id)
    catch_up(state, records)
    return state


def catch_up(state: SessionState, records: Iterable[Record]) -> None:
    """Apply the events that follow those of a state."""
    for record in records:
        state.apply(record.event, record.task_id, record.path, record.at)
        state.seq = record.seq
