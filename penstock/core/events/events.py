"""The kinds of events that a log contains; those of flows are in `flow_events.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.call import CallPath, ToolCall
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Json
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
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.core.state import Change, Scope
from penstock.core.task import Missing, Question, QuestionStatus, TaskStatus


class SessionOpened(Struct, frozen=True, kw_only=True, gc=False):
    """A conversation begins. An outside event."""

    profile_id: ProfileId
    agent: str
    title: str


class MessageReceived(Struct, frozen=True, kw_only=True, gc=False):
    """A person wrote a message, which asks for a task. An outside event."""

    message_id: MessageId
    content: str
    model: str | None = None
    """`provider:model` or a configured name, for this message alone."""
    enable_tools: bool = True
    supersedes: TaskId | None = None
    """The task whose message is answered anew; it and all after it leave the history."""
    permissions: tuple[str, ...] | None = None
    """What the one who wrote it may do; None is everything."""
    idempotency_key: str | None = None
    """The sender's own name for the request: it begins one task, however often it comes."""
    request_hash: str | None = None
    """What the request was, to tell a repetition from a mistake."""
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task besides."""


class CallRequested(Struct, frozen=True, kw_only=True, gc=False):
    """A door asked for one direct call, which is a task of its own. An outside event."""

    tool_id: str
    input: Json
    profile_id: ProfileId
    permissions: tuple[str, ...] | None = None
    """None for a profile that holds everything."""
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task besides."""
    idempotency_key: str | None = None
    """As that of a message."""
    request_hash: str | None = None


class TaskStarted(Struct, frozen=True, kw_only=True, gc=False):
    """The task's turn has come."""

    model: str | None = None
    offered: tuple[str, ...] = ()
    """The tools that the model is offered, fixed for the whole task."""
    command: str = ""
    """The slash command that the task is: no model takes part."""
    is_fresh: bool = False
    """Nothing that was said before is read any more, and no skill is selected."""


class TaskResumed(Struct, frozen=True, kw_only=True, gc=False):
    """A later activation goes on with the task."""

    crashed: bool = False
    """The activation before it did not end by itself."""


class ReplyReceived(Struct, frozen=True, kw_only=True, gc=False):
    """A model's reply is whole."""

    iteration: int
    base: int
    """The `seq` after which the reply's units are counted in stream ids."""
    text: str
    message_id: MessageId
    reasoning: str = ""
    order: tuple[int, ...] = ()
    """Lengths of alternating runs, reasoning first, when they are more than one of each."""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NOTHING_SPENT
    finish: str = "stop"
    closing: bool = False
    """The call without tools that ends a task; what it asked for was dropped."""


class ReplyRestarted(Struct, frozen=True, kw_only=True, gc=False):
    """A reply was cut and begins again; what was shown of it is taken back."""

    iteration: int
    closing: bool = False


class CallStarted(Struct, frozen=True, kw_only=True, gc=False):
    """A tool whose effect is `write` is about to run."""

    tool_id: str
    idempotency_key: str


class CallRetried(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt failed and will be repeated."""

    tool_id: str
    attempt: int
    error: ErrorDetail


class StoredFile(Struct, frozen=True, kw_only=True, gc=False):
    """An image or a file that was taken out of a result."""

    blob_id: BlobId
    mime_type: str
    size: int
    """In bytes."""
    is_image: bool
    width: int | None = None
    height: int | None = None
    name: str | None = None
    """As the tool calls it."""


class CallSettled(Struct, frozen=True, kw_only=True, gc=False):
    """A call has its final outcome."""

    tool_id: str
    envelope: Envelope
    call_id: CallId | None = None
    """Set when a model asked for the call itself."""
    context: str | None = None
    """What the model reads, clipped: a text as it is, any other output or an error as JSON."""
    is_text: bool = False
    """The output was a text, and `context` and the artifact hold it as it is, not as JSON."""
    preview: str | None = None
    ran: bool = True
    """The tool was run: it counts for the budget."""
    duration_ms: int = 0
    """Time spent running, without the time it waited for people."""
    artifact_id: ArtifactId | None = None
    """Set when `context` is clipped: where the whole text is."""
    artifact_blob: BlobId | None = None
    total_characters: int | None = None
    """Of the whole text, when it is clipped."""
    files: tuple[StoredFile, ...] = ()
    detector: str | None = None
    """Which loop detector blocked the call."""
    clock_ms: int | None = None
    """What the clock of the script that made the call shows from then on."""
    trace: str | None = None
    """The end of the traceback, of a tool that raised an error of its own; no model reads it."""


class StateWritten(Struct, frozen=True, kw_only=True, gc=False):
    """A tool put a value into its state; None removes it."""

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
    """The session has more skills selected, from now on."""

    skill_ids: tuple[str, ...]


class PromptResolved(Struct, frozen=True, kw_only=True, gc=False):
    """The project's script said what joins the system prompt of the task; empty is nothing."""

    text: str


class NoteEmitted(Struct, frozen=True, kw_only=True, gc=False):
    """An author's own event."""

    event_type: str
    message: str | None = None
    payload: Any = None
    level: str = "info"
    title: str | None = None

    @property
    def line(self) -> str:
        """What was said, as equal notes say it."""
        text = self.payload.get("text") if isinstance(self.payload, Mapping) else None
        return f"{self.event_type}: {text or self.message or ''}"


class QuestionAsked(Struct, frozen=True, kw_only=True, gc=False):
    """A call waits for a person."""

    question: Question


class QuestionAnswered(Struct, frozen=True, kw_only=True, gc=False):
    """The person has answered, or nobody will. An outside event, but on cancel and expiry."""

    question_id: QuestionId
    status: QuestionStatus
    answer: Json = field(default_factory=dict)
    by: ProfileId | None = None
    idempotency_key: str | None = None
    """The sender's own name for the request, when a message was taken as the answer."""
    request_hash: str | None = None


class ParkedCall(Struct, frozen=True, gc=False):
    """A call that waits, and how long this attempt of it was at work before."""

    path: CallPath
    active_ms: int
    attempt: int = 1
    entries: int = 1
    """How often it was entered, as far as it waited each time."""
    computed_ms: int = 0
    """How long the script of this attempt computed."""


class TaskSuspended(Struct, frozen=True, kw_only=True, gc=False):
    """Nothing is left to do but to wait for people."""

    questions: tuple[QuestionId, ...]
    runs: tuple[TaskId, ...] = ()
    """Runs of flows in which people are waited for."""
    parked: tuple[ParkedCall, ...] = ()
    """Calls that were entered, and wait: each has the rest of its time when it goes on."""


class TaskBlocked(Struct, frozen=True, kw_only=True, gc=False):
    """The process at work lacks what the task needs; it resumes in one that has it."""

    blocked_on: tuple[Missing, ...]


class CancelRequested(Struct, frozen=True, kw_only=True, gc=False):
    """Somebody wants the task to end. An outside event."""

    by: ProfileId | None = None


class TaskEnded(Struct, frozen=True, kw_only=True, gc=False):
    """The task is over."""

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


class Erased(Struct, frozen=True, kw_only=True, gc=False):
    """What was here was erased at a person's wish; a fold passes over it."""


class MessagesErased(Struct, frozen=True, kw_only=True, gc=False):
    """Names what was erased: the task's user message, its answer, or both."""

    of_task: TaskId
    user: bool
    answer: bool


Event = (
    SessionOpened
    | MessageReceived
    | CallRequested
    | FlowRequested
    | TaskStarted
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
    | FlowStarted
    | StepStarted
    | StepSettled
    | FlowNotified
    | RunEnded
    | AgentStarted
    | AgentReminded
    | Erased
    | MessagesErased
)


class Entry(Struct, frozen=True, gc=False):
    """An event on its way into a log."""

    event: Event
    task_id: TaskId | None = None
    path: CallPath | None = None
    change: Change | None = None
    """What is done with it, as one. What becomes of that is the outcome of the CallSettled."""


class Record(Struct, frozen=True, gc=False):
    """An event in its log."""

    log_id: LogId
    seq: int
    at: Moment
    task_id: TaskId | None
    path: CallPath | None
    event: Event


NOTE_LEVELS = ("info", "warning", "error")
REPEATED = frozenset(
    {TaskResumed, ReplyRestarted, CallStarted, CallRetried, StateWritten, SecretGiven, NoteEmitted}
    | {TaskBlocked}
)
"""What is written again by who comes to the same place again: it brings no task on."""


def are_repeated(entries: Sequence[Entry | Record]) -> bool:
    """Whether nothing of this brings a task on."""
    is_first = not entries or type(entries[0].event) in REPEATED
    return is_first and all(type(each.event) in REPEATED for each in entries)


def is_outside(event: Event) -> bool:
    """Whether the event came without the lease: from a person or a door, not from the holder."""
    if type(event) is QuestionAnswered:
        return event.by is not None
    return type(event) in _OUTSIDE


_OUTSIDE = frozenset(
    {SessionOpened, MessageReceived, CallRequested, FlowRequested}
    | {RunEnded, CancelRequested, MessagesErased}
)
