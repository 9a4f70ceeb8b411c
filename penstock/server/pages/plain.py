"""Pages without JavaScript: all texts are escaped, and no resource is from another server."""

from html import escape

from starlette.requests import Request
from starlette.responses import Response

from penstock.server.requests.mount import way_up

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
