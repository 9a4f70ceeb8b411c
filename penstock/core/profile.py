"""The profile of a request: its owner, and its permissions."""

from collections.abc import Iterable

from msgspec import Struct

from penstock.core.ids import ProfileId, SessionId

LOCAL = ProfileId("local")

READ, CHAT, APPROVE, MANAGE, ADMIN = "read", "chat", "approve", "manage", "admin"


class Profile(Struct, frozen=True, kw_only=True):
    """The owner of a request, with its permissions.

    A server has one profile for each API key, and `local` when no key exists. A program passes a
    profile to the methods of `Runtime`; without one they use `runtime.local`.

    Example:
        >>> from penstock import Profile
        >>> ann = Profile.named("ann", "read", "chat")
        >>> ann.holds("chat"), ann.holds("manage")
        (True, False)
    """

    profile_id: ProfileId = LOCAL
    """The name that conversations, state, files and secrets belong to."""
    permissions: frozenset[str] = frozenset()
    """`read`, `chat`, `approve`, `manage`, `admin`, and those that tools and skills require."""
    kind: str = "user"
    """`user`, or `builtin` for a service of the runtime itself."""
    everything: bool = False
    """Whether it has every permission, including those of tools."""
    session_id: SessionId | None = None
    """The only conversation that it may use; None means all of its own."""
    key_name: str | None = None
    """The name of the API key of the request; None if it came without one."""

    @classmethod
    def named(cls, name: str, *permissions: str) -> "Profile":
        """Return the profile of a person or a program that your application knows.

        Args:
            name: The name that its conversations, state, files and secrets belong to.
            *permissions: `read`, `chat`, `approve`, `manage`, `admin`, or others that tools need.
        """
        return cls(profile_id=ProfileId(name), permissions=frozenset(permissions))

    @classmethod
    def from_noted(cls, profile_id: ProfileId, noted: Iterable[str] | None) -> "Profile":
        """Return the profile that an event names, with its permissions at that time.

        Args:
            profile_id: The profile of the event.
            noted: The permissions as the event has them; None means all.
        """
        if noted is None:
            local = profile_id == LOCAL
            return LOCAL_PROFILE if local else cls(profile_id=profile_id, everything=True)
        return cls(profile_id=profile_id, permissions=frozenset(noted))

    @property
    def noted(self) -> tuple[str, ...] | None:
        """The permissions in the form of events; None means all."""
        return None if self.everything else tuple(sorted(self.permissions))

    def holds(self, permission: str) -> bool:
        """Whether the profile has the permission.

        Args:
            permission: Its name, such as `chat` or one that a tool requires.
        """
        return self.everything or permission in self.permissions or ADMIN in self.permissions

    def listed(self, named: Iterable[str]) -> list[str]:
        """Return its permissions, sorted, for scripts.

        Args:
            named: Permissions that the project names. A profile that holds everything has these.
        """
        every = {READ, CHAT, APPROVE, MANAGE, ADMIN, *named}
        return sorted(every if self.everything else self.permissions)

    def owns(self, owner: ProfileId, log_id: str | None) -> bool:
        """Whether the profile may use something that belongs to an owner and is in a log.

        Args:
            owner: The profile that it belongs to.
            log_id: The log that contains it; None if it is in none.
        """
        is_here = self.session_id in {None, log_id}
        return is_here and (self.profile_id == owner or self.holds(ADMIN))


LOCAL_PROFILE = Profile(everything=True)
"""The person at this machine."""
