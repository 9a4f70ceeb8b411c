"""Requests and their redirects: each hop goes to an allowed host, at a checked address.

Guarantees: no byte is sent to a host that the project or the tool does not allow, to an address
that is not public unless both name it, or after the time and size limits. A secret is put in place
of its handle only for a host that the tool names. Each hop passes all checks again.

It relies on `network.exchange` to connect to the very addresses that were checked here: a second
DNS look-up could give another one (DNS rebinding). Proof: tests/resources/test_redirects.py.
"""

import asyncio
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, quote_plus

from httpx2 import URL, InvalidURL
from msgspec.structs import replace

from penstock.core.call_errors import EgressDenied, UpstreamUnavailable
from penstock.core.limits import Limits
from penstock.resources.egress import (
    EgressCaller,
    EgressPolicy,
    Fetch,
    HttpResponse,
    Redirect,
    Request,
)
from penstock.resources.hosts import (
    Endpoint,
    HostPattern,
    endpoint_of,
    is_guarded,
    is_literal,
    is_public,
)
from penstock.resources.network import WireRequest, ask_dns, exchange
from penstock.resources.vault import SecretHandles

MAX_REDIRECTS = 5
"""Most redirects that are followed."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS = frozenset({"connection", "content-length", "expect", "host", "keep-alive"}) | {
    *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
}
"""Headers of the connection, which callers may not set."""
_OF_ORIGIN = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_BODY = frozenset({"content-encoding", "content-language", "content-location", "content-type"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FORM = "application/x-www-form-urlencoded"


def open_hops(terms: EgressPolicy) -> Fetch:
    """Return a function that sends requests under this policy. This module is loaded late."""
    return RedirectFollower(terms).fetch


class RedirectFollower:
    """Sends a request and follows its redirects."""

    def __init__(self, terms: EgressPolicy) -> None:
        self._limits = terms.limits
        self._allow = terms.allow
        self._private = terms.allow_private
        self._resolve = terms.resolve or ask_dns
        self._tls = terms.tls

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Send the request and follow its redirects, within one time limit for all hops."""
        _check(request, self._limits)
        most = request.max_seconds or self._limits.fetch_ms / 1000
        seconds = min(request.seconds or most, most)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._follow(request, asker)
        except TimeoutError as error:
            if not limit.expired():
                raise
            host = _parsed(request.url).host
            raise UpstreamUnavailable(
                f"{host} did not answer within {seconds:g} seconds", details={"sent": True}
            ) from error

    async def _follow(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Send, and follow redirects; each hop passes the same checks."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send(request, asker)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return answer
            if request.redirect is Redirect.MANUAL:
                return answer
            if request.redirect is Redirect.ERROR:
                raise UpstreamUnavailable(f"{answer.url} redirects, and redirect is 'error'")
            request = _redirected(request, answer.status, location, asker.handles)
        raise UpstreamUnavailable(f"{request.url} is behind more than {MAX_REDIRECTS} redirects")

    async def _send(self, request: Request, asker: EgressCaller) -> HttpResponse:
        url = _parsed(request.url)
        place = _place(url)
        pattern = self._permit(place, asker)
        sent = _opened(request, place, pattern, asker)
        addresses = await self._addresses(place, pattern, asker)
        most = self._limits.fetch_response_bytes
        answer = await exchange(
            sent,
            addresses,
            tls=self._trust(),
            max_bytes=most if request.max_bytes is None else request.max_bytes,
        )
        return replace(answer, url=request.url)

    def _permit(self, place: Endpoint, asker: EgressCaller) -> HostPattern | None:
        """Return the tool's pattern that allows the place, preferably one that names the host."""
        patterns = [each for each in asker.egress or () if each.allows(place)]
        if asker.egress is not None and not patterns:
            raise EgressDenied(
                f'"{asker.tool_id}" may not reach {place}: no pattern of its egress allows it',
                suggestion=f'Add "{place.pattern}" to egress in its manifest.',
            )
        if not any(each.allows(place) for each in self._allow):
            raise EgressDenied(
                f'"{asker.tool_id}" may not reach {place}: no pattern of egress.allow in '
                f"penstock.toml allows it{self._why_not_any()}",
                suggestion=f'Add "{place.pattern}" to egress.allow in penstock.toml.',
            )
        return min(patterns, key=lambda each: not each.names_host, default=None)

    def _why_not_any(self) -> str:
        """Return a reminder of what `*` means if the project allows it."""
        is_any = any(not each.names_host for each in self._allow)
        return ' ("*" is every host, by https on port 443)' if is_any else ""

    async def _addresses(
        self, place: Endpoint, pattern: HostPattern | None, asker: EgressCaller
    ) -> Sequence[str]:
        """Return the addresses of a host. Raises EgressDenied unless all may be contacted."""
        try:
            if ":" in place.host:
                addresses: Sequence[str] = [place.host]
            else:
                addresses = await self._resolve(place.host, place.port)
        except (OSError, UnicodeError) as error:
            raise UpstreamUnavailable(f"{place.host} is not known: {error}") from error
        if not addresses:
            raise UpstreamUnavailable(f"{place.host} has no address")
        is_named = pattern is not None and pattern.names_host
        if is_named and self._may_be_private(place):
            if is_literal(place.host) or not any(map(is_guarded, addresses)):
                return addresses
            raise EgressDenied(
                f'"{asker.tool_id}" may not reach {place}: it has a link-local address, or one of '
                "a cloud's metadata",
                suggestion="Only egress.allow_private with the address itself opens one.",
            )
        if not all(map(is_public, addresses)):
            raise EgressDenied(
                f'"{asker.tool_id}" may not reach {place}: it has an address that is not public',
                suggestion=f'If it may, name it in egress of the tool, and "{place.host}:'
                f'{place.port}" in egress.allow_private of the project.',
            )
        return addresses

    def _may_be_private(self, place: Endpoint) -> bool:
        """Whether the project allows any address here, by this name or a domain above it."""
        at = f"{place.host}:{place.port}"
        above = (each.removeprefix("*") for each in self._private if each.startswith("*."))
        return at in self._private or any(at.endswith(each) for each in above)

    def _trust(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


def _check(request: Request, limits: Limits) -> None:
    """Raise TypeError for a request that cannot be sent."""
    url = _parsed(request.url)
    if url.scheme not in {"http", "https"} or not url.host:
        raise TypeError(f"fetch requires an http or https URL, found {request.url!r:.200}")
    if url.userinfo:
        raise TypeError("fetch requires a URL without a user and password; send a header instead")
    if not _TOKEN.fullmatch(request.method) or request.method.upper() in {"CONNECT", "TRACE"}:
        raise TypeError(f"fetch does not send the method {request.method!r:.40}")
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise TypeError(f"fetch does not send the header {name!r:.80}")
        if not _VALUE.fullmatch(value):
            raise TypeError(
                f"the value of {name!r} has characters that are not allowed in a header"
            )
    if request.body is not None and request.method.upper() in {"GET", "HEAD"}:
        raise TypeError(f"a {request.method.upper()} has no body")
    size = sum(len(each.encode() if isinstance(each, str) else each) for each in _pieces(request))
    if size > limits.fetch_request_bytes:
        raise TypeError(f"a body has at most {limits.fetch_request_bytes} bytes, this has {size}")


def _pieces(request: Request) -> tuple[bytes | str, ...]:
    body = request.body
    if body is None:
        return ()
    return body if isinstance(body, tuple) else (body,)


def _parsed(url: str) -> URL:
    try:
        return URL(url)
    except (InvalidURL, TypeError, ValueError) as error:
        raise TypeError(f"fetch requires an http or https URL, found {url!r:.200}") from error


def _place(url: URL) -> Endpoint:
    return endpoint_of(url.scheme, url.raw_host.decode("ascii"), url.port)


def _opened(
    request: Request, place: Endpoint, pattern: HostPattern | None, asker: EgressCaller
) -> WireRequest:
    """Return the request with its secrets in place of their handles."""
    handles, pieces, url = asker.handles, _pieces(request), _parsed(request.url)
    query = url.query.decode("ascii")
    headers = {name.lower(): value for name, value in request.headers}
    texts = (each for each in pieces if isinstance(each, str))
    keys = handles.keys_in(query, *headers.values(), *texts)
    if keys and (pattern is None or not pattern.names_host):
        raise EgressDenied(
            f'"{asker.tool_id}" may not send the secret {", ".join(sorted(keys))} to {place}: '
            "only a host that its egress names may have a secret"
        )
    opened = {name: handles.open(value) for name, value in headers.items()}
    if any(not _VALUE.fullmatch(value) for value in opened.values()):
        raise TypeError(f"the secret {', '.join(sorted(keys))} is not allowed in a header")
    if query:
        spelled = handles.open(query, lambda value: quote(value, safe=""))
        url = url.copy_with(query=spelled.encode("ascii"))
    spelled_so = _spelling(headers.get("content-type", ""))
    whole = [
        handles.open(each, spelled_so).encode() if isinstance(each, str) else each
        for each in pieces
    ]
    body = None if request.body is None else b"".join(whole)
    return WireRequest(
        method=request.method.upper(),
        url=str(url.copy_with(fragment=None, host=place.host)),
        place=place,
        headers=_complete(opened, place, body, request.method.upper()),
        body=body,
    )


def _spelling(content_type: str) -> Callable[[str], str]:
    """Return the escape function for a secret in a body of this type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == _FORM:
        return quote_plus
    is_json = kind == "application/json" or kind.endswith("+json")
    return _in_json if is_json else str


def _in_json(secret: str) -> str:
    return json.dumps(secret, ensure_ascii=False)[1:-1]


def _complete(
    headers: Mapping[str, str], place: Endpoint, body: bytes | None, method: str
) -> dict[str, str]:
    host = str(place).partition("://")[2]
    defaults = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": "penstock"}
    complete = {"host": host, **defaults, **headers, "connection": "close"}
    if body is not None or method in {"POST", "PUT", "PATCH"}:
        complete["content-length"] = str(len(body or b""))
    return complete


def _redirected(request: Request, status: int, location: str, handles: SecretHandles) -> Request:
    """Return the next request. Another origin receives no credentials of the first."""
    old = _parsed(request.url)
    try:
        new = old.join(location)
        target = _place(new)
    except (InvalidURL, KeyError, ValueError) as error:
        raise UpstreamUnavailable(f"{request.url} redirects to {location!r:.200}") from error
    if new.userinfo or not target.host:
        raise UpstreamUnavailable(f"{request.url} redirects to {location!r:.200}")
    method, body, headers = request.method.upper(), request.body, request.headers
    is_asked_for = method not in {"GET", "HEAD"}
    if (status == 303 and is_asked_for) or (status in {301, 302} and method == "POST"):  # noqa: PLR2004
        method, body = "GET", None
        headers = tuple(each for each in headers if each[0].lower() not in _OF_BODY)
    if target != _place(old):
        headers = tuple(
            (name, value)
            for name, value in headers
            if name.lower() not in _OF_ORIGIN and not handles.keys_in(value)
        )
    return replace(request, url=str(new), method=method, body=body, headers=headers)
