"""The state of one task: the fold of its events.

It holds the agents' dialogues and calls; `waits` has questions and awaited runs (read by ledger and
suspend), `spent` the amounts (read by the budget), `records` what tools left (read by tools).
SessionState routes events here; each method applies one kind of event at a cost that does not grow
with the history. `tick` numbers order what has no place in the log yet.

Shown by tests/engine/test_task_state.py and test_session_state.py.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import CallPath, frame_above, is_below
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.events.child_events import ChildRequested
from penstock.core.events.events import (
    CallRequested,
    CallRetried,
    CallSettled,
    CallStarted,
    MessageReceived,
    NoteEmitted,
    ParkedCall,
    PromptResolved,
    QuestionAnswered,
    ReplyReceived,
    SecretGiven,
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
    FlowEvent,
    FlowRequested,
    HandedOff,
)
from penstock.core.events.history_events import Summarised
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import ProfileId, TaskId
from penstock.core.json_values.json_text import compact
from penstock.core.messages import Usage, UserMessage
from penstock.core.task import Missing, Question, TaskStatus
from penstock.engine.agent_chain import AgentChain
from penstock.engine.dialogue import CachedRequest, Dialogue, MessageList, Round
from penstock.engine.slash_commands import is_informational
from penstock.engine.waits import NO_RECORDS, NO_WAITS, OF_CALLS, ON_INPUT, ToolRecords, Waits

Brief = MessageReceived | CallRequested | FlowRequested | ChildRequested


class Spent(Struct):
    """Usage of a task so far. The budget compares it with the allowance."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    cost_usd: float | None = 0.0
    """None after a reply of a model without a price."""
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_long_tokens: int = 0
    reasoning_tokens: int = 0
    active_ms: int = 0
    """Time in which the task did not wait for people, runs or missing parts."""

    def add(self, usage: Usage) -> None:
        """Add one reply of a model."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.model_calls += 1
        if self.cost_usd is not None:
            self.cost_usd = None if usage.cost_usd is None else self.cost_usd + usage.cost_usd
        self.cached_tokens += usage.cached_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.cache_write_long_tokens += usage.cache_write_long_tokens
        self.reasoning_tokens += usage.reasoning_tokens

    def usage(self) -> Usage:
        """Return the tokens, calls and cost so far."""
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            model_calls=self.model_calls,
            tool_calls=self.tool_calls,
            cost_usd=self.cost_usd if self.model_calls else None,
            cached_tokens=self.cached_tokens,
            cache_write_tokens=self.cache_write_tokens,
            cache_write_long_tokens=self.cache_write_long_tokens,
            reasoning_tokens=self.reasoning_tokens,
        )


class PartSpent(Spent):
    """Usage of an agent that works for a call, with everything below it."""

    since_ms: int = 0
    """The active time of the task when the agent started."""


AGENT_CHANGED = "agent_changed"
"""The type of the note that a task continues with another definition of its agent."""
AS_TOOL = "as_tool"
"""The member of what is stored of an agent in a frame that is a tool of its caller."""


class TaskState(Struct):
    """One task after the events applied so far."""

    task_id: TaskId
    brief: Brief | None
    """The event that requested the task; None if it was erased."""
    started: TaskStarted | None = None
    main: Dialogue = field(default_factory=lambda: Dialogue(MessageList()))
    """The dialogue of the task's main agent."""
    agents: dict[CallPath, Dialogue] = field(default_factory=dict)
    """Dialogues of agents that work for the task, by frame."""
    started_agents: dict[CallPath, AgentStarted] = field(default_factory=dict)
    """How the agents in frames were started."""
    flow_events: list[tuple[CallPath | None, FlowEvent]] = field(default_factory=list)
    """Events of a flow run, from which the run's own state is folded."""
    settled: dict[CallPath, CallSettled] = field(default_factory=dict)
    entered: dict[CallPath, int] = field(default_factory=dict)
    """Write calls, with the session's tick of their last entry."""
    entries: dict[CallPath, int] = field(default_factory=dict)
    waits: Waits = field(default_factory=lambda: NO_WAITS)
    """To be read; `own_waits` is for changes."""
    spent: Spent = field(default_factory=Spent)
    parts: dict[CallPath, PartSpent] | None = None
    """The usage of agents that are tools, by frame: their own budgets bound it. Often None."""
    outcome_chars: int = 0
    """Characters in the outcomes of all calls. All are kept in memory, so the sum is bounded."""
    records: ToolRecords = field(default_factory=lambda: NO_RECORDS)
    """To be read; `own_records` is for changes."""
    is_suspended: bool = False
    blocked_on: tuple[Missing, ...] = ()
    """The parts that the last process that tried to resume the task lacked."""
    cancel_requested: bool = False
    cancelled_by: ProfileId | None = None
    """The profile that requested the cancel; None if there is none, as for the runtime."""
    is_ended: bool = False
    ended_as: TaskStatus | None = None
    prompt_prefix: str | None = None
    """Text of the project's prompt script; None until it has run."""
    fired: ScheduleFired | None = None
    """The schedule that requested the task, if one did."""
    expired_waits: int = 0
    """How often no person answered in the time that the schedule sets."""
    instructions: Mapping[str, str] | None = None
    """Texts that functions among the instructions returned in this task, by agent."""
    newest_digest: str | None = None
    """The digest of the agent that a note of its change has; None without one."""

    def own_waits(self) -> Waits:
        """Return the waits for a change."""
        if self.waits is NO_WAITS:
            self.waits = Waits()
        return self.waits

    def own_records(self) -> ToolRecords:
        """Return the records for a change."""
        if self.records is NO_RECORDS:
            self.records = ToolRecords()
        return self.records

    def text_without_reply(self, event: TaskEnded) -> str:
        """Return the answer of an ended task if no reply brought it to the messages, else ''."""
        if event.output is not None and self.main.reply is None:
            # The content is what the model wrote beside its output, or the output in this form.
            is_form = self.main.rounds and not self.main.rounds[-1].reply.text.strip()
            return event.content if is_form and event.content else compact(event.output.value)
        # No model replied to a command, so no other event brings its answer to the messages.
        return event.content if self.is_command else ""

    def hand_off(self, event: HandedOff, agents: AgentChain) -> None:
        """Continue with another agent, its model and its tools."""
        agents.hand_off(event.agent)
        self.main.hand_off()
        self.main.messages.offer(event.offered)
        self.newest_digest = None
        if self.started is not None:
            names = ("agent", "model", "offered", "agent_schema", "agent_digest")
            self.started = replace(self.started, **{name: getattr(event, name) for name in names})

    @property
    def agent_digest(self) -> str:
        """The digest of the definition with which the agent worked last; often empty."""
        return self.newest_digest or (self.started.agent_digest if self.started else "")

    def note(self, event: NoteEmitted, path: CallPath | None) -> None:
        """Count a note of a call; of another one, record with which agent the task continues."""
        if path:
            self.own_records().count(event, path)
        elif event.event_type == AGENT_CHANGED and isinstance(event.payload, Mapping):
            self.newest_digest = event.payload.get("continues_with")

    def dialogue_at(self, frame: CallPath | None) -> Dialogue:
        """Return the dialogue of the agent in a frame; without a frame, of the main agent."""
        return self.main if frame is None else self.agents[frame]

    def dialogue_of(self, path: CallPath | None) -> Dialogue:
        """Return the dialogue whose model asked for a call."""
        if not self.agents or path is None:
            return self.main
        return self.agents.get(frame_above(path), self.main)

    def agent_around(self, path: CallPath | None) -> Dialogue | None:
        """Return the dialogue of the innermost agent in a frame around a call; None for the main.

        Unlike `dialogue_of` it also finds the agent of calls that its tools make.
        """
        frames = [each for each in self.agents if path is not None and is_below(path, each)]
        return self.agents[max(frames, key=len)] if frames else None

    @property
    def flow(self) -> str:
        """The command of the flow whose run the task is; empty for other tasks."""
        return self.brief.command if isinstance(self.brief, FlowRequested) else ""

    @property
    def metadata(self) -> Json:
        """The metadata of the message that requested the task."""
        brief = self.brief
        return (brief.metadata or {}) if isinstance(brief, MessageReceived) else {}

    @property
    def may_pass(self) -> bool:
        """Whether it may run before its turn while the current task waits for a person."""
        brief = self.brief
        is_aside = isinstance(brief, MessageReceived) and is_informational(brief.content)
        return self.cancel_requested or is_aside

    @property
    def is_command(self) -> bool:
        """Whether the task is a slash command, without a model."""
        return self.started is not None and bool(self.started.command)

    def add_reply(
        self, reply: ReplyReceived, frame: CallPath | None, selected: tuple[str, ...], at: int
    ) -> None:
        """Add a model's reply and its usage, at a time in milliseconds."""
        if self.is_command:
            self.main.rounds.append(Round(reply, selected=selected))
            return
        self.spent.add(reply.usage)
        if self.parts:
            for part in self._parts_around(frame):
                part.add(reply.usage)
        dialogue, usage = self.dialogue_at(frame), reply.usage
        dialogue.add_reply(reply, selected)
        if usage.cached_tokens or usage.cache_write_tokens:
            started = self.started if frame is None else self.started_agents[frame]
            model = reply.model or (started.model if started else None)
            dialogue.messages.cached = CachedRequest(usage.input_tokens, at, model or "")

    def _parts_around(self, path: CallPath | None) -> Iterator[PartSpent]:
        """Yield the usage of the agents at this path and around it."""
        place: str = path or ""
        while place and self.parts:
            if (part := self.parts.get(CallPath(place))) is not None:
                yield part
            place = place.rpartition("/")[0]

    def instruct_agent(self, event: AgentStarted | AgentReminded, frame: CallPath | None) -> None:
        """Start an agent in a frame, or add a reminder to it or to the main agent."""
        if isinstance(event, AgentReminded):
            self.dialogue_at(frame).remind(event.message, is_note=event.is_note)
            return
        if frame is None:
            return
        self.started_agents[frame] = event
        if AS_TOOL in event.charter:
            self.parts = self.parts or {}
            self.parts[frame] = PartSpent(since_ms=self.spent.active_ms)
        self.agents[frame] = dialogue = Dialogue(MessageList(), frame, event.system)
        dialogue.messages.add(UserMessage(event.message), event.message)

    def record_start(self, event: CallStarted | CallRetried, path: CallPath, tick: int) -> None:
        """Record that a write starts or a call is retried."""
        if isinstance(event, CallStarted):
            self.entered[path], self.entries[path] = tick, self.entries.get(path, 0) + 1
            return
        # After a crash the attempt that was cut is resumed, not an earlier one.
        entries = before.entries if (before := self.waits.parked.get(path)) else 0
        self.own_waits().parked[path] = ParkedCall(path, 0, event.attempt + 1, entries)

    def settle(self, settled: CallSettled, path: CallPath | None, tick: int) -> None:
        """Record the outcome of a call."""
        if path is not None:
            self.settled[path] = settled
            if settled.clock_ms is not None:
                self.own_records().delivered[path] = (tick, settled.clock_ms)
            if self.waits.parked:
                self.waits.parked.pop(path, None)
        self.outcome_chars += len(settled.context or "")
        if settled.ran:
            self.spent.tool_calls += 1
            # The call of an agent itself is a call of its caller.
            if self.parts and path is not None:
                for part in self._parts_around(frame_above(path)):
                    part.tool_calls += 1
        if settled.call_id is not None:
            self.dialogue_of(path).settle(settled.call_id, settled)

    def answer(self, event: QuestionAnswered, tick: int) -> None:
        """Record the answer to a question, or that it was closed without one."""
        self.is_suspended = False
        self.own_waits().answer(event, tick)

    def record_value(
        self,
        event: PromptResolved | SecretGiven | StateWritten | HookDecided | Summarised,
        path: CallPath | None,
    ) -> None:
        """Record a value, a secret that was used, a prompt, a decision of a hook, or a summary."""
        if isinstance(event, HookDecided):
            self._record_decision(event, path)
        elif isinstance(event, Summarised):
            self.dialogue_at(path).shorten(event, self.records.decisions)
            if event.text:
                self.spent.add(event.usage)
        elif isinstance(event, StateWritten):
            self.own_records().values[event.tool_id, event.key] = event
        elif isinstance(event, SecretGiven):
            self.own_records().secrets[event] = None
        elif event.agent:
            self.instructions = {**(self.instructions or {}), event.agent: event.text}
            messages = self.main.messages
            messages.instructions = {**(messages.instructions or {}), event.agent: event.text}
        else:
            self.prompt_prefix = event.text

    def _record_decision(self, event: HookDecided, path: CallPath | None) -> None:
        """Record what a hook decided. The model reads the message that it left."""
        self.own_records().decisions[path, event.method, event.hook, event.turn] = event
        if event.method in OF_CALLS:
            return
        if event.verdict is Verdict.REFUSE:
            self.dialogue_at(path).messages.is_refused = True
        elif event.method == ON_INPUT and event.verdict is Verdict.EDIT:
            self.dialogue_at(path).messages.edit_last(event.value["content"])

    def ask(self, question: Question, tick: int, at: int) -> None:
        """Record an open question. It expires as soon as the schedule of the task wants it to."""
        waits, fired = self.own_waits(), self.fired
        if fired is not None and fired.suspension_seconds is not None:
            until = Moment(at + 1000 * fired.suspension_seconds)
            if question.expires_at is None or until < question.expires_at:
                question = replace(question, expires_at=until)
                waits.bounded[question.question_id] = self.expired_waits
        waits.ask(question, tick)

    def suspend_or_block(
        self, event: TaskSuspended | TaskBlocked | TaskResumed | WaitExpired, tick: int = 0
    ) -> None:
        """Record that the task waits, that this process lacks something, or that neither is so."""
        if isinstance(event, WaitExpired):
            self.expired_waits += 1
            self.main.follow_up = event.resume_prompt
            return
        if isinstance(event, TaskResumed):
            self.is_suspended, self.blocked_on = False, ()
            if self.waits.joins:  # the calls that still wait say so again
                self.waits.joins = {}
            return
        if isinstance(event, TaskBlocked):
            self.blocked_on = event.blocked_on
            return
        # Everything may have arrived before this event was written: then the task does not wait.
        self.is_suspended = self.own_waits().suspend(event, tick) and not self.cancel_requested
