"""Whose a value is: of a profile, a conversation, a task, or of all."""

from enum import StrEnum

from msgspec import Struct


class ScopeKind(StrEnum):
    """The kinds of owners. The values are the wire format."""

    PROFILE = "profile"
    SESSION = "session"
    TASK = "task"
    SHARED = "shared"


class Scope(Struct, frozen=True):
    """An owner of values."""

    kind: ScopeKind
    id: str
    """Of the profile, the conversation or the task; of what is shared the name that authors gave.

    What belongs to a task may be kept in parts: `task_1/letter` goes with `task_1`.
    """

    def part(self, name: str) -> "Scope":
        """Return a scope beside this one that goes when this one goes."""
        return Scope(self.kind, f"{self.id}/{name}")

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.kind}:{self.id}"
