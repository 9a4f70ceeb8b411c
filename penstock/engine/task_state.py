"""One task, folded: its agents, its calls, its questions, and what it has spent."""

from dataclasses import dataclass, field, fields
from typing import Any

from penstock.core.call import CallPath, frame_above
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    MessageReceived,
    ParkedCall,
    PromptResolved,
    QuestionAnswered,
    ReplyReceived,
    StateWritten,
    TaskBlocked,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FlowEvent,
    FlowRequested,
)
from penstock.core.events.secret_events import SecretGiven
from penstock.core.ids import ProfileId, QuestionId, TaskId
from penstock.core.messages import UserMessage, is_informational
from penstock.core.question import Question, is_withdrawn
from penstock.core.task import Missing
from penstock.engine.dialogue import Dialogue, MessageList, Round

Brief = MessageReceived | CallRequested | FlowRequested


def _first_use(task: "TaskState", name: str) -> dict[Any, Any] | list[Any]:
    """Make what few tasks have when it is first looked at: thousands of them wait at once."""
    if name not in _SELDOM:
        raise AttributeError(name, name=name, obj=task)
    made: dict[Any, Any] | list[Any] = [] if name == "story" else {}
    setattr(task, name, made)
    return made


@dataclass(slots=True)
class TaskState:
    """One task after some events."""

    task_id: TaskId
    brief: Brief | None
    """None when it was erased."""
    started: TaskStarted | None = None
    main: Dialogue = field(default_factory=lambda: Dialogue(MessageList()))
    """The agent that the task is for."""
    agents: dict[CallPath, Dialogue] = field(init=False)
    """Agents that work for the task, each in a frame of its own."""
    started_agents: dict[CallPath, AgentStarted] = field(init=False)
    """How the agents in frames began."""
    story: list[tuple[CallPath | None, FlowEvent]] = field(init=False)
    """What happened in the run of a flow, for the run to be folded from."""
    settled: dict[CallPath, CallSettled] = field(default_factory=dict)
    entered: dict[CallPath, int] = field(init=False)
    """Write calls, and when they were entered last (a tick of the session)."""
    entries: dict[CallPath, int] = field(init=False)
    asked: dict[CallPath, int] = field(init=False)
    """Calls with a question, and when it was asked or answered (a tick of the session)."""
    waiting: dict[QuestionId, Question] = field(default_factory=dict)
    answers: dict[CallPath, QuestionAnswered] = field(default_factory=dict)
    questions: dict[QuestionId, CallPath] = field(init=False)
    parked: dict[CallPath, ParkedCall] = field(init=False)
    """Calls that waited when they were left, or are tried again; those not written yet, too."""
    awaited: dict[TaskId, None] = field(init=False)
    """Runs of flows that calls wait for; what is not written yet is among them."""
    runs_over: dict[TaskId, None] = field(init=False)
    """Runs whose end was told: it may come before what says that they are awaited."""
    runs_ended: int = 0
    """How many of these were awaited when it was."""
    is_suspended: bool = False
    blocked_on: tuple[Missing, ...] = ()
    """What the last process that tried to go on with it lacked."""
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
    delivered: dict[CallPath, tuple[int, int]] = field(init=False)
    """Calls that scripts made: when they settled (a tick), and what the script's clock showed."""
    notes: dict[tuple[CallPath, str], int] = field(init=False)
    """How many events of an author each call wrote, by type, and by what they say."""
    values: dict[tuple[str, str], StateWritten] = field(init=False)
    """What tools put into their state, by tool and key."""
    secrets: dict[SecretGiven, None] = field(init=False)
    """Which secrets tools were given, in the order of the first time."""
    prompt_prefix: str | None = None
    """What the project's script says in the system prompt; None while it was not asked."""

    __getattr__ = _first_use

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
        return len(self.answers) + self.runs_ended

    def awaits(self, awaited: str) -> bool:
        """Whether a question is open, or a run has not ended, that a call waits for."""
        return awaited in self.waiting or awaited in self.awaited

    @property
    def may_pass(self) -> bool:
        """Whether it goes on before its turn, while the one at work waits for a person."""
        brief = self.brief
        is_aside = isinstance(brief, MessageReceived) and is_informational(brief.content)
        return self.cancel_requested or is_aside

    @property
    def is_command(self) -> bool:
        """Whether a slash command is at work, and no model."""
        return self.started is not None and bool(self.started.command)

    @property
    def place(self) -> str:
        """What the task is doing, for people who look for the reason of a crash."""
        brief, rounds = self.brief, self.main.rounds
        if isinstance(brief, FlowRequested):
            return f"in the flow {brief.command!r}"
        if isinstance(brief, CallRequested):
            return f"in the call of {brief.tool_id!r}"
        if not rounds or rounds[-1].is_settled:
            # A read tool runs before the reply that asked for it is written.
            return "while its model was asked or in a call that it had just asked for"
        names = sorted({repr(call.name) for call in rounds[-1].open_calls})
        return f"in {' or '.join(names)}"

    def add_reply(
        self, reply: ReplyReceived, frame: CallPath | None, selected: tuple[str, ...]
    ) -> None:
        """Take in what a model said, and what that cost."""
        if self.is_command:
            self.main.rounds.append(Round(reply, selected=selected))
            return
        usage = reply.usage
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.model_calls += 1
        if self.cost_usd is not None:
            self.cost_usd = None if usage.cost_usd is None else self.cost_usd + usage.cost_usd
        self.dialogue_at(frame).add_reply(reply, selected)

    def instruct_agent(self, event: AgentStarted | AgentReminded, frame: CallPath) -> None:
        """Begin an agent in a frame, or tell it once more what it is to do."""
        if isinstance(event, AgentReminded):
            self.agents[frame].remind(event.message)
            return
        self.started_agents[frame] = event
        self.agents[frame] = dialogue = Dialogue(MessageList(), frame, event.system)
        dialogue.said.say(UserMessage(event.message), event.message)

    def enter(self, event: CallStarted | CallRetried, path: CallPath, tick: int) -> None:
        """Take in that a write begins, or that a call is tried again."""
        if isinstance(event, CallStarted):
            self.entered[path], self.entries[path] = tick, self.entries.get(path, 0) + 1
            return
        # A crash is followed by the attempt that it cut, and not by those before it.
        entries = before.entries if (before := self.parked.get(path)) else 0
        self.parked[path] = ParkedCall(path, 0, event.attempt + 1, entries)

    def settle(self, settled: CallSettled, path: CallPath | None, tick: int) -> None:
        """Take in the outcome of a call."""
        if path is not None:
            self.settled[path] = settled
            if settled.clock_ms is not None:
                self.delivered[path] = (tick, settled.clock_ms)
            if self.parked:
                self.parked.pop(path, None)
        if settled.ran:
            self.tool_calls += 1
        if settled.call_id is not None:
            self.dialogue_of(path).settle(settled.call_id, settled)

    def ask(self, question: Question, tick: int) -> None:
        """Take in a question."""
        self.waiting[question.question_id] = question
        self.questions[question.question_id] = question.path
        self.asked[question.path] = tick

    def answer(self, event: QuestionAnswered, tick: int) -> None:
        """Take in what was said to a question, or that nobody waits for that any more."""
        self.is_suspended = False
        self.waiting.pop(event.question_id, None)
        path = self.questions.get(event.question_id)
        if path and path not in self.answers and is_withdrawn(event.status, event.answer):
            self.asked.pop(path, None)  # who still needs it asks anew
        elif path and (event.by is not None or path not in self.answers):  # a person was first
            self.answers[path] = event
            self.asked[path] = tick

    def keep(self, event: PromptResolved | SecretGiven | StateWritten) -> None:
        """Take in what code said, was given or put down."""
        if isinstance(event, StateWritten):
            self.values[event.tool_id, event.key] = event
        elif isinstance(event, SecretGiven):
            self.secrets[event] = None
        else:
            self.prompt_prefix = event.text

    def wait(self, event: TaskSuspended | TaskBlocked) -> None:
        """Take in that nothing moves until somebody answers, a run has ended, or elsewhere."""
        if isinstance(event, TaskBlocked):
            self.blocked_on = event.blocked_on
            return
        self.parked.update((each.path, each) for each in event.parked)
        self.awaited.update((run, None) for run in event.runs if run not in self.runs_over)
        waits = all(self.awaits(each) for each in (*event.questions, *event.runs))
        self.is_suspended = waits and not self.cancel_requested

    def end_run(self, run_id: TaskId) -> None:
        """Go on, if the run was waited for."""
        self.runs_over[run_id] = None
        if run_id in self.awaited:
            del self.awaited[run_id]
            self.runs_ended += 1
            self.is_suspended = False


_SELDOM = frozenset(each.name for each in fields(TaskState) if not each.init)
