"""The objects that the routes of one server share, and the checks and look-ups they start with."""

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request

from penstock.accounts.keys import Keys
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import (
    ChatParts,
    DatabaseParts,
    EngineParts,
    FlowParts,
    Storage,
    ToolParts,
)
from penstock.app.settings_sections import ServerSection
from penstock.chat.history import History, TaskMessages
from penstock.chat.log_follower import LogSource
from penstock.core.call_errors import NotAvailable
from penstock.core.errors import Forbidden, NotFound, NotReady, Unauthenticated
from penstock.core.ids import LogId, MessageId, ProfileId
from penstock.core.limits import Limits, World
from penstock.core.profile import ADMIN, Profile
from penstock.resources.signed_links import Links
from penstock.server.key_presence import KeyPresence
from penstock.server.replays import Replays
from penstock.server.routing import root_of
from penstock.server.streams.sse import Streams

PROFILE = "penstock.profile"
"""The key in the scope of the request's profile; None on open paths without an API key."""
GRANTED = "penstock.granted"
"""The key in the scope of the profile that an outer application grants to a request."""
ADDRESS = "penstock.address"
"""The key in the scope of the client's address."""
FULL = "penstock.full"
"""In the scope of a request over the connection limit, which gets 503."""


class ServerContext(Struct, frozen=True, kw_only=True):
    """A runtime, its parts that routes read, and the objects that a server adds to it."""

    runtime: Runtime
    world: World
    storage: Storage
    engine: EngineParts
    chat: ChatParts
    tools: ToolParts
    flows: FlowParts
    streams: Streams
    links: Links
    source: LogSource
    history: History
    key_presence: KeyPresence
    lifecycle: "ServerLifecycle"
    replays: Replays

    @classmethod
    def build(cls, runtime: Runtime, lifecycle: "ServerLifecycle") -> "ServerContext":
        """Return the context of a server for this runtime."""
        parts = runtime.parts
        world, storage, keys = parts.world, parts.storage, _keys_of(parts.storage)
        limits, links = world.limits, storage.links
        exist = keys.exist if keys else None
        return cls(
            runtime=runtime,
            world=world,
            storage=storage,
            engine=parts.engine,
            chat=parts.chat,
            tools=parts.tools,
            flows=parts.flows,
            streams=Streams(limits),
            links=links,
            source=LogSource(log=storage.log, bus=parts.engine.bus, limits=limits),
            history=History(storage.log, storage.projections, links.to_file),
            key_presence=KeyPresence(exist, world.clock, wait_seconds=limits.key_look_seconds),
            lifecycle=lifecycle,
            replays=Replays(world.new_id),
        )

    def below(self, root: str) -> "ServerContext":
        """Return this context for a server mounted at `root`: links to blobs start with it."""
        links = self.storage.links.below(root)
        history = History(self.storage.log, self.storage.projections, links.to_file)
        return replace(self, links=links, history=history)

    @property
    def limits(self) -> Limits:
        """The limits of the runtime."""
        return self.world.limits

    @property
    def is_draining(self) -> bool:
        """Whether the server is stopping."""
        return self.lifecycle.is_draining

    @property
    def kept(self) -> DatabaseParts:
        """The parts that need a database. Raises NotAvailable without one."""
        database_parts = self.storage.database_parts
        if database_parts is None:
            raise NotAvailable(
                "this server has no database, so it cannot look anything up or delete it"
            )
        return database_parts

    @property
    def keys(self) -> Keys | None:
        """The API keys; None without a database."""
        return _keys_of(self.storage)


class ServerLifecycle:
    """The settings, the context once the project is open, and whether requests are accepted."""

    def __init__(self, server: ServerSection | None = None) -> None:
        self.server = server or ServerSection()
        self.context: ServerContext | None = None
        self.is_draining = False

    def drain(self) -> None:
        """Stop accepting requests and end every stream; readers resume with their last id."""
        self.is_draining = True
        if self.context is not None:
            self.context.engine.bus.close()
            self.context.replays.cancel()

    def get(self) -> ServerContext:
        """Return the context. Raises NotReady before the project is open and while it closes."""
        if self.context is None or self.is_draining:
            raise NotReady
        return self.context


def _keys_of(storage: Storage) -> Keys | None:
    return storage.database_parts.keys if storage.database_parts else None


def context_of(request: Request) -> ServerContext:
    """Return the context of the server that received this request."""
    lifecycle: ServerLifecycle = request.app.state.lifecycle
    context, root = lifecycle.get(), root_of(request.scope)
    return context.below(root) if root else context


def allowed(request: Request, permission: str) -> Profile:
    """Return the request's profile. Raises Unauthenticated and Forbidden.

    Raises NotFound for a profile that a link limits to one conversation.
    """
    profile = admitted(request, permission)
    if profile.session_id is not None:
        raise NotFound(f"{request.url.path} cannot be reached with a link to one conversation")
    return profile


def admitted(request: Request, permission: str) -> Profile:
    """Return the request's profile, even one that is limited to one conversation.

    The route must check with `Profile.owns` that it returns nothing of other conversations.
    """
    profile: Profile | None = request.scope.get(PROFILE)
    if profile is None:
        raise Unauthenticated
    if not profile.holds(permission):
        raise Forbidden(
            f"this request needs the permission {permission!r}, which the key does not have"
        )
    return profile


def owned(profile: Profile, owner: ProfileId, what: str, log_id: str | None = None) -> None:
    """Raise NotFound unless the profile owns the object, as if it did not exist."""
    if not profile.owns(owner, log_id):
        raise NotFound(f"there is no {what}")


def listed_for(profile: Profile, session_id: LogId | None) -> tuple[ProfileId | None, LogId | None]:
    """Return the owner and the conversation of the objects that a list shows to a profile.

    An administrator sees those of all profiles, and a link to one conversation shows no other. None
    means any.
    """
    owner = None if profile.holds(ADMIN) else profile.profile_id
    return owner, LogId(profile.session_id) if profile.session_id else session_id


async def find_task_messages(
    context: ServerContext, profile: Profile, agent: str, message_id: MessageId
) -> TaskMessages:
    """Return the task of a message that the profile can read. Raises NotFound."""
    message = await context.kept.lookup.find_message(message_id, agent, profile)
    task = None if message is None else await context.storage.projections.find_task(message.task_id)
    if task is None:
        context.chat.agents.get(agent)
        raise NotFound(f"agent {agent!r} has no message {message_id!r}")
    return await context.history.of_task(task)
