"""Requests for tasks (message, direct call, flow run), and the reply of a task."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from penstock.agents.output_contract import contract_of_schema
from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.errors import InvalidRequest, NotFound
from penstock.core.events.events import (
    CallRequested,
    Entry,
    MessageReceived,
    Record,
    SessionOpened,
    TaskStarted,
)
from penstock.core.events.flow_events import FlowRequested, HandedOff
from penstock.core.ids import ASSISTANT, LogId, MessageId, SessionId, TaskId
from penstock.core.json_values.json_text import JSON_DEPTH, as_stored, is_deeper, is_larger
from penstock.core.limits import KIB, Limits, World
from penstock.core.messages import NOTHING_SPENT, StoredFile, Usage
from penstock.core.profile import Profile
from penstock.core.reply import Question, QuestionType, Reply, ReplyStatus, TaskHistory
from penstock.core.task import (
    Missing,
    QuestionKind,
    QuestionRecord,
    TaskOutput,
    TaskStatus,
    blocked,
)
from penstock.core.task import Question as AskedQuestion
from penstock.core.text import cut, one_line, size_text

BLOCKED = "BLOCKED"
_STATUS: dict[TaskStatus, ReplyStatus] = {
    TaskStatus.SUCCEEDED: "succeeded",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "cancelled",
}
OUTPUT_SCHEMA_BYTES = 64 * KIB
"""Most bytes of the schema of a message's output, as JSON."""
TITLE_CHARS = 60
"""Most characters of a conversation's title, which is cut from its first message."""


class RequestKey(Struct, frozen=True):
    """The Idempotency-Key of a request, and a hash of the request."""

    key: str | None = None
    """None if the sender sent none."""
    request_hash: str | None = None
    """Hash of the whole request; a different request with the same key is refused."""


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to an agent, for `Requests.send`.

    Example:
        >>> from penstock.chat.requests import NewMessage
        >>> NewMessage(content="Hello", agent="clerk").agent
        'clerk'
    """

    content: str
    """The text, at most `limits.content_chars` characters."""
    agent: str = ASSISTANT
    """The name of an agent that the runtime knows."""
    session_id: str | None = None
    """The conversation to continue; None starts one."""
    model: str | None = None
    """`provider:model` or a configured name, for this task; None means the agent's model."""
    model_settings: Json | None = None
    """Settings of the model for this message; see `ModelSettings`."""
    enable_tools: bool = True
    """Whether the model is offered tools in this task."""
    attachments: tuple[StoredFile, ...] = ()
    """Files of the message. Their bytes are in the blob store already."""
    selected_skills: tuple[str, ...] = ()
    """Skills that are selected for this task, in addition to those of the conversation."""
    cancel_open: bool = False
    """End the task that waits for an answer, instead of refusing the message."""
    supersedes: TaskId | None = None
    """The task whose answer this one replaces, when a message is answered again."""
    output_schema: Json | None = None
    """JSON Schema of the output that this task must hand in, instead of the agent's."""
    metadata: Json | None = None
    """Texts for tools and dependencies, by name."""
    head: int | None = None
    """The `seq` of the last event that the sender has seen. A newer event refuses the message."""
    message_id: MessageId | None = None
    """The message that is answered again; None means a new message."""
    idempotency: RequestKey = RequestKey()
    """A key under which the same request is accepted once."""


class NewRun(Struct, frozen=True, kw_only=True):
    """A run of a flow, for `Runtime.run_flow` and `Runtime.start_flow`.

    Example:
        >>> from penstock import NewRun
        >>> NewRun(command="trip", inputs={"days": 2}).inputs["days"]
        2
    """

    command: str
    """The command of the flow, without the slash."""
    task: str | None = None
    """The task of the run, in words; agents of its steps can read it."""
    inputs: Json = field(default_factory=dict)
    """Values of the flow's `inputs`, by name."""
    autonomous: bool | None = None
    """Whether the run asks no person; None means the project's default."""
    max_concurrent: int | None = None
    """How many steps run at once; None means the flow's setting."""
    depth: int = 0
    """Nesting depth: the number of tool calls above it, each in a run started by the one before."""
    waiter: tuple[LogId, TaskId] | None = None
    """The log and the task in which a call waits for the end of the run."""
    idempotency: RequestKey = RequestKey()
    """A key under which the same request is accepted once."""


class NewCall(Struct, frozen=True, kw_only=True):
    """A direct call of a tool, for `Runtime.start_call`.

    Example:
        >>> from penstock import NewCall
        >>> NewCall(tool_id="hello", input={"name": "Ann"}).tool_id
        'hello'
    """

    tool_id: str
    """The id of the tool."""
    input: dict[str, Any]
    """The input, which must match the tool's `input_schema`."""
    session_id: str | None = None
    """The conversation in which the call is queued, with its selected skills; None creates an
    unlisted one."""
    selected_skills: tuple[str, ...] = ()
    """Skills for this call only, in addition to those of the session."""
    idempotency: RequestKey = RequestKey()
    """A key under which the same request is accepted once."""


class SentMessage(Struct, frozen=True, kw_only=True):
    """A message that was stored, as `Requests.send` returns it.

    Example:
        >>> import asyncio
        >>> from penstock.chat.requests import NewMessage
        >>> from penstock.testing import memory_runtime
        >>> async def main() -> None:
        ...     async with memory_runtime() as runtime:
        ...         sent = await runtime.requests.send(NewMessage(content="Hello"))
        ...         print((await runtime.attach(sent.task_id).reply()).status)
        >>> asyncio.run(main())
        succeeded
    """

    session_id: SessionId
    """The conversation, a new one if the message named none."""
    task_id: TaskId
    """The task that answers it; for `Runtime.attach`."""
    message_id: MessageId
    """The message's own id, in the conversation's history."""
    seq: int
    """`seq` of the event with the message."""
    records: Sequence[Record] = ()
    """The written events, if the task has no others yet; empty otherwise."""


class TaskReply(Struct, frozen=True, kw_only=True):
    """The state of a task that has ended, or that cannot continue by itself, in its stored form."""

    session_id: SessionId
    """The conversation."""
    task_id: TaskId
    """The task."""
    status: TaskStatus
    """`succeeded`, `failed`, `cancelled`, `suspended` or `blocked`."""
    content: str = ""
    """The text of the answer."""
    message_id: MessageId | None = None
    """The id of the answer in the conversation's history."""
    finish_reason: str | None = None
    """Why the last reply of the model ended, such as `stop`."""
    iterations: int = 0
    """How many replies the model gave in the task."""
    usage: Usage = NOTHING_SPENT
    """Tokens read and written in the task."""
    error: ErrorDetail | None = None
    """Why the task failed."""
    envelope: Envelope | None = None
    """The outcome of a direct call."""
    output: TaskOutput | None = None
    """The typed output, if the task has one."""
    questions: tuple[QuestionRecord, ...] = ()
    """Open questions of a suspended task, including those of the runs that it waits for."""
    runs: tuple[TaskId, ...] = ()
    """Flow runs that a suspended task waits for."""
    blocked_on: tuple[Missing, ...] = ()
    """The parts that a blocked task needs and this process lacks."""


def check_reach(session_id: str | None, profile: Profile) -> None:
    """Raise NotFound if the profile is limited to another conversation."""
    if profile.session_id not in {None, session_id}:
        raise NotFound(
            f"this link opens the conversation {profile.session_id!r} only; "
            "send its id as conversationId"
        )


def check_content(message: NewMessage, limits: Limits) -> None:
    """Raise InvalidRequest if the text is too long, or blank without files, or the schema wrong."""
    if message.output_schema is not None:
        _check_output_schema(message.output_schema)
    limit = limits.content_chars
    if not message.content.strip() and not message.attachments:
        raise InvalidRequest([{"field": "/content", "issue": "must not be blank"}])
    if len(message.content) > limit:
        issue = f"must have at most {limit} characters, has {len(message.content)}"
        raise InvalidRequest([{"field": "/content", "issue": issue}])


def _check_output_schema(schema: Json) -> None:
    if is_larger(schema, OUTPUT_SCHEMA_BYTES):
        issue = f"must have at most {size_text(OUTPUT_SCHEMA_BYTES)} as JSON"
        raise InvalidRequest([{"field": "/outputSchema", "issue": issue}])
    _stored(schema, "/outputSchema")
    try:
        contract_of_schema(schema)
    except (TypeError, ValueError, RecursionError) as error:
        issue = f"is not a usable JSON Schema: {error}"
        raise InvalidRequest([{"field": "/outputSchema", "issue": issue}]) from None


def message_entries(
    message: NewMessage, profile: Profile, task_id: TaskId, world: World
) -> list[Entry]:
    """Return a message as an entry of its log, after the opening of a new conversation."""
    received = MessageReceived(
        message_id=message.message_id or MessageId(world.new_id("msg")),
        content=message.content,
        model=message.model,
        model_settings=message.model_settings,
        enable_tools=message.enable_tools,
        selected_skills=message.selected_skills,
        attachments=message.attachments,
        supersedes=message.supersedes,
        permissions=profile.noted,
        idempotency_key=message.idempotency.key,
        request_hash=message.idempotency.request_hash,
        output_schema=message.output_schema,
        metadata=message.metadata,
    )
    if message.session_id is not None:
        return [Entry(received, task_id)]
    title = title_of(received.content or received.file_names)
    opened = SessionOpened(profile_id=profile.profile_id, agent=message.agent, title=title)
    return [Entry(opened), Entry(received, task_id)]


def title_of(text: str) -> str:
    """Return the title of a conversation that begins with a text."""
    return cut(one_line(text), TITLE_CHARS)


def sent_message(log_id: LogId, records: Sequence[Record], *, is_started: bool) -> SentMessage:
    """Return a stored message; `records` are what its request wrote."""
    record, received = next(
        (record, record.event) for record in records if isinstance(record.event, MessageReceived)
    )
    return SentMessage(
        session_id=SessionId(log_id),
        task_id=record.task_id or TaskId(""),
        message_id=received.message_id,
        seq=record.seq,
        records=records if is_started else (),
    )


def call_requested(call: NewCall, profile: Profile) -> CallRequested:
    """Return a direct call as an event.

    Raises InvalidRequest if the input cannot be stored, and NotFound as `check_reach`.
    """
    check_reach(call.session_id, profile)
    return CallRequested(
        tool_id=call.tool_id,
        input=_stored(call.input, "/input"),
        profile_id=profile.profile_id,
        permissions=profile.noted,
        selected_skills=call.selected_skills,
        idempotency_key=call.idempotency.key,
        request_hash=call.idempotency.request_hash,
    )


def run_requested(run: NewRun, profile: Profile) -> FlowRequested:
    """Return a run as an event. Raises InvalidRequest for its inputs, NotFound as `check_reach`."""
    check_reach(None, profile)
    waiter_log, waiter = run.waiter or (None, None)
    return FlowRequested(
        command=run.command,
        profile_id=profile.profile_id,
        permissions=profile.noted,
        task=run.task,
        inputs=_stored(run.inputs, "/inputs"),
        autonomous=run.autonomous,
        max_concurrent=run.max_concurrent,
        depth=run.depth,
        idempotency_key=run.idempotency.key,
        request_hash=run.idempotency.request_hash,
        waiter_log=waiter_log,
        waiter=waiter,
    )


def _stored(value: Json, field: str) -> Json:
    """Return JSON in stored form, so that a running task and a reader of the log see the same."""
    if is_deeper(value, JSON_DEPTH):
        issue = f"must have at most {JSON_DEPTH} levels of nesting"
        raise InvalidRequest([{"field": field, "issue": issue}])
    try:
        stored: Json = as_stored(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest([{"field": field, "issue": f"is not JSON: {error}"}]) from None
    return stored


def answered_by(records: Sequence[Record], agent: str) -> str:
    """Return the agent that worked last on a task; `agent` if the task was never handed off."""
    for record in reversed(records):
        if type(event := record.event) is TaskStarted or type(event) is HandedOff:
            return event.agent or agent
    return agent


def reply_of(task: TaskReply, agent: str, recorded: TaskHistory) -> Reply[Any]:
    """Return a task that has ended or waits as a value for programs."""
    status = task.status
    is_done = status is TaskStatus.SUCCEEDED  # the usual case: no look-ups, no loops
    return Reply(
        status="succeeded" if is_done else _STATUS.get(status, "suspended"),
        content=task.content,
        finish_reason=task.finish_reason,
        usage=task.usage,
        questions=() if is_done else tuple(question_of(each) for each in task.questions),
        error=blocked_error(task) if status is TaskStatus.BLOCKED else task.error,
        agent=agent,
        session=task.session_id,
        task_id=task.task_id,
        message_id=task.message_id or "",
        recorded=recorded,
    )


def blocked_error(task: TaskReply) -> ErrorDetail:
    """Return what a blocked task lacks, as an error."""
    missing = [each.to_wire() for each in task.blocked_on]
    return ErrorDetail(
        code=BLOCKED,
        message=blocked(task.blocked_on),
        retryable=True,
        details={"blocked_on": missing, "task_id": task.task_id},
    )


def question_of(record: QuestionRecord) -> Question:
    """Return a question for programs."""
    return public_question(record.question, record.task_id)


def public_question(asked: AskedQuestion, task_id: str) -> Question:
    """Return a question of the log for programs."""
    return Question(
        id=asked.question_id,
        kind=_question_type(asked),
        text=asked.text,
        tool=asked.tool_id,
        input=None if asked.input is None else dict(asked.input),
        options=tuple(option.value for option in asked.options),
        context=asked.context,
        schema=None if asked.schema is None else dict(asked.schema),
        task_id=task_id,
    )


def _question_type(asked: AskedQuestion) -> QuestionType:
    if asked.kind is QuestionKind.APPROVAL:
        return "approval"
    if asked.options:
        return "choice"
    return "text" if asked.schema is None and asked.form is None else "form"
