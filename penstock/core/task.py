"""Tasks, conversations and questions: their states, and the records that lists show of them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import CallId, LogId, ProfileId, QuestionId, SessionId, TaskId

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


class QuestionKind(StrEnum):
    """What kind of answer is wanted. The values are the wire format."""

    APPROVAL = "approval"
    ASK_USER = "ask_user"
    USER_MESSAGE = "user_message"
    FORK = "fork"
    TASK = "task"


EXPIRED: Json = {"expired": True}
"""What stands for the answer to a question that nobody answered in time."""


class QuestionStatus(StrEnum):
    """Whether the question still waits."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"


class Option(Struct, frozen=True, kw_only=True):
    """One of the answers that a question offers."""

    label: str
    value: str
    aliases: tuple[str, ...] = ()


class Question(Struct, frozen=True, kw_only=True):
    """Something that only a person can decide."""

    question_id: QuestionId
    kind: QuestionKind
    text: str
    path: CallPath
    """The call that waits."""
    call_id: CallId | None = None
    """The model's call that the waiting call is, or stands in."""
    tool_id: str | None = None
    input: Json | None = None
    """What an approval would let run, redacted."""
    input_schema: Json | None = None
    """What an edited input must match; not shown."""
    context: str | None = None
    options: tuple[Option, ...] = ()
    schema: Json | None = None
    """What `value` of an answer must match."""
    form: Json | None = None
    """`type`, `multiSelect`, `allowCustom`, `defaultValue` of a question that has a type."""
    expires_at: Moment | None = None
    resume_payload: Any = None
    """What comes back with the answer, unless the answer replaces it."""

    @property
    def handed_back(self) -> dict[str, Any]:
        """What an answer holds besides what was said."""
        return {} if self.resume_payload is None else {"resume_payload": self.resume_payload}


class QuestionRecord(Struct, frozen=True, kw_only=True):
    """A question and what became of it: the projection that doors list."""

    question: Question
    log_id: LogId
    task_id: TaskId
    profile_id: ProfileId
    agent: str
    asked_at: Moment
    status: QuestionStatus = QuestionStatus.OPEN
    answered_at: Moment | None = None
    answered_by: ProfileId | None = None
    answer: Json | None = None


def standing(status: QuestionStatus, answer: Json | None) -> str:
    """Return how a question stands, as people read it: open, answered, cancelled or expired."""
    is_late = status is QuestionStatus.CANCELLED and not is_withdrawn(status, answer)
    return "expired" if is_late else status.value


def is_withdrawn(status: QuestionStatus, answer: Json | None) -> bool:
    """Whether nobody waits for an answer any more, though its time was not over."""
    is_expired = (answer or {}).items() >= EXPIRED.items()
    return status is QuestionStatus.CANCELLED and not is_expired
