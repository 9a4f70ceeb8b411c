"""What waits for a person, by kind, and what the person may answer."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import CallId, LogId, ProfileId, QuestionId, TaskId


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
