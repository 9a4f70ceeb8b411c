"""The cookie of a browser that is signed in, and which pages may use it."""

from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from penstock.app.sections import ServerSection
from penstock.core.errors import OriginNotAllowed
from penstock.server.requests.mount import root_of

NAME = "penstock_session"
READING = {"GET", "HEAD"}
"""Methods that change nothing, so a page of others cannot do harm with them."""
_ELSEWHERE = {"cross-site", "same-site"}


class Cookies:
    """Makes and reads the cookie; its requests come from pages of this server alone."""

    def __init__(self, server: ServerSection) -> None:
        self._public = _origin_of(server.public_url)

    def find(self, headers: Headers) -> str | None:
        """Return the token in the cookie."""
        return cookie_parser(headers.get("cookie", "")).get(NAME) or None

    def made(self, scope: Scope, token: str, seconds: int) -> str:
        """Return the header that sets the cookie; no seconds take it away."""
        is_secure = scope["scheme"] == "https" or self._public.startswith("https:")
        place = quote(root_of(scope)) or "/"
        rules = f"Max-Age={seconds}; Path={place}; HttpOnly; SameSite=Strict"
        return f"{NAME}={token}; {rules}" + ("; Secure" if is_secure else "")

    def check_origin(self, scope: Scope, headers: Headers) -> None:
        """Raise OriginNotAllowed for a change that no page of this server asked for."""
        origin = headers.get("origin")
        is_own = origin in self._own(scope, headers)
        if origin is None:
            is_own = headers.get("sec-fetch-site") == "same-origin"
        if scope["method"] not in READING and not is_own:
            raise OriginNotAllowed(
                "with the cookie, changes are made by pages of this server alone, "
                f"found the origin {origin!r}; a program sends `Authorization: Bearer pk_…`"
            )

    def check_form(self, scope: Scope, headers: Headers) -> None:
        """Raise OriginNotAllowed for a form of somebody else's page, as far as that can be told.

        A page without referrer, as that of a link, says that its origin is null.
        """
        origin = headers.get("origin")
        is_foreign = origin not in {None, "null"} | self._own(scope, headers)
        if is_foreign or headers.get("sec-fetch-site") in _ELSEWHERE:
            raise OriginNotAllowed(f"pages of {origin!r} may not sign anybody in here")

    def _own(self, scope: Scope, headers: Headers) -> set[str | None]:
        """Return where pages of this server come from."""
        here = f"{scope['scheme']}://{headers.get('host', '')}".lower()
        return {here, self._public} if self._public else {here}


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower() if url else ""
