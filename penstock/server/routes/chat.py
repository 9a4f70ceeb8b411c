"""Messages to an agent, and the answers: as a stream, or as one response."""

from base64 import b64decode
from typing import Any

from fastapi import Request
from msgspec import ValidationError, convert
from starlette.responses import Response
from starlette.routing import Route

from penstock.agents.attachments.content import Attachment
from penstock.agents.attachments.keeper import PlacedFile
from penstock.app.runtime_parts import ChatParts
from penstock.chat.history import TaskMessages
from penstock.chat.requests import NewMessage, SentMessage, TaskReply
from penstock.chat.task_requests import unknown_skills
from penstock.chat.wire_forms import blocked_part, question_record
from penstock.core.clock import Moment
from penstock.core.errors import (
    ConfigError,
    Forbidden,
    InvalidRequest,
    NotFound,
    SessionBusy,
    TooLarge,
)
from penstock.core.ids import LogId, MessageId, SessionId
from penstock.core.profile import ADMIN, CHAT, Profile
from penstock.core.task import TaskRecord, TaskStatus
from penstock.models.names import THINKING
from penstock.models.settings import (
    CACHE_TTLS,
    MAX_STOP_CHARS,
    MAX_STOPS,
    RANGES,
    ModelSettings,
    stored_settings,
)
from penstock.server.context import ServerContext, admitted, context_of, find_task_messages
from penstock.server.openapi import answers, streams, takes
from penstock.server.parameters import ID, NOT_BLANK, Form, key_of, read_json
from penstock.server.problem import Json, end_problem, request_id_of
from penstock.server.routes.session_stream import stream_of_sent
from penstock.server.routing import Router
from penstock.store.logs.log_units import MOVED_ON
from penstock.store.projections import Page

router = Router(prefix="/api/agents/{agent_id}/chat", tags=["chat"])

_CHOICE = {"type": ["boolean", "null"]}
_OBJECT = {"type": ["object", "null"]}
_NUMBERS = {
    name: {"type": [kind, "null"], "minimum": RANGES[name][0], "maximum": RANGES[name][1]}
    for kind, names in (
        ("number", ("temperature", "top_p", "timeout")),
        ("integer", ("max_tokens", "seed")),
    )
    for name in names
}
_STOP = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARS}
SETTINGS: dict[str, Any] = {
    "type": ["object", "null"],
    "properties": {
        **_NUMBERS,
        "stop": {"type": ["array", "null"], "items": _STOP, "maxItems": MAX_STOPS},
        "thinking": {"enum": [*THINKING, None]},
        "parallel_calls": _CHOICE,
        "tool_choice": {"type": ["string", "null"], "minLength": 1},
        "cache_ttl": {"enum": [*CACHE_TTLS, None]},
        "extra": _OBJECT,
    },
    "additionalProperties": False,
}
"""The settings of a message's requests: those of `ModelSettings`."""
CONTENT = {"type": "string", "minLength": 1, "pattern": NOT_BLANK}
_SOURCES = ("blobId", "data", "url")
ATTACHMENT = {
    "type": "object",
    "properties": {
        "blobId": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "data": {"type": "string", "contentEncoding": "base64"},
        "url": {"type": "string", "maxLength": 4096},
        "mimeType": {"type": "string", "maxLength": 200},
        "name": {"type": "string", "maxLength": 1000},
    },
    "additionalProperties": False,
    "oneOf": [{"required": [each]} for each in _SOURCES],
}
"""A file of a message: an upload, its bytes, or its address."""
MESSAGE = Form(
    {
        "content": CONTENT,
        "conversationId": ID,
        "model": ID,
        "modelSettings": SETTINGS,
        "enableTools": _CHOICE,
        "autoRag": _CHOICE,
        "stream": _CHOICE,
        "cancelOpen": _CHOICE,
        "selectedSkillIds": {"type": ["array", "null"], "items": {"type": "string"}},
        "attachments": {"type": ["array", "null"], "items": ATTACHMENT},
        "outputSchema": _OBJECT,
    },
    any_of=("content", "attachments"),
    aliases={
        "message": "content",
        "conversation_id": "conversationId",
        "output_schema": "outputSchema",
    },
)
AGAIN = Form({"stream": _CHOICE, "model": ID, "modelSettings": SETTINGS, "enableTools": _CHOICE})
_NEWEST = Page(limit=1)
_POLL_SECONDS = 1.0
_DONE = streams(answers("Exchange", s202="Waiting"))


@router.post("", responses=_DONE, openapi_extra=takes(MESSAGE), response_class=Json)
async def send_message(agent_id: str, request: Request) -> Response:
    """Send a message to an agent. A repeated `Idempotency-Key` returns the same task."""
    context, profile = context_of(request), admitted(request, CHAT)
    agent = context.chat.agents.get(agent_id)
    try:
        body, raw = await read_json(request, context.limits.request_bytes)
    except TooLarge as error:
        raise TooLarge(f"{error}; send files with POST /api/blobs, then their blobId") from None
    asked = MESSAGE.read(body)
    named = tuple(asked.get("selectedSkillIds", ()))
    if wrong := unknown_skills(named, context.chat.participants.skills, agent, profile):
        raise InvalidRequest([{"field": each.path, "issue": each.message} for each in wrong])
    model = await _model(context.chat, asked)
    files = await context.chat.attachments.keep_files(_attachments(asked), profile)
    message = NewMessage(
        content=asked.get("content", ""),
        attachments=files,
        agent=agent_id,
        session_id=asked.get("conversationId"),
        model=model,
        model_settings=_model_settings(asked, profile),
        enable_tools=asked.get("enableTools", True),
        cancel_open=asked.get("cancelOpen", False),
        selected_skills=named,
        output_schema=asked.get("outputSchema"),
        idempotency=key_of(request, raw),
    )
    return await _send(request, message, stream=asked.get("stream", False))


async def _send_message(request: Request) -> Response:
    return await send_message(request.path_params["agent_id"], request)


SEND = Route(router.prefix, _send_message, methods=["POST"], include_in_schema=False)
"""The same route without FastAPI's parameter parsing, which costs as much as all the rest."""


@router.post(
    "/messages/{message_id}/regenerate",
    responses=_DONE,
    openapi_extra=takes(AGAIN, required=False),
    response_class=Json,
)
async def regenerate(agent_id: str, message_id: str, request: Request) -> Response:
    """Answer a message again; the old answer and everything after it leave the history."""
    context, profile = context_of(request), admitted(request, CHAT)
    context.chat.agents.get(agent_id)
    asked_at = context.world.clock.now()
    body, _ = await read_json(request, context.limits.request_bytes, empty={})
    asked = AGAIN.read(body)
    task_messages = await find_task_messages(context, profile, agent_id, MessageId(message_id))
    if task_messages.brief is None:
        raise NotFound(f"the message that {message_id!r} answers was erased")
    session_id = SessionId(task_messages.task.log_id)
    head = await context.storage.log.head(LogId(session_id))
    newest, _ = await context.storage.projections.tasks(log_id=LogId(session_id), page=_NEWEST)
    if (
        newest
        and newest[0].task_id != task_messages.task.task_id
        and _was_open(newest[0], asked_at)
    ):
        raise SessionBusy(MOVED_ON)
    message = NewMessage(
        content=task_messages.brief.content,
        agent=agent_id,
        session_id=session_id,
        model=await _model(context.chat, asked),
        model_settings=_model_settings(asked, profile),
        enable_tools=asked.get("enableTools", True),
        supersedes=task_messages.task.task_id,
        head=head,
        message_id=task_messages.brief.message_id,
        attachments=task_messages.brief.attachments,
        output_schema=task_messages.brief.output_schema,
    )
    for each in message.attachments:  # named by two messages from now on
        await context.storage.blobs.share(each.blob_id)
    return await _send(request, message, stream=asked.get("stream", False))


def _was_open(task: TaskRecord, asked_at: Moment) -> bool:
    """Whether a task was open at a time: the client has not seen its answer then."""
    return task.ended_at is None or task.ended_at >= asked_at


async def _send(request: Request, message: NewMessage, *, stream: bool) -> Response:
    context, profile = context_of(request), admitted(request, CHAT)
    if not stream:
        sent = await context.runtime.requests.send(message, profile)
        return await _answer(context, sent, request_id_of(request.scope))
    slot = context.streams.enter(profile)
    try:
        sent = await context.runtime.requests.send(message, profile)
        is_new = message.session_id is None and message.idempotency.key is None
        return await stream_of_sent(context, message.agent, sent, slot, is_new=is_new)
    except BaseException:
        slot.leave()
        raise


async def _answer(context: ServerContext, sent: SentMessage, request_id: str) -> Response:
    """Wait for the end of a task, up to `request_wait_seconds`, and return its outcome."""
    headers = {"x-conversation-id": sent.session_id, "x-task-id": sent.task_id}
    clock, reply = context.world.clock, None
    until = clock.monotonic() + context.lifecycle.server.request_wait_seconds
    while reply is None and not context.is_draining and clock.monotonic() < until:
        left = min(_POLL_SECONDS, until - clock.monotonic())
        reply = await context.runtime.requests.wait(sent.task_id, seconds=left)
    task = await context.storage.projections.find_task(sent.task_id)
    if task is None:
        raise NotFound(f"the task {sent.task_id!r} no longer exists")
    ids = {"taskId": sent.task_id, "conversationId": sent.session_id}
    if reply is None:
        return Json(ids | {"status": task.status.value}, 202, headers)
    task_messages = await context.history.of_task(task)
    user = context.history.user(task_messages)
    if reply.status is TaskStatus.SUCCEEDED:
        both = {"userMessage": user, "assistantMessage": context.history.answer(task_messages)}
        return Json(both, 200, headers)
    if reply.status is TaskStatus.SUSPENDED:
        questions = [question_record(each) for each in reply.questions]
        waiting = {"userMessage": user, "assistantMessage": None} | ids
        return Json(
            waiting | {"suspended": {"questions": questions, "runs": list(reply.runs)}},
            202,
            headers,
        )
    if reply.status is TaskStatus.BLOCKED:
        state = {"status": reply.status.value} | blocked_part(reply.blocked_on)
        return Json(ids | state, 202, headers)
    return end_problem(reply, _culprit(task_messages, reply), headers, request_id)


def _culprit(task_messages: TaskMessages, reply: TaskReply) -> dict[str, Any]:
    """Return the call that ended the task, if one did."""
    for settled in reversed(task_messages.settled.values()):
        error = settled.envelope.error
        if error is not None and reply.error is not None and error.code == reply.error.code:
            return {"toolCallId": settled.call_id, "toolName": settled.tool_id}
    return {}


def _attachments(asked: dict[str, Any]) -> list[PlacedFile]:
    """Return the files of a message. Raises InvalidRequest for bytes that are not base64."""
    files: list[PlacedFile] = []
    for number, given in enumerate(asked.get("attachments", ())):
        name = given.get("name")
        if "blobId" in given:
            attachment = Attachment.from_upload(given["blobId"], name=name)
        elif "url" in given:
            attachment = Attachment.from_url(given["url"], name=name)
        else:
            try:
                content = b64decode("".join(given["data"].split()), validate=True)
            except ValueError as error:
                field = f"/attachments/{number}/data"
                raise InvalidRequest(
                    [{"field": field, "issue": f"is not base64: {error}"}]
                ) from None
            attachment = Attachment(content, name=name)
        attachment.mime = given.get("mimeType")
        files.append(PlacedFile(attachment, number))
    return files


def _model_settings(asked: dict[str, Any], profile: Profile) -> dict[str, Any] | None:
    """Return the settings of requests to the model. Raises InvalidRequest and Forbidden.

    Members of the body of a request can replace its model, its instructions and its messages, name
    tools that the provider runs, or refer to what it has stored for others.
    """
    if (asked.get("modelSettings") or {}).get("extra") and not profile.holds(ADMIN):
        raise Forbidden("the member `extra` of `modelSettings` needs the permission 'admin'")
    try:
        given = convert(asked.get("modelSettings", {}), ModelSettings)
    except ValidationError as error:
        raise InvalidRequest([{"field": "/modelSettings", "issue": str(error)}]) from None
    return stored_settings(given)


async def _model(chat: ChatParts, asked: dict[str, Any]) -> str | None:
    """Return the requested model. Raises InvalidRequest if it does not exist."""
    name: str | None = asked.get("model")
    if name is not None:
        models = chat.models
        await models.look_up(name)
        try:
            models.get(name)
        except ConfigError as error:
            raise InvalidRequest([{"field": "/model", "issue": str(error)}]) from None
    return name
