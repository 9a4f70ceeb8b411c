"""The kinds of events that a log contains; those of flows are in `flow_events.py`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.events.child_events import ChildEvent, Join
from penstock.core.events.flow_events import (
    AgentReminded,
    AgentStarted,
    FlowEvent,
    FlowRequested,
    HandedBack,
    HandedOff,
    RunEnded,
)
from penstock.core.events.history_events import Erased, Forked, MessagesErased, Summarised
from penstock.core.events.hook_events import HookDecided
from penstock.core.events.schedule_events import ScheduleFired, WaitExpired
from penstock.core.ids import (
    ArtifactId,
    BlobId,
    CallId,
    LogId,
    MessageId,
    ProfileId,
    QuestionId,
    TaskId,
)
from penstock.core.messages import NOTHING_SPENT, Carry, StoredFile, Usage
from penstock.core.scopes import Scope
from penstock.core.stored.changes import Change, Replaced, Revert
from penstock.core.task import Missing, Question, QuestionStatus, TaskOutput, TaskStatus


class SessionOpened(Struct, frozen=True, kw_only=True, gc=False):
    """A conversation was opened. An outside event."""

    profile_id: ProfileId
    agent: str
    title: str


class MessageReceived(Struct, frozen=True, kw_only=True, gc=False):
    """A person sent a message, which requests a task. An outside event."""

    message_id: MessageId
    content: str
    model: str | None = None
    """`provider:model` or a configured name, for this message only."""
    model_settings: Json | None = None
    enable_tools: bool = True
    supersedes: TaskId | None = None
    """The task whose message is answered again; it and all later tasks leave the history."""
    permissions: tuple[str, ...] | None = None
    """The permissions of the sender; None means all."""
    idempotency_key: str | None = None
    """Chosen by the sender: a repeated request with the same key starts no second task."""
    request_hash: str | None = None
    """The hash of the request: the same key with another hash is a mistake."""
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task only, in addition to those of the session."""
    attachments: tuple[StoredFile, ...] = ()
    """Files of the message. Their bytes are blobs."""
    metadata: Json | None = None
    """Texts for tools and dependencies, by name. No model reads them."""

    @property
    def file_names(self) -> str:
        """The names of the files, from which the title of a message without a text is made."""
        return ", ".join(each.name or "" for each in self.attachments)

    output_schema: Json | None = None
    """JSON Schema of the output that this task must hand in, instead of the agent's."""


class CallRequested(Struct, frozen=True, kw_only=True, gc=False):
    """A client requested a task of one direct call, or of the reverts of `undoes`, from outside."""

    tool_id: str
    input: Json
    profile_id: ProfileId
    permissions: tuple[str, ...] | None = None
    """The permissions of the profile; None means all."""
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task only."""
    idempotency_key: str | None = None
    request_hash: str | None = None
    undoes: TaskId | None = None


class TaskStarted(Struct, frozen=True, kw_only=True, gc=False):
    """The task started."""

    model: str | None = None
    offered: tuple[str, ...] = ()
    """The tools that the model may call, fixed for the whole task."""
    command: str = ""
    """The slash command that the task executes without a model; empty for others."""
    is_fresh: bool = False
    """The model reads no earlier message, and no skill is selected any more."""
    agent_schema: Json | None = None
    """JSON Schema of the output that the agent declares; None if it is text or the message's."""
    agent: str = ""
    """The agent that works on it; empty for the one that the conversation started with."""
    agent_digest: str = ""
    """The hash of its definition; empty if it is not known."""
    brief: str = ""
    """The message that the model of a child reads first; empty for other tasks."""


class TaskResumed(Struct, frozen=True, kw_only=True, gc=False):
    """A later activation resumed the task; `crashed`: the previous one did not end by itself."""

    crashed: bool = False


class ReplyReceived(Struct, frozen=True, kw_only=True, gc=False):
    """A model's reply is complete."""

    iteration: int
    base: int
    """The `seq` of the event before the reply; stream ids count the reply's units from it."""
    text: str
    message_id: MessageId
    reasoning: str = ""
    order: tuple[int, ...] = ()
    """Lengths of alternating runs of reasoning and text, if there is more than one of each."""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NOTHING_SPENT
    finish: str = "stop"
    closing: bool = False
    """The last request of a task, without tools; calls in its reply were dropped."""
    carry: Carry | None = None
    """Parts that the provider receives back. No API, stream or export shows them."""
    carry_dropped: bool = False
    """The provider refused the carries of earlier replies: none of them is sent again."""
    refusal: str | None = None
    """The reason of a provider that refused to answer. Later tasks do not read this task."""
    response_id: str = ""
    """The provider's id of the reply."""
    model: str = ""
    """The model that answered, if the task's model is a Fallback."""
    waited_ms: int = 0


class ReplyRestarted(Struct, frozen=True, kw_only=True, gc=False):
    """A reply was interrupted and starts again; clients discard what they showed of it."""

    iteration: int
    closing: bool = False


class CallStarted(Struct, frozen=True, kw_only=True, gc=False):
    """A tool with the effect `write` is about to run."""

    tool_id: str
    idempotency_key: str


class CallRetried(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt of a call failed, and another one follows."""

    tool_id: str
    attempt: int
    error: ErrorDetail


class CallSettled(Struct, frozen=True, kw_only=True, gc=False):
    """A call has its final outcome."""

    tool_id: str
    envelope: Envelope
    call_id: CallId | None = None
    """Set when a model asked for the call itself."""
    context: str | None = None
    """The text for the model, clipped: text as it is, any other output or an error as JSON."""
    is_text: bool = False
    """The output is text; `context` and the artifact contain it unchanged, not as JSON."""
    preview: str | None = None
    ran: bool = True
    """The tool ran, so the call counts towards the budget."""
    duration_ms: int = 0
    """Time of the run, without waiting for people."""
    artifact_id: ArtifactId | None = None
    """Set if `context` is clipped: identifies the complete text."""
    artifact_blob: BlobId | None = None
    total_characters: int | None = None
    """The length of the complete text, if it is clipped."""
    files: tuple[StoredFile, ...] = ()
    detector: str | None = None
    """The loop detector that blocked the call."""
    clock_ms: int | None = None
    """The time that the clock of the calling script shows from then on."""
    trace: str | None = None
    """The end of the traceback if the tool raised its own error; no model reads it."""
    revert: Revert | None = None
    replaced: tuple[Replaced, ...] = ()


class StateWritten(Struct, frozen=True, kw_only=True, gc=False):
    """A tool stored a value in its state; None deletes it."""

    tool_id: str
    key: str
    value: Any
    revision: int
    expires_at: Moment | None = None


class SecretGiven(Struct, frozen=True, kw_only=True):
    """A tool received a secret. From now on it is redacted in everything that the task records."""

    scope: Scope
    key: str


class SkillsSelected(Struct, frozen=True, kw_only=True, gc=False):
    """Skills were selected for the session, in addition to earlier ones."""

    skill_ids: tuple[str, ...]


class PromptResolved(Struct, frozen=True, kw_only=True, gc=False):
    """A script or a function returned a part of the system prompt; it may be empty."""

    text: str
    agent: str = ""
    """The agent whose instructions these are; empty for the project's script."""


NOTE_LEVELS = ("info", "warning", "error")


class NoteEmitted(Struct, frozen=True, kw_only=True, gc=False):
    """An event that a tool or a script of the project emitted."""

    event_type: str
    message: str | None = None
    payload: Any = None
    level: str = "info"
    title: str | None = None

    @property
    def line(self) -> str:
        """The text that identifies equal notes."""
        text = self.payload.get("text") if isinstance(self.payload, Mapping) else None
        return f"{self.event_type}: {text or self.message or ''}"


class QuestionAsked(Struct, frozen=True, kw_only=True, gc=False):
    """A call asked a person and waits for the answer."""

    question: Question


class QuestionAnswered(Struct, frozen=True, kw_only=True, gc=False):
    """A question was answered, cancelled or expired. An outside event if a person sent it."""

    question_id: QuestionId
    status: QuestionStatus
    answer: Json = field(default_factory=dict)
    by: ProfileId | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None


class ParkedCall(Struct, frozen=True, gc=False):
    """A waiting call, and how long its current attempt has worked so far."""

    path: CallPath
    active_ms: int
    attempt: int = 1
    entries: int = 1
    """How often this attempt was entered; each time but the last it waited."""
    computed_ms: int = 0
    """How long the script computed in this attempt."""


class TaskSuspended(Struct, frozen=True, kw_only=True, gc=False):
    """The task waits for people, runs of flows or other tasks, without a process."""

    questions: tuple[QuestionId, ...]
    runs: tuple[TaskId, ...] = ()
    """Runs of flows that the task waits for."""
    parked: tuple[ParkedCall, ...] = ()
    """Calls that wait in the middle of an attempt; they resume with the rest of their time."""
    joins: tuple[Join, ...] = ()
    """The other tasks that calls wait for."""


class TaskBlocked(Struct, frozen=True, kw_only=True, gc=False):
    """This process lacks something that the task needs; it resumes in one that has it."""

    blocked_on: tuple[Missing, ...]


class CancelRequested(Struct, frozen=True, kw_only=True, gc=False):
    """A person or a program requested the end of the task. An outside event."""

    by: ProfileId | None = None


class TaskEnded(Struct, frozen=True, kw_only=True, gc=False):
    """The task ended."""

    status: TaskStatus
    message_id: MessageId | None = None
    content: str = ""
    finish_reason: str | None = None
    iterations: int = 0
    usage: Usage = NOTHING_SPENT
    error: ErrorDetail | None = None
    """Set unless the task succeeded."""
    envelope: Envelope | None = None
    """The outcome of a direct call."""
    output: TaskOutput | None = None
    """The output, if the task has a schema for it and succeeded."""


Event = (
    SessionOpened
    | MessageReceived
    | CallRequested
    | FlowRequested
    | ScheduleFired
    | WaitExpired
    | TaskStarted
    | HandedOff
    | HandedBack
    | TaskResumed
    | ReplyReceived
    | ReplyRestarted
    | CallStarted
    | CallRetried
    | CallSettled
    | StateWritten
    | SkillsSelected
    | SecretGiven
    | PromptResolved
    | NoteEmitted
    | QuestionAsked
    | QuestionAnswered
    | TaskSuspended
    | TaskBlocked
    | CancelRequested
    | TaskEnded
    | FlowEvent
    | ChildEvent
    | RunEnded
    | AgentStarted
    | AgentReminded
    | HookDecided
    | Summarised
    | Erased
    | MessagesErased
    | Forked
)


class Entry(Struct, frozen=True, gc=False):
    """An event to append to a log."""

    event: Event
    task_id: TaskId | None = None
    path: CallPath | None = None
    change: Change | None = None
    """A change to write in the same transaction; its outcome becomes that of the CallSettled."""


class Record(Struct, frozen=True, gc=False):
    """An event in its log."""

    log_id: LogId
    seq: int
    at: Moment
    task_id: TaskId | None
    path: CallPath | None
    event: Event
