"""Sign-in of browsers: a page that takes an API key, and a cookie in place of the key."""

from urllib.parse import parse_qs

from fastapi import Request
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response

from penstock.core.errors import Unauthenticated
from penstock.server.context import ADDRESS, context_of
from penstock.server.pages.plain import FORM, HEADERS, element, html_page
from penstock.server.requests.bodies import Form, read_body, read_json
from penstock.server.requests.cookies import Cookies
from penstock.server.requests.mount import way_up
from penstock.server.requests.rates import WrongKeys
from penstock.server.routes.router import Router
from penstock.server.schemas.openapi import answers, takes

router = Router(tags=["sign-in"])

KEY = Form({"key": {"type": "string", "minLength": 1, "writeOnly": True}}, required=("key",))
WRONG = "This key does not count here. Keys are made with: penstock keys create NAME"
_OWN_ORIGIN = {"referrer-policy": "same-origin"}
_ASKS = (
    '<form method="post" action="{up}api/session"><label for="key">Key</label> '
    '<input id="key" name="key" type="password" autocomplete="off" placeholder="pk_…" required> '
    "<button>Sign in</button></form>"
)
_DONE = answers(None, 204)


@router.api_route("/login", methods=["GET", "HEAD"], include_in_schema=False)
async def show_sign_in(request: Request) -> Response:
    """Return the page that takes a key."""
    return _page(request)


@router.post(
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
    address, now = request.scope[ADDRESS], context.runtime.parts.clock.now()
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
            return _page(request, element("p", WRONG, "problem"), status=401)
        raise
    finally:
        if not is_wrong:
            wrong.forgive(address)


@router.delete("/api/session", status_code=204, responses=_DONE, response_class=Response)
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


def _page(request: Request, *parts: str, status: int = 200) -> Response:
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
