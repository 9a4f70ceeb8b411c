"""The page at `/`: a chat in the browser, over the public API alone."""

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

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
_HTML, _STYLE, _SCRIPT = (
    (_FOLDER / name).read_bytes() for name in ("index.html", "page.css", "page.js")
)
_METHODS = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS)
async def page() -> Response:
    """Return the page."""
    return Response(_HTML, headers=HEADERS, media_type="text/html")


@router.api_route("/page.css", methods=_METHODS)
async def style() -> Response:
    """Return how it looks."""
    return Response(_STYLE, headers=HEADERS, media_type="text/css")


@router.api_route("/page.js", methods=_METHODS)
async def script() -> Response:
    """Return what it does."""
    return Response(_SCRIPT, headers=HEADERS, media_type="text/javascript")
