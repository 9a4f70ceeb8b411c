"""Whom something is done for, and with which permissions."""

from collections.abc import Iterable

from msgspec import Struct

from penstock.core.ids import ProfileId, SessionId

LOCAL = ProfileId("local")

READ, CHAT, APPROVE, MANAGE, ADMIN = "read", "chat", "approve", "manage", "admin"


class Profile(Struct, frozen=True, kw_only=True):
    """Whom something is done for; `local` when no key exists."""

    profile_id: ProfileId = LOCAL
    permissions: frozenset[str] = frozenset()
    kind: str = "user"
    """`user`, or `builtin` for a service of the runtime itself."""
    everything: bool = False
    """Holds every permission there is, those of tools included."""
    session_id: SessionId | None = None
    """The one conversation that is there for it; None: all that are its own."""

    @classmethod
    def from_noted(cls, profile_id: ProfileId, noted: Iterable[str] | None) -> "Profile":
        """Return the profile that an event speaks of, with what it was allowed then."""
        if noted is None:
            local = profile_id == LOCAL
            return LOCAL_PROFILE if local else cls(profile_id=profile_id, everything=True)
        return cls(profile_id=profile_id, permissions=frozenset(noted))

    @property
    def noted(self) -> tuple[str, ...] | None:
        """The permissions as events note them; None is all of them."""
        return None if self.everything else tuple(sorted(self.permissions))

    def holds(self, permission: str) -> bool:
        """Whether the profile has the permission."""
        return self.everything or permission in self.permissions or ADMIN in self.permissions

    def listed(self, named: Iterable[str]) -> list[str]:
        """Return its permissions as scripts read them; of all, those that have a name here."""
        every = {READ, CHAT, APPROVE, MANAGE, ADMIN, *named}
        return sorted(every if self.everything else self.permissions)

    def owns(self, owner: ProfileId, log_id: str | None) -> bool:
        """Whether what belongs to this owner, and stands in this log, is the profile's to use."""
        is_here = self.session_id in {None, log_id}
        return is_here and (self.profile_id == owner or self.holds(ADMIN))


LOCAL_PROFILE = Profile(everything=True)
"""The person at this machine."""
