"""Conversations with an agent: their messages, the agent's models and tools, deletion."""

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from penstock.agents.tool_offer import offered
from penstock.chat.directory import Directory, conversation
from penstock.chat.history import HistoryRange
from penstock.core.call import LISTED_FIRST
from penstock.core.errors import NotFound, SessionBusy
from penstock.core.ids import MessageId, SessionId, new_id
from penstock.core.profile import CHAT, READ, Profile
from penstock.core.task import SessionRecord
from penstock.models.model import ModelCard
from penstock.server.context import ServerContext, admitted, allowed, context_of, find_task_messages
from penstock.server.openapi import answers, streams, takes
from penstock.server.parameters import (
    Form,
    InHistory,
    InStream,
    ListQuery,
    page_of,
    read_json,
    sorting,
)
from penstock.server.problem import Json
from penstock.server.routes.session_stream import ResumePosition, stream_of_session
from penstock.server.routing import Router
from penstock.store.projections import SessionSort
from penstock.tools.python.given_tools import name_of_toolset
from penstock.tools.tool import Tool

router = Router(prefix="/api/agents/{agent_id}/chat", tags=["chat"])

BEGIN = Form({"title": {"type": ["string", "null"], "maxLength": 1000}})
SORTS = {
    "updatedAt": SessionSort.UPDATED,
    "createdAt": SessionSort.CREATED,
    "title": SessionSort.TITLE,
}
"""The orders of conversations: by times newest first, by title from A to Z."""
_GONE = answers(None, 204)


class ConversationsQuery(ListQuery):
    """The query of a list of conversations."""

    sort: str = sorting(SORTS)


@router.get("", responses=answers("History"), response_class=Json)
async def read_history(agent_id: str, request: Request, query: InHistory) -> Response:
    """Return messages of a conversation, oldest first; by default of the newest conversation."""
    context, profile = context_of(request), admitted(request, READ)
    directory = directory_of(context)
    if query.session_id is None:
        session = await directory.newest(agent_id, profile)
    else:
        session = await _session(context, query.session_id, agent_id, profile)
    meta: dict[str, Any] = {"total": 0, "limit": query.limit, "hasMore": False}
    if session is None:
        context.chat.agents.get(agent_id)
        return Json({"messages": [], "conversationId": None, "meta": meta})
    history_range = HistoryRange(
        view=query.view, limit=query.limit, before=query.before, search=query.search
    )
    page = await context.history.page(session.session_id, history_range)
    meta |= {"total": page.total, "hasMore": page.has_more}
    return Json({"messages": page.messages, "conversationId": session.session_id, "meta": meta})


@router.delete("", status_code=204, responses=_GONE, response_class=Response)
async def delete_everything(agent_id: str, request: Request) -> Response:
    """Delete every conversation with the agent."""
    context, profile = context_of(request), allowed(request, CHAT)
    directory = directory_of(context)
    if await directory.newest(agent_id, profile) is None:
        context.chat.agents.get(agent_id)
    await directory.delete_all(agent_id, profile, context.kept.erasure)
    return Response(status_code=204)


@router.get("/models", responses=answers("Models"), response_class=Json)
async def list_models(agent_id: str, request: Request) -> Response:
    """Return the models that a message can name."""
    context, _ = context_of(request), allowed(request, READ)
    context.chat.agents.get(agent_id)
    models = context.chat.models
    cards: list[dict[str, Any]] = []
    for card in models.cards():
        await models.look_up(card.model_id)
        cards.append(_model(card, models.find(card.model_id) is not None))
    return Json({"models": cards, "default": models.default})


@router.get("/tools", responses=answers("Tools"), response_class=Json)
async def list_tools(agent_id: str, request: Request, all: bool = False) -> Response:  # noqa: FBT001, FBT002
    """Return the tools that the agent's model is offered; `all` adds the disabled ones.

    The nine tools of every agent come first, the others by name. `toolsets` has the names of the
    agent's toolsets, whose tools are decided at the start of each task.
    """
    context, profile = context_of(request), allowed(request, READ)
    agent = context.chat.agents.get(agent_id)
    invoker = context.chat.participants.invoker(agent)
    on = offered(agent, invoker, profile)
    shown = sorted(invoker.registry if all else on, key=_sort_key)
    names = {each.spec.tool_id for each in on}
    tools = [_tool(each, each.spec.tool_id in names) for each in shown]
    return Json({"tools": tools, "toolsets": [name_of_toolset(each) for each in agent.toolsets]})


@router.get("/stream", responses=streams(answers(None, 204)), response_class=Response)
async def open_stream(agent_id: str, request: Request, query: InStream) -> Response:
    """Follow a conversation, after `Last-Event-ID` or from the start of its newest task."""
    context, profile = context_of(request), admitted(request, READ)
    session = await _session(context, query.session_id, agent_id, profile)
    resume = ResumePosition(
        session_id=session.session_id,
        agent=agent_id,
        last=request.headers.get("last-event-id") or query.last,
        from_now=query.start == "now",
        task_id=query.task_id,
        follow=query.follow,
    )
    slot = context.streams.enter(profile)
    try:
        return await stream_of_session(context, resume, slot)
    except BaseException:
        slot.leave()
        raise


@router.get("/conversations", responses=answers("Conversations"), response_class=Json)
async def list_conversations(
    agent_id: str, request: Request, query: Annotated[ConversationsQuery, Query()]
) -> Response:
    """Return conversations with the agent; `sort` is updatedAt, createdAt or title."""
    context, profile = context_of(request), allowed(request, READ)
    sort = SORTS[query.sorted_by(SORTS)]
    directory = directory_of(context)
    sessions, total = await directory.list(
        agent_id, profile, page=query.page, search=query.search, sort=sort
    )
    if not total and await directory.newest(agent_id, profile) is None:
        context.chat.agents.get(agent_id)
    return page_of("conversations", [conversation(each) for each in sessions], query.page, total)


@router.post(
    "/conversations",
    status_code=201,
    responses=answers("Conversation", 201),
    openapi_extra=takes(BEGIN, required=False),
    response_class=Json,
)
async def begin_conversation(agent_id: str, request: Request) -> Response:
    """Create an empty conversation."""
    context, profile = context_of(request), allowed(request, CHAT)
    context.chat.agents.get(agent_id)
    directory = directory_of(context)
    body, _ = await read_json(request, context.limits.request_bytes, empty={})
    title = BEGIN.read(body).get("title")
    session = await directory.begin(agent_id, profile, title, new_id=new_id)
    return Json(conversation(session), 201)


@router.delete(
    "/conversations/{conversation_id}",
    status_code=204,
    responses=_GONE,
    response_class=Response,
)
async def delete_conversation(agent_id: str, conversation_id: str, request: Request) -> Response:
    """Delete a conversation; its running tasks are cancelled first."""
    context, profile = context_of(request), admitted(request, CHAT)
    session = await _session(context, conversation_id, agent_id, profile)
    await directory_of(context).delete(session, context.kept.erasure)
    return Response(status_code=204)


@router.post(
    "/conversations/{conversation_id}/hand-back",
    responses=answers("HandedBack"),
    response_class=Json,
)
async def hand_back(agent_id: str, conversation_id: str, request: Request) -> Response:
    """Undo the newest hand-off of a conversation; without one nothing changes."""
    context, profile = context_of(request), admitted(request, CHAT)
    session = await _session(context, conversation_id, agent_id, profile)
    newest = await context.runtime.requests.hand_back(session.session_id, profile=profile)
    return Json({"conversationId": session.session_id, "agentId": newest})


@router.delete("/messages/{message_id}", status_code=204, responses=_GONE, response_class=Response)
async def erase_message(agent_id: str, message_id: str, request: Request) -> Response:
    """Erase the text of a message; with an answer, also the results and files of its tools.

    If the task has no answer, erasing the user's message erases everything of the task.
    """
    context, profile = context_of(request), admitted(request, CHAT)
    task_messages = await find_task_messages(context, profile, agent_id, MessageId(message_id))
    if task_messages.end is None:
        raise SessionBusy(
            "the agent is answering this message; cancel its task, or wait for its end"
        )
    answer_id, task = task_messages.end.message_id, task_messages.task
    is_answer = answer_id == message_id
    runs = await context.kept.erasure.erase_messages(
        task.log_id, task.task_id, user=not is_answer, answer=is_answer or answer_id is None
    )
    for run in runs:
        context.engine.bus.part_with(run)
    return Response(status_code=204)


async def _session(
    context: ServerContext, name: str, agent_id: str, profile: Profile
) -> SessionRecord:
    """Return a conversation. Raises NotFound, about the agent if the agent does not exist."""
    try:
        return await directory_of(context).get(SessionId(name), agent_id, profile)
    except NotFound:
        context.chat.agents.get(agent_id)
        raise


def directory_of(context: ServerContext) -> Directory:
    """Return the directory of conversations."""
    storage, engine = context.storage, context.engine
    return Directory(storage.log, storage.projections, engine.launcher, bus=engine.bus)


def _model(card: ModelCard, available: bool) -> dict[str, Any]:  # noqa: FBT001
    return {
        "id": card.model_id,
        "name": card.name,
        "provider": card.provider,
        "available": available,
        "contextTokens": card.context_tokens,
        "tools": card.tools,
    }


def _sort_key(tool: Tool) -> tuple[int, str]:
    """Return the sort key of a tool in a list."""
    tool_id = tool.spec.tool_id
    return (LISTED_FIRST.index(tool_id) if tool_id in LISTED_FIRST else len(LISTED_FIRST), tool_id)


def _tool(tool: Tool, enabled: bool) -> dict[str, Any]:  # noqa: FBT001
    spec = tool.spec
    return {
        "name": spec.tool_id,
        "description": spec.description,
        "parameters": dict(spec.parameters),
        "type": spec.kind,
        "cluster": None,
        "enabled": enabled,
        "approval": bool(spec.requires_approval),
        "effect": spec.effect.value,
    }
