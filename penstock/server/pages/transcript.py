"""A conversation as a page without JavaScript; all texts are escaped."""

from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from penstock.chat.history import HistoryRange
from penstock.core.errors import NotFound
from penstock.core.ids import MessageId, SessionId
from penstock.core.profile import READ
from penstock.server.context import PROFILE, admitted, context_of
from penstock.server.pages.plain import HEADERS, element, html_page, link
from penstock.server.requests.mount import way_up
from penstock.server.routes.router import Router

router = Router(include_in_schema=False)

AT_ONCE = 200
WHO = {"user": "You", "assistant": "Agent"}


@router.api_route("/c/{conversation_id}", methods=["GET", "HEAD"])
async def show_conversation(
    conversation_id: str, request: Request, before: str | None = None
) -> Response:
    """Return the newest messages of a conversation, or those before a message."""
    context, up = context_of(request), way_up(request.scope)
    if request.scope.get(PROFILE) is None:
        return RedirectResponse(f"{up}login", 303, HEADERS)
    profile = admitted(request, READ)
    session = await context.runtime.parts.projections.find_session(SessionId(conversation_id))
    if session is None or not profile.owns(session.profile_id, session.session_id):
        raise NotFound(f"there is no conversation {conversation_id!r}")
    wanted = HistoryRange(limit=AT_ONCE, before=MessageId(before) if before else None)
    found = await context.history.page(session.session_id, wanted)
    live = f"{up}#{quote(session.agent, safe='')}/{quote(conversation_id, safe='')}"
    parts = [_message(each) for each in found.messages]
    if found.has_more:
        query = urlencode({"before": found.messages[0]["id"]})
        parts.insert(0, link(f"{up}c/{quote(conversation_id, safe='')}?{query}", "Older messages"))
    return html_page(
        request, session.title or "Conversation", *parts, link(live, "Go on in the chat")
    )


def _message(message: dict[str, Any]) -> str:
    about = message.get("metadata", {})
    lines = [element("header", WHO.get(message["role"], message["role"]))]
    lines += [element("p", f"called {each['name']}") for each in message.get("toolCalls") or ()]
    lines.append(element("pre", message["content"] or ""))
    if error := about.get("error"):
        lines.append(element("p", f"{error['message']} ({error['code']})", "problem"))
    return f"<article>{''.join(lines)}</article>"
