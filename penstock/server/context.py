"""What the routes of one server share."""

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request

from penstock.app.runtime import Runtime
from penstock.chat.access.keys import Keys
from penstock.chat.database_parts import DatabaseParts
from penstock.chat.follow import LogSource
from penstock.chat.history import History
from penstock.core.call_errors import NotAvailable
from penstock.core.errors import Forbidden, NotFound, NotReady, Unauthenticated
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.resources.links import Links
from penstock.server.requests.key_presence import KeyPresence
from penstock.server.requests.mount import root_of
from penstock.server.streams.sse import Streams

PROFILE = "penstock.profile"
"""Where the entrance leaves whom a request is made for; None without a key, on open paths."""
ADDRESS = "penstock.address"
"""Where the entrance leaves where a request comes from."""

FULL = "penstock.full"
"""In the scope of a request that came over a connection too many: it is refused with 503."""


class ServerContext(Struct, frozen=True, kw_only=True):
    """A runtime, and what stands around it while it is served."""

    runtime: Runtime
    streams: Streams
    links: Links
    source: LogSource

    history: History
    key_presence: KeyPresence
    lifecycle: "ServerLifecycle"

    @classmethod
    def build(cls, runtime: Runtime, lifecycle: "ServerLifecycle") -> "ServerContext":
        """Return what serves this runtime."""
        parts = runtime.parts
        limits = parts.limits
        links = Links(parts.key, parts.clock, limits.blob_url_seconds)
        exist = parts.database_parts.keys.exist if parts.database_parts else None
        return cls(
            runtime=runtime,
            streams=Streams(limits),
            links=links,
            source=LogSource(log=parts.log, bus=parts.bus, limits=limits),
            history=History(parts.log, parts.projections, links.of),
            key_presence=KeyPresence(exist, parts.clock, wait_seconds=limits.key_look_seconds),
            lifecycle=lifecycle,
        )

    def below(self, root: str) -> "ServerContext":
        """Return the same, mounted at this path: links to stored bytes begin with it."""
        parts = self.runtime.parts
        links = Links(parts.key, parts.clock, parts.limits.blob_url_seconds, root=root)
        history = History(parts.log, parts.projections, links.of)
        return replace(self, links=links, history=history)

    @property
    def limits(self) -> Limits:
        """The bounds of the runtime."""
        return self.runtime.parts.limits

    @property
    def is_draining(self) -> bool:
        """Whether the server is about to stop."""
        return self.lifecycle.is_draining

    @property
    def kept(self) -> DatabaseParts:
        """What is kept. Raises NotAvailable where nothing is."""
        database_parts = self.runtime.parts.database_parts
        if database_parts is None:
            raise NotAvailable("this server keeps nothing, so nothing can be looked up or deleted")
        return database_parts

    @property
    def keys(self) -> Keys | None:
        """The keys; None where none can be."""
        database_parts = self.runtime.parts.database_parts
        return database_parts.keys if database_parts else None


class ServerLifecycle:
    """Where the context stands once it is open, and whether it still takes requests."""

    def __init__(self) -> None:
        self.context: ServerContext | None = None
        self.is_draining = False

    def drain(self) -> None:
        """Take no more requests, and end every stream with a place to come back to."""
        self.is_draining = True
        if self.context is not None:
            self.context.runtime.parts.bus.close()

    def get(self) -> ServerContext:
        """Return the context. Raises NotReady before it is open, and while it closes."""
        if self.context is None or self.is_draining:
            raise NotReady
        return self.context


def context_of(request: Request) -> ServerContext:
    """Return what serves this request."""
    lifecycle: ServerLifecycle = request.app.state.lifecycle
    context, root = lifecycle.get(), root_of(request.scope)
    return context.below(root) if root else context


def allowed(request: Request, permission: str) -> Profile:
    """Return for whom the request is made. Raises Forbidden, which names what is missing.

    For who is let into one conversation alone nothing is here: NotFound.
    """
    profile = admitted(request, permission)
    if profile.session_id is not None:
        raise NotFound(f"{request.url.path} is not there for who is let into one conversation")
    return profile


def admitted(request: Request, permission: str) -> Profile:
    """Return what `allowed` does, also who is let into one conversation alone.

    A route that asks for this looks itself, by `Profile.owns`, at what it gives.
    """
    profile: Profile | None = request.scope.get(PROFILE)
    if profile is None:
        raise Unauthenticated
    if not profile.holds(permission):
        raise Forbidden(f"this takes the permission {permission!r}, which the key does not have")
    return profile


def owned(profile: Profile, owner: ProfileId, what: str, log_id: str | None = None) -> None:
    """Raise NotFound unless the thing is this profile's: what is not one's own is not there."""
    if not profile.owns(owner, log_id):
        raise NotFound(f"there is no {what}")
