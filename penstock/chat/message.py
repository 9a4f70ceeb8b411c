"""A message or a direct call on its way in, and how its task ended."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.errors import InvalidRequest
from penstock.core.events import CallRequested, Record
from penstock.core.flow_events import FlowRequested
from penstock.core.ids import ASSISTANT, LogId, MessageId, SessionId, TaskId
from penstock.core.json_text import as_stored
from penstock.core.messages import NOTHING_SPENT, Usage
from penstock.core.profile import Profile
from penstock.core.question import QuestionRecord
from penstock.core.schema import is_deeper
from penstock.core.task import Missing, TaskStatus


class RequestKey(Struct, frozen=True):
    """The sender's own name for a request, and what the request was."""

    key: str | None = None
    """None where the sender gave none."""
    request_hash: str | None = None
    """Of the whole request: another one under the same key is refused."""


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message as a door hands it over."""

    content: str
    agent: str = ASSISTANT
    session_id: str | None = None
    """None begins a conversation."""
    model: str | None = None
    enable_tools: bool = True
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task besides."""
    cancel_open: bool = False
    """End the task that waits for an answer, instead of refusing the message."""
    supersedes: TaskId | None = None
    head: int | None = None
    """Where the conversation ended when it was looked at; it is refused if more came since."""
    message_id: MessageId | None = None
    """Of the message that is answered anew; None is a new message."""
    idempotency: RequestKey = RequestKey()


class NewRun(Struct, frozen=True, kw_only=True):
    """A run of a flow that somebody wants."""

    command: str
    """The flow's, without the slash."""
    task: str | None = None
    inputs: Json = field(default_factory=dict)
    autonomous: bool | None = None
    """Whether nobody is asked; None is the project's default."""
    max_concurrent: int | None = None
    depth: int = 0
    """How many calls of tools started it, each in a run that the one before started."""
    waiter: tuple[LogId, TaskId] | None = None
    """Where a call waits for the end of the run: a log, and a task in it."""
    idempotency: RequestKey = RequestKey()


class NewCall(Struct, frozen=True, kw_only=True):
    """A direct call as a door hands it over."""

    tool_id: str
    input: dict[str, Any]
    session_id: str | None = None
    """Where it takes its turn, with what is selected there; None is a session that no list has."""
    selected_skills: tuple[str, ...] = ()
    """For this call alone, besides those of the session."""
    idempotency: RequestKey = RequestKey()


class SentMessage(Struct, frozen=True, kw_only=True):
    """Where a message stands."""

    session_id: SessionId
    task_id: TaskId
    message_id: MessageId
    seq: int
    """Of the event that holds the message."""
    records: Sequence[Record] = ()
    """What was written, if that is all there is of the task; nothing is at work on it yet."""


class Reply(Struct, frozen=True, kw_only=True):
    """How a task stands when nothing more happens in it by itself."""

    session_id: SessionId
    task_id: TaskId
    status: TaskStatus
    """`succeeded`, `failed`, `cancelled`, `suspended` or `blocked`."""
    content: str = ""
    message_id: MessageId | None = None
    finish_reason: str | None = None
    iterations: int = 0
    usage: Usage = NOTHING_SPENT
    error: ErrorDetail | None = None
    envelope: Envelope | None = None
    """The outcome of a direct call."""
    questions: tuple[QuestionRecord, ...] = ()
    """The open ones, when it is suspended; with those of the runs that it waits for."""
    runs: tuple[TaskId, ...] = ()
    """Runs of flows that it waits for, when it is suspended."""
    blocked_on: tuple[Missing, ...] = ()
    """What is missing in this process, when it is blocked."""


def call_requested(call: NewCall, profile: Profile, depth: int) -> CallRequested:
    """Return a direct call as an event. Raises InvalidRequest for input that no log could hold."""
    return CallRequested(
        tool_id=call.tool_id,
        input=_stored(call.input, "/input", depth),
        profile_id=profile.profile_id,
        permissions=profile.noted,
        selected_skills=call.selected_skills,
        idempotency_key=call.idempotency.key,
        request_hash=call.idempotency.request_hash,
    )


def run_requested(run: NewRun, profile: Profile, depth: int) -> FlowRequested:
    """Return a run as an event. Raises InvalidRequest for inputs that no log could hold."""
    waiter_log, waiter = run.waiter or (None, None)
    return FlowRequested(
        command=run.command,
        profile_id=profile.profile_id,
        permissions=profile.noted,
        task=run.task,
        inputs=_stored(run.inputs, "/inputs", depth),
        autonomous=run.autonomous,
        max_concurrent=run.max_concurrent,
        depth=run.depth,
        idempotency_key=run.idempotency.key,
        request_hash=run.idempotency.request_hash,
        waiter_log=waiter_log,
        waiter=waiter,
    )


def _stored(value: Json, field: str, depth: int) -> Json:
    """Return JSON as the log keeps it: what is at work has the same as whoever reads the log."""
    if is_deeper(value, depth):
        issue = f"must have at most {depth} levels of nesting"
        raise InvalidRequest([{"field": field, "issue": issue}])
    try:
        stored: Json = as_stored(value)
    except (TypeError, ValueError) as error:
        issue = f"is not JSON: {error}"
        raise InvalidRequest([{"field": field, "issue": issue}]) from None
    return stored
