"""Pages without JavaScript: sign-in, the links of `/web`, and a conversation as text.

All texts are escaped, and no resource is from another server. Sign-in takes an API key and sets a
cookie in its place. A request for the page of a link does not use the link: its button does.

Tests: tests/server/test_plain_pages.py, tests/journeys/test_web_links.py.
"""

from html import escape
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.chat.history import HistoryRange
from penstock.core.clock import to_iso
from penstock.core.errors import LinkExpired, NotFound, Unauthenticated
from penstock.core.ids import MessageId, SessionId
from penstock.core.profile import READ
from penstock.server.auth import Cookies
from penstock.server.context import ADDRESS, PROFILE, admitted, context_of
from penstock.server.openapi import answers, takes
from penstock.server.parameters import Form, read_body, read_json
from penstock.server.problem import Json
from penstock.server.rates import WrongKeys
from penstock.server.routing import Router, root_of, way_up

sign_in_router = Router(tags=["sign-in"])
web_links_router = Router(tags=["web links"])
transcript_router = Router(include_in_schema=False)

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
FORM = "application/x-www-form-urlencoded"
_PAGE = (
    '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>{title}</title>"
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="{up}plain.css"></head>\n'
    "<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
)


def html_page(
    request: Request,
    title: str,
    *parts: str,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the page that answers a request; the title is text, the parts are markup."""
    body = _PAGE.format(title=escape(title), body="\n".join(parts), up=way_up(request.scope))
    return Response(body, status, {**HEADERS, **(headers or {})}, media_type="text/html")


def element(tag: str, text: str, kind: str = "") -> str:
    """Return text as an element."""
    named = f' class="{escape(kind)}"' if kind else ""
    return f"<{tag}{named}>{escape(text)}</{tag}>"


def link(address: str, text: str) -> str:
    """Return a link."""
    return f'<p><a href="{escape(address)}">{escape(text)}</a></p>'


def button_to(address: str, text: str) -> str:
    """Return a form that is one button."""
    return f'<form method="post" action="{escape(address)}"><button>{escape(text)}</button></form>'


KEY = Form({"key": {"type": "string", "minLength": 1, "writeOnly": True}}, required=("key",))
WRONG = "This key is not valid here. Create one with: penstock keys create NAME"
_OWN_ORIGIN = {"referrer-policy": "same-origin"}
_ASKS = (
    '<form method="post" action="{up}api/session"><label for="key">Key</label> '
    '<input id="key" name="key" type="password" autocomplete="off" placeholder="pk_…" required> '
    "<button>Sign in</button></form>"
)
_DONE = answers(None, 204)


@sign_in_router.api_route("/login", methods=["GET", "HEAD"], include_in_schema=False)
async def show_sign_in(request: Request) -> Response:
    """Return the page that takes a key."""
    return _sign_in_page(request)


@sign_in_router.post(
    "/api/session",
    status_code=204,
    responses=_DONE,
    openapi_extra=takes(KEY),
    response_class=Response,
)
async def sign_in(request: Request) -> Response:
    """Check a key and set the cookie; a form is redirected to the page."""
    context = context_of(request)
    wrong: WrongKeys = request.app.state.wrong_keys
    address, now = request.scope[ADDRESS], context.world.clock.now()
    is_form = request.headers.get("content-type", "").startswith(FORM)
    key = await _form_key(request) if is_form else await _json_key(request)
    done = Response(status_code=204)
    if is_form:
        done = RedirectResponse(way_up(request.scope), 303, HEADERS)
    wrong.begin(address, now)
    is_wrong = False
    try:
        return await signed_in(request, key, done)
    except Unauthenticated:
        is_wrong = True
        if is_form:
            return _sign_in_page(request, element("p", WRONG, "problem"), status=401)
        raise
    finally:
        if not is_wrong:
            wrong.forgive(address)


@sign_in_router.delete("/api/session", status_code=204, responses=_DONE, response_class=Response)
async def sign_out(request: Request) -> Response:
    """Sign out: delete the sign-in and the cookie; without a cookie do nothing."""
    context, cookies, done = context_of(request), _cookies(request), Response(status_code=204)
    if token := cookies.find(Headers(scope=request.scope)):
        await context.kept.sign_ins.end(token)
        done.headers["set-cookie"] = cookies.header(request.scope, "", 0)
    return done


async def signed_in(request: Request, key: str, response: Response) -> Response:
    """Return the response with a cookie for the key. Raises Unauthenticated."""
    sign_ins = context_of(request).kept.sign_ins
    token = await sign_ins.begin(key)
    made = _cookies(request).header(request.scope, token, sign_ins.seconds)
    response.headers["set-cookie"] = made
    return response


def _sign_in_page(request: Request, *parts: str, status: int = 200) -> Response:
    form = _ASKS.format(up=way_up(request.scope))
    title = "Sign in to penstock"
    return html_page(request, title, *parts, form, status=status, headers=_OWN_ORIGIN)


async def _json_key(request: Request) -> str:
    body, _ = await read_json(request, context_of(request).limits.request_bytes)
    key: str = KEY.read(body)["key"]
    return key.strip()


async def _form_key(request: Request) -> str:
    raw = await read_body(request, context_of(request).limits.request_bytes)
    return "".join(parse_qs(raw.decode(errors="replace")).get("key", [])).strip()


def _cookies(request: Request) -> Cookies:
    cookies: Cookies = request.app.state.cookies
    return cookies


@web_links_router.api_route("/link/{token}", methods=["GET", "HEAD"], include_in_schema=False)
async def show_link(token: str, request: Request) -> Response:
    """Return the page of a link; a request for the page does not use the link."""
    text = "This link works once. The button opens a conversation in this browser."
    address = f"{way_up(request.scope)}api/links/{quote(token, safe='')}"
    button = button_to(address, "Open the conversation")
    return html_page(request, "penstock", element("p", text), button)


@web_links_router.post("/api/links/{token}", responses=answers("OpenedLink"), response_class=Json)
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
        redirect = RedirectResponse(f"{way_up(request.scope)}c/{opened.session_id}", 303, HEADERS)
        return redirect if opened.key is None else await signed_in(request, opened.key, redirect)
    return Json(
        {
            "key": opened.key,
            "conversationId": opened.session_id,
            "agentId": opened.agent,
            "expiresAt": None if opened.expires_at is None else to_iso(opened.expires_at),
        },
        headers={"cache-control": "no-store"},
    )


PAGE_SIZE = 200
WHO = {"user": "You", "assistant": "Agent"}


@transcript_router.api_route("/c/{session_id}", methods=["GET", "HEAD"])
async def show_conversation(
    session_id: str, request: Request, before: str | None = None
) -> Response:
    """Return the newest messages of a conversation, or those before a message."""
    context, up = context_of(request), way_up(request.scope)
    if request.scope.get(PROFILE) is None:
        return RedirectResponse(f"{up}login", 303, HEADERS)
    profile = admitted(request, READ)
    session = await context.storage.projections.find_session(SessionId(session_id))
    if session is None or not profile.owns(session.profile_id, session.session_id):
        raise NotFound(f"there is no conversation {session_id!r}")
    history_range = HistoryRange(limit=PAGE_SIZE, before=MessageId(before) if before else None)
    page = await context.history.page(session.session_id, history_range)
    live = f"{up}#{quote(session.agent, safe='')}/{quote(session_id, safe='')}"
    parts = [_message_element(each, up, root_of(request.scope)) for each in page.messages]
    if page.has_more:
        query = urlencode({"before": page.messages[0]["id"]})
        parts.insert(0, link(f"{up}c/{quote(session_id, safe='')}?{query}", "Older messages"))
    return html_page(
        request, session.title or "Conversation", *parts, link(live, "Go on in the chat")
    )


def _message_element(message: dict[str, Any], up: str, root: str) -> str:
    about = message.get("metadata", {})
    lines = [element("header", WHO.get(message["role"], message["role"]))]
    lines += [element("p", f"called {each['name']}") for each in message.get("toolCalls") or ()]
    lines.append(element("pre", message["content"] or ""))
    for file in message.get("attachments", ()):
        # Relative, as all links of this page: a proxy may serve it below a prefix of its own.
        address = up + file["url"].removeprefix(f"{root}/")
        lines.append(link(address, file.get("name") or file["mimeType"]))
    if error := about.get("error"):
        lines.append(element("p", f"{error['message']} ({error['code']})", "problem"))
    return f"<article>{''.join(lines)}</article>"
