"""The page at `/`: a chat in the browser that uses only the public API."""

from pathlib import Path

from fastapi import Request
from starlette.responses import Response

from penstock.server.context import context_of
from penstock.server.routing import Router

router = Router(include_in_schema=False)

HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_FOLDER = Path(__file__).with_suffix("")
_HTML, _STYLE, _SCRIPT, _RUNS, _VIEW, _PLAIN = (
    (_FOLDER / name).read_bytes()
    for name in ("index.html", "page.css", "page.js", "runs.js", "view.js", "plain.css")
)
_CONTENT_CHARS = b"{content_chars}"
"""The placeholder in the page for the longest message."""
_METHODS = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS)
async def page(request: Request) -> Response:
    """Return the page, with the limit on the length of a message."""
    html = _HTML.replace(_CONTENT_CHARS, str(context_of(request).limits.content_chars).encode())
    return Response(html, headers=HEADERS, media_type="text/html")


@router.api_route("/page.css", methods=_METHODS)
async def style() -> Response:
    """Return the page's stylesheet."""
    return Response(_STYLE, headers=HEADERS, media_type="text/css")


@router.api_route("/page.js", methods=_METHODS)
async def script() -> Response:
    """Return the page's main script."""
    return Response(_SCRIPT, headers=HEADERS, media_type="text/javascript")


@router.api_route("/runs.js", methods=_METHODS)
async def runs() -> Response:
    """Return the script that finds the questions of flow runs."""
    return Response(_RUNS, headers=HEADERS, media_type="text/javascript")


@router.api_route("/view.js", methods=_METHODS)
async def view() -> Response:
    """Return the script that displays the frames of a chat."""
    return Response(_VIEW, headers=HEADERS, media_type="text/javascript")


@router.api_route("/plain.css", methods=_METHODS)
async def plain_style() -> Response:
    """Return the stylesheet of pages without JavaScript."""
    return Response(_PLAIN, headers=HEADERS, media_type="text/css")
