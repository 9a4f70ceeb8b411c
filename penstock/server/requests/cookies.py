"""The cookie of a signed-in browser, and the checks against requests forged by other sites."""

from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from penstock.app.sections import ServerSection
from penstock.core.errors import OriginNotAllowed
from penstock.server.requests.mount import root_of

NAME = "penstock_session"
READING = {"GET", "HEAD"}
"""Methods that change nothing, so a forged request cannot do harm with them."""
_ELSEWHERE = {"cross-site", "same-site"}


class Cookies:
    """Reads and writes the cookie; accepts it only in requests from this server's own pages."""

    def __init__(self, server: ServerSection) -> None:
        self._public = _origin_of(server.public_url)

    def find(self, headers: Headers) -> str | None:
        """Return the token in the cookie, or None."""
        return cookie_parser(headers.get("cookie", "")).get(NAME) or None

    def header(self, scope: Scope, token: str, seconds: int) -> str:
        """Return the `Set-Cookie` header; 0 seconds delete the cookie."""
        is_secure = scope["scheme"] == "https" or self._public.startswith("https:")
        place = quote(root_of(scope)) or "/"
        rules = f"Max-Age={seconds}; Path={place}; HttpOnly; SameSite=Strict"
        return f"{NAME}={token}; {rules}" + ("; Secure" if is_secure else "")

    def check_origin(self, scope: Scope, headers: Headers) -> None:
        """Raise OriginNotAllowed for a change that does not come from a page of this server."""
        origin = headers.get("origin")
        is_own = origin in self._own(scope, headers)
        if origin is None:
            is_own = headers.get("sec-fetch-site") == "same-origin"
        if scope["method"] not in READING and not is_own:
            raise OriginNotAllowed(
                "requests with the cookie can change something only from pages of this server, "
                f"found the origin {origin!r}; a program sends `Authorization: Bearer pk_…`"
            )

    def check_form(self, scope: Scope, headers: Headers) -> None:
        """Raise OriginNotAllowed for a form on a page of another site.

        The origin `null` is accepted: a page without a referrer, such as a link's, sends it.
        """
        origin = headers.get("origin")
        is_foreign = origin not in {None, "null"} | self._own(scope, headers)
        if is_foreign or headers.get("sec-fetch-site") in _ELSEWHERE:
            raise OriginNotAllowed(f"pages of {origin!r} cannot sign in to this server")

    def _own(self, scope: Scope, headers: Headers) -> set[str | None]:
        """Return the origins of this server's pages."""
        here = f"{scope['scheme']}://{headers.get('host', '')}".lower()
        return {here, self._public} if self._public else {here}


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower() if url else ""
