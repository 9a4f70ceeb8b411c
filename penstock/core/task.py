"""One piece of work, and a conversation of such pieces: what lists and doors show of them."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import LogId, ProfileId, SessionId, TaskId

FLOW = "flow"
"""The kind of a task that is a run of a flow."""


class TaskStatus(StrEnum):
    """The state of a task. The values are the wire format.

    Example:
        >>> from penstock import TaskStatus
        >>> TaskStatus.SUSPENDED.is_final, TaskStatus.FAILED.is_final
        (False, True)
    """

    QUEUED = "queued"
    """It waits for its turn: for the task before it, or for a free place."""
    BLOCKED = "blocked"
    """It cannot go on where something is missing, such as its agent; another process may have it.
    """
    RUNNING = "running"
    """A process works on it, or will do so after a restart."""
    SUSPENDED = "suspended"
    """It waits for a person to answer a question, without a process."""
    SUCCEEDED = "succeeded"
    """It ended with an answer or an output."""
    FAILED = "failed"
    """It ended with an error."""
    CANCELLED = "cancelled"
    """A person or a program ended it."""

    @property
    def is_final(self) -> bool:
        """Whether nothing can happen to the task any more."""
        return self in _FINAL


_FINAL = {TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED}


class MissingKind(StrEnum):
    """What a task may need that a process does not have. The values are the wire format."""

    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"


class Missing(Struct, frozen=True):
    """Something that a task needs, by its name."""

    kind: MissingKind
    id: str

    def __str__(self) -> str:
        """Return it as messages name it; a model without a name is the project's."""
        return f"{self.kind.value} {self.id!r}" if self.id else f"the project's {self.kind.value}"

    def to_wire(self) -> Json:
        """Return it as it is stored and shown."""
        return {"kind": self.kind.value, "id": self.id}


def names_of(missing: Iterable[Missing]) -> str:
    """Return what is missing, for people."""
    return ", ".join(map(str, missing))


def blocked(missing: Iterable[Missing]) -> str:
    """Return why a task is blocked, and what to do."""
    return (
        f"the task is blocked: {names_of(missing)} is missing in this process. It resumes when a "
        "process that has it opens the project; cancel the task to give it up"
    )


class TaskRecord(Struct, frozen=True, kw_only=True):
    """One piece of work: a projection of its log."""

    task_id: TaskId
    log_id: LogId
    kind: str
    """`message` or `call`; the kinds of later doors are theirs to name."""
    status: TaskStatus
    profile_id: ProfileId
    agent: str
    created_at: Moment
    first_seq: int
    """The event that asked for the task."""
    started_seq: int | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    ended_seq: int | None = None
    outcome: Json | None = None
    """The body of the event that ended the task."""
    blocked_on: tuple[Missing, ...] = ()
    """What is missing, when the task is blocked."""


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A conversation of one profile with one agent: a projection of its log."""

    session_id: SessionId
    profile_id: ProfileId
    agent: str
    title: str
    created_at: Moment
    updated_at: Moment
    message_count: int = 0
    status: TaskStatus | None = None
    """Of the newest task that has not ended, or of the newest; None without tasks."""
