"""The one way to the network: requests of tools to other servers, and the policy for them."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from penstock.core.late import late
from penstock.core.limits import Limits
from penstock.resources.hosts import HostPattern, read_patterns, read_private
from penstock.resources.vault import SecretHandles

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host to its addresses. Raises OSError."""
_NO_HANDLES = SecretHandles()


class Redirect(StrEnum):
    """How a redirect is handled. The values are those of `fetch`."""

    FOLLOW = "follow"
    MANUAL = "manual"
    ERROR = "error"


class Request(Struct, frozen=True, kw_only=True):
    """A request of a tool to another server."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | str | tuple[bytes | str, ...] | None = None
    """Whole or in pieces. In texts, handles are replaced by secrets; bytes are sent unchanged."""
    redirect: Redirect = Redirect.FOLLOW
    seconds: float | None = None
    """A timeout shorter than the limit."""
    max_seconds: float | None = None
    """Another limit, for requests that take longer than usual."""
    max_bytes: int | None = None
    """Another limit for the size of the response; 0: its body is not read."""


class EgressCaller(Struct, frozen=True, kw_only=True):
    """The tool that makes a request, and what it declares."""

    tool_id: str
    egress: tuple[HostPattern, ...] | None
    """None: only the project's policy applies."""
    handles: SecretHandles = _NO_HANDLES


class HttpResponse(Struct, frozen=True, kw_only=True):
    """The response of the other server."""

    status: int
    url: str
    headers: Mapping[str, str]
    """Names in lower case; repeated ones joined with `, `."""
    body: bytes
    """Decompressed."""


class EgressPolicy(Struct, frozen=True, kw_only=True):
    """The hosts that the project allows for every tool."""

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
