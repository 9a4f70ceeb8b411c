"""The one way to the network: what tools ask of other servers, and which they may ask at all."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.resources.hosts import HostPattern, read_patterns, read_private
from penstock.resources.vault import SecretHandles

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Asks for the addresses of a host. Raises OSError."""
_NO_HANDLES = SecretHandles()


class Redirect(StrEnum):
    """What is done with a redirect. The values are those of `fetch`."""

    FOLLOW = "follow"
    MANUAL = "manual"
    ERROR = "error"


class Request(Struct, frozen=True, kw_only=True):
    """What a tool wants of another server."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | str | tuple[bytes | str, ...] | None = None
    """Whole or in pieces. In a text handles are opened; bytes go as they are."""
    redirect: Redirect = Redirect.FOLLOW
    seconds: float | None = None
    """Instead of the limit, if it is less."""
    most_seconds: float | None = None
    """The limit itself, for what takes longer than other requests."""
    most_bytes: int | None = None
    """Of the answer, instead of the limit."""


class EgressCaller(Struct, frozen=True, kw_only=True):
    """Who asks: a tool, and what it declares."""

    tool_id: str
    egress: tuple[HostPattern, ...] | None
    """None: bound by what the project allows alone."""
    handles: SecretHandles = _NO_HANDLES


class HttpResponse(Struct, frozen=True, kw_only=True):
    """The response of the other server."""

    status: int
    url: str
    headers: Mapping[str, str]
    """Names in lower case; repeated ones joined with `, `."""
    body: bytes
    """Unpacked."""


class EgressPolicy(Struct, frozen=True, kw_only=True):
    """Where the project allows requests to go, for every tool."""

    limits: Limits
    allow: tuple[HostPattern, ...]
    allow_private: frozenset[str]
    """`host:port`, in the spelling of `Endpoint`."""
    resolve: Resolve | None
    """None: the resolver of this machine."""
    tls: ssl.SSLContext | None
    """None: the certificates that this machine trusts."""


Fetch = Callable[[Request, EgressCaller], Awaitable[HttpResponse]]
_Open = Callable[[EgressPolicy], Fetch]


class Egress:
    """Sends requests to hosts that both the project and the tool allow.

    The HTTP client is imported with the first request: it takes 4 MiB.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        allow: Sequence[str] = ("*",),
        allow_private: Sequence[str] = (),
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._terms = EgressPolicy(
            limits=limits,
            allow=read_patterns(allow),
            allow_private=read_private(allow_private),
            resolve=resolve,
            tls=tls,
        )
        self._fetch: Fetch | None = None

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Send the request, follow its redirects, and return the response, whatever its status.

        Raises TypeError (the request is malformed), EgressDenied, UpstreamUnavailable,
        OutputTooLarge.
        """
        if self._fetch is None:
            open_hops: _Open = late("penstock.resources.redirects:open_hops")
            self._fetch = open_hops(self._terms)
        return await self._fetch(request, asker)
