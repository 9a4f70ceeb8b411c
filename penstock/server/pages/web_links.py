"""Links of `/web`: a page with one button, which opens the conversation once."""

from urllib.parse import quote

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from penstock.core.clock import to_iso
from penstock.core.errors import LinkExpired
from penstock.server.context import context_of
from penstock.server.pages.plain import FORM, HEADERS, button_to, element, html_page
from penstock.server.pages.sign_in import signed_in
from penstock.server.requests.mount import way_up
from penstock.server.requests.problem import Json
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers

router = Router(tags=["web links"])


@router.api_route("/link/{token}", methods=["GET", "HEAD"], include_in_schema=False)
async def show_link(token: str, request: Request) -> Response:
    """Return the page of a link; a request for the page does not use the link."""
    said = "This link works once. The button opens a conversation in this browser."
    address = f"{way_up(request.scope)}api/links/{quote(token, safe='')}"
    button = button_to(address, "Open the conversation")
    return html_page(request, "penstock", element("p", said), button)


@router.post("/api/links/{token}", responses=answers("OpenedLink"), response_class=Json)
async def open_link(token: str, request: Request) -> Response:
    """Use a link: return its conversation, and a key for it if the server needs keys."""
    context = context_of(request)
    is_form = request.headers.get("content-type", "").startswith(FORM)
    try:
        opened = await context.kept.web_links.open(token)
    except LinkExpired as error:
        if is_form:
            return html_page(request, "penstock", element("p", str(error), "problem"), status=403)
        raise
    if is_form:
        there = RedirectResponse(f"{way_up(request.scope)}c/{opened.session_id}", 303, HEADERS)
        return there if opened.key is None else await signed_in(request, opened.key, there)
    return Json(
        {
            "key": opened.key,
            "conversationId": opened.session_id,
            "agentId": opened.agent,
            "expiresAt": None if opened.expires_at is None else to_iso(opened.expires_at),
        },
        headers={"cache-control": "no-store"},
    )
