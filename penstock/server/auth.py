"""Admission of requests: by key or cookie, or without one from this machine while no key exists.

Closed until proven open: local mode needs a loopback bind address, a loopback peer that forwards
for no other machine, and a recent, successful check that found no key (`KeyPresence`). A request
that arrives before the project is open, or whose check fails, gets 503. Only `/api/health` answers
without a check. A path that is not in `OPEN`, not a signed link and not a way to sign in needs a
profile, whatever routes exist.

In local mode the `Host` must name this machine: otherwise a page of another site could reach the
server through a name that resolves to 127.0.0.1 (DNS rebinding). The `Origin` must as well.

It relies on the peer address of the ASGI server, and reads forwarded headers only from the proxies
in `[server] trusted_proxies`. Tests: tests/server/test_auth.py, test_key_presence.py.
"""

import asyncio
import ipaddress
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.accounts.keys import Keys
from penstock.app.settings_sections import ServerSection
from penstock.core.errors import (
    BadRequest,
    ConfigError,
    HostNotAllowed,
    NotFound,
    NotReady,
    OriginNotAllowed,
    PenstockError,
    StoreError,
    Unauthenticated,
)
from penstock.core.profile import Profile
from penstock.server.context import ADDRESS, FULL, GRANTED, PROFILE, ServerContext, ServerLifecycle
from penstock.server.key_presence import answered_within
from penstock.server.problem import problem, request_id_of
from penstock.server.rates import Rates, kind_of
from penstock.server.routing import path_of, root_of

HERE = {"localhost", "127.0.0.1", "::1"}
HEALTH = "/api/health"
"""Liveness: answered from memory, so that a database that hangs does not restart the process."""
READY = "/api/ready"
OPEN = {
    *("/", "/page.css", "/page.js", "/runs.js", "/view.js", "/plain.css", "/login"),
    *(HEALTH, "/api/session", "/openapi.json"),
}
"""Paths that need no key."""
BLOBS = "/api/blobs/"
"""Paths that need no key if the link is signed."""
LINK = "/api/links/"
SIGN_IN = "/api/session"
_COMING_IN = ("/link/", LINK, "/c/")
"""Paths that need no key: the link is itself a credential, or the page asks for a key."""
_FULL = "the server has reached its limit of connections; try again in a moment"
_SCHEMES = {"http", "https"}
_CLIENTS = {
    *(b"x-forwarded-for", b"x-real-ip", b"forwarded", b"x-client-ip", b"true-client-ip"),
    *(b"cf-connecting-ip", b"x-cluster-client-ip"),
}
"""Headers in which proxies name the client."""
_HOSTS = {b"x-forwarded-host", b"x-forwarded-server"}
"""Headers in which proxies name the host that the client asked for."""
_PROXIES = {*_CLIENTS, *_HOSTS, b"via", b"x-forwarded-proto", b"x-forwarded-port"}
"""These, and headers of proxies that name neither."""


async def check_bind(host: str, keys: Keys | None) -> None:
    """Raise ConfigError for an address that other machines can reach, while no key exists."""
    if is_loopback(host) or (keys is not None and await keys.exist()):
        return
    raise ConfigError(
        f"other machines can reach the address {host!r}, and no API key exists: "
        "create one with `penstock keys create NAME`, or bind 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    name = host.strip("[]").lower()
    if name in HERE:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class Authenticator:
    """Middleware that admits requests and sets the profile of each."""

    def __init__(
        self, app: ASGIApp, lifecycle: ServerLifecycle, server: ServerSection, rates: Rates
    ) -> None:
        self._app = app
        self._lifecycle = lifecycle
        self._server = server
        self._rates = rates
        self._cookies = Cookies(server)
        self._is_loopback = is_loopback(server.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or answer with the reason."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        extra: list[tuple[bytes, bytes]] = []

        async def stamped(message: Message) -> None:
            if extra and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            await (self._admit_soon if path_of(scope) == READY else self._admit)(scope, extra)
        except PenstockError as error:
            await problem(error, request_id_of(scope))(scope, receive, stamped)
            return
        await self._app(scope, receive, stamped)

    async def _admit_soon(self, scope: Scope, extra: list[tuple[bytes, bytes]]) -> None:
        """Admit `/api/ready`, without a profile if the database does not respond in time."""
        context = self._lifecycle.context
        try:
            async with asyncio.timeout(context.limits.ready_seconds if context else None):
                await self._admit(scope, extra)
        except (TimeoutError, StoreError):
            scope[PROFILE] = None

    async def _admit(self, scope: Scope, extra: list[tuple[bytes, bytes]]) -> None:
        _check_address(scope)
        headers, path = Headers(scope=scope), path_of(scope)
        context = self._lifecycle.context
        if path == HEALTH or (context is None and path == READY):
            self._check_health(scope, headers, context)
            return
        if FULL in scope or context is None:
            raise NotReady(_FULL if FULL in scope else None)
        self._read_forwarded(scope, headers)
        if GRANTED in scope:
            scope[PROFILE] = scope[GRANTED]
            self._count(scope, context, extra)
            return
        await self._authenticate(scope, headers, context, extra)

    async def _authenticate(
        self,
        scope: Scope,
        headers: Headers,
        context: ServerContext,
        extra: list[tuple[bytes, bytes]],
    ) -> None:
        """Find the profile of a request by its key or its cookie, or because it is local."""
        path = path_of(scope)
        is_form = path.startswith(LINK) or (path == SIGN_IN and scope["method"] == "POST")
        if is_form:
            self._cookies.check_form(scope, headers)
        if await self._is_local(scope, context):
            self._check_host(headers)
            if not is_form:
                self._check_origin(headers)
            scope[PROFILE] = context.runtime.local
            return
        profile, refused = None, None
        try:
            async with answered_within(context.limits.key_look_seconds):
                profile = await self._profile(headers, context)
                if profile is None and not is_form:
                    profile = await self._signed_in(scope, headers, context, extra)
        except Unauthenticated as error:
            refused = error
        scope[PROFILE] = profile
        self._count(scope, context, extra)
        if refused is not None:
            raise refused
        is_signed = path.startswith(BLOBS) and b"sig=" in scope["query_string"]
        is_signed = is_signed or path.startswith(_COMING_IN)
        if profile is None and path not in OPEN and not is_signed:
            raise Unauthenticated

    def _count(
        self, scope: Scope, context: ServerContext, extra: list[tuple[bytes, bytes]]
    ) -> None:
        """Count the request for its profile, else for its address. Raises RateLimited."""
        profile: Profile | None = scope[PROFILE]
        caller = profile.profile_id if profile else scope[ADDRESS]
        kind = kind_of(scope["method"], path_of(scope))
        now = context.world.clock.now()
        if spent := self._rates.count(caller, kind, now):
            extra += [(name.lower().encode(), text.encode()) for name, text in
                      spent.headers().items()]  # fmt: skip
            self._rates.check(spent, kind, now)

    def _check_health(self, scope: Scope, headers: Headers, context: ServerContext | None) -> None:
        """Require a `Host` of this machine while the last check found no key.

        It starts no check: liveness must not depend on the database, and reveals nothing.
        """
        scope[PROFILE] = None
        if self._is_loopback and context is not None and context.key_presence.known is False:
            self._check_host(headers)

    async def _is_local(self, scope: Scope, context: ServerContext) -> bool:
        """Whether the bind address and the client are loopback addresses, and no key exists."""
        is_here = self._is_loopback and _is_from_here(scope)
        return is_here and not await context.key_presence.query()

    async def _profile(self, headers: Headers, context: ServerContext) -> Profile | None:
        authorization = headers.get("authorization")
        if authorization is None:
            return None
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or context.keys is None:
            raise Unauthenticated
        return await context.keys.profile(key.strip())

    async def _signed_in(
        self,
        scope: Scope,
        headers: Headers,
        context: ServerContext,
        extra: list[tuple[bytes, bytes]],
    ) -> Profile | None:
        """Return the profile of the cookie, or None if the cookie is invalid or missing."""
        token, database_parts = self._cookies.find(headers), context.storage.database_parts
        if token is None or database_parts is None:
            return None
        try:
            sign_in = await database_parts.sign_ins.find(token)
        except Unauthenticated:
            return None
        self._cookies.check_origin(scope, headers)
        if sign_in.is_renewed:
            cookie = self._cookies.header(scope, token, database_parts.sign_ins.seconds)
            extra.append((b"set-cookie", cookie.encode()))
        return sign_in.profile

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if _name(f"//{host}") not in HERE:
            raise HostNotAllowed(
                f"the Host must be localhost, 127.0.0.1 or [::1] while no API key exists, "
                f"found {host!r}; to use another name create a key: penstock keys create NAME"
            )

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is None or origin in self._server.cors_origins:
            return
        if _name(origin) not in HERE:
            raise OriginNotAllowed(
                f"pages of {origin!r} cannot use this server; "
                "to allow them, list the origin in [server] cors_origins"
            )

    def _read_forwarded(self, scope: Scope, headers: Headers) -> None:
        """Set the client's address and scheme; only trusted proxies can forward either.

        Each proxy appends to `X-Forwarded-For`, some in a header line of their own. So the client
        is the last address that is not a trusted proxy; a client can forge those before it.
        """
        client: Any = scope.get("client")
        address = str(client[0]) if client else ""
        trusted = self._server.trusted_proxies
        if address in trusted:
            lines = ",".join(headers.getlist("x-forwarded-for"))
            hops = [hop.strip() for hop in lines.split(",")]
            address = next((hop for hop in reversed(hops) if hop and hop not in trusted), address)
            scheme = headers.get("x-forwarded-proto", "").strip().lower()
            if scheme in _SCHEMES:
                scope["scheme"] = scheme
        scope[ADDRESS] = address


def _is_from_here(scope: Scope) -> bool:
    """Whether a program on this machine sent the request.

    A proxy on this machine passes requests of others on, often with a `Host` of this machine. Its
    headers need no trust here: they can only take rights away. A Unix socket has no address, and
    is where proxies listen for an application: nginx sends no header then, and `Host: localhost`.
    No peer has port 0: a server that trusts the headers of any client, as uvicorn with
    `forwarded_allow_ips="*"`, sets it.
    """
    client: Any = scope.get("client")
    if not client or not (is_loopback(str(client[0])) and client[1]):
        return False
    headers = [each for each in scope["headers"] if each[0] in _PROXIES]
    if not headers:
        return True
    clients, hosts = _named(headers, _CLIENTS), _named(headers, _HOSTS)
    is_named = bool(clients) and all(map(is_loopback, clients))
    return is_named and all(_name(f"//{each}") in HERE for each in hosts)


def _named(headers: list[tuple[bytes, bytes]], names: set[bytes]) -> list[str]:
    """Return the parts of the values of these headers."""
    values = b",".join(value for name, value in headers if name in names)
    return [part for each in values.decode("latin-1").split(",") if (part := each.strip())]


def _check_address(scope: Scope) -> None:
    """Raise NotFound or BadRequest for a NUL, which no database accepts in a query."""
    if "\x00" in scope["path"]:
        raise NotFound("no resource has a path that contains a NUL")
    if b"%00" in scope["query_string"]:
        raise BadRequest("the request cannot be read: its query contains a NUL (%00)")


def _name(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    is_plain = parts.username is None and not parts.path.strip("/")
    return parts.hostname if is_plain else None


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
