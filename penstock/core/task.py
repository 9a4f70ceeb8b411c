"""Tasks, conversations and questions: their states, and the records that lists show of them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.ids import CallId, LogId, ProfileId, QuestionId, ScheduleId, SessionId, TaskId

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
    """It waits for the previous task of its conversation, or for a free slot."""
    BLOCKED = "blocked"
    """It waits for other tasks, or this process lacks something that it needs, such as its agent.
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
    """The kinds of things that a process may lack. The values are the wire format."""

    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    TOOLSET = "toolset"
    """It failed in this process, which asks it again later."""
    TASK = "task"
    """Another task, which has not ended."""


class Missing(Struct, frozen=True):
    """Something that a task needs and a process lacks, or another task that it waits for."""

    kind: MissingKind
    id: str

    def __str__(self) -> str:
        """Return its kind and name, for messages; a model without a name is the project's."""
        return f"{self.kind.value} {self.id!r}" if self.id else f"the project's {self.kind.value}"

    def to_wire(self) -> Json:
        """Return its stored form, which is also that of the wire."""
        return {"kind": self.kind.value, "id": self.id}


def names_of(missing: Iterable[Missing]) -> str:
    """Return the missing things as one text for people."""
    return ", ".join(map(str, missing))


def blocked(missing: Iterable[Missing]) -> str:
    """Return the message about a blocked task, with the next step."""
    missing = tuple(missing)
    if all(each.kind is MissingKind.TASK for each in missing):
        return f"the task waits for {names_of(missing)}"
    if all(each.kind is MissingKind.TOOLSET for each in missing):
        return (
            f"the task is blocked: {names_of(missing)} failed in this process, whose log has the "
            "reason. It is asked again within two minutes. To end the task, cancel it."
        )
    return (
        f"the task is blocked: {names_of(missing)} is missing in this process. It resumes when a "
        "process that has it opens the project. To end it, cancel the task."
    )


def tasks_awaited(runs: Iterable[TaskId]) -> tuple[Missing, ...]:
    """Return what blocks a task that waits for other tasks."""
    return tuple(Missing(MissingKind.TASK, run) for run in dict.fromkeys(runs))


def is_lacking(missing: Iterable[Missing]) -> bool:
    """Whether a process lacks something, and not only that other tasks have not ended."""
    return any(each.kind is not MissingKind.TASK for each in missing)


class TaskRecord(Struct, frozen=True, kw_only=True):
    """A task as lists show it, derived from its log."""

    task_id: TaskId
    log_id: LogId
    kind: str
    """`message`, `call`, `flow` or `child`."""
    status: TaskStatus
    profile_id: ProfileId
    agent: str
    created_at: Moment
    first_seq: int
    """The event that requested the task."""
    started_seq: int | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    ended_seq: int | None = None
    outcome: Json | None = None
    """The body of the event that ended the task."""
    blocked_on: tuple[Missing, ...] = ()
    """The missing parts, if the task is blocked, or the tasks that it waits for."""
    parent_id: TaskId | None = None
    """The task that requested it; None for a task at the top of a tree."""
    root_id: TaskId | None = None
    """The task at the top of its tree, if that is another one."""
    title: str = ""
    """The title of a child."""
    task_key: str = ""
    """The name that the parent gave to the child."""
    worker_kind: str = ""
    batch_id: str = ""
    schedule_id: ScheduleId | None = None
    """The schedule that started it, if one did."""


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A conversation of one profile with one agent as lists show it, derived from its log."""

    session_id: SessionId
    profile_id: ProfileId
    agent: str
    title: str
    created_at: Moment
    updated_at: Moment
    message_count: int = 0
    status: TaskStatus | None = None
    """The status of the newest task that has not ended, else of the newest task; None without
    tasks."""


class QuestionKind(StrEnum):
    """The reason for a question. The values are the wire format."""

    APPROVAL = "approval"
    ASK_USER = "ask_user"
    USER_MESSAGE = "user_message"
    FORK = "fork"
    TASK = "task"


EXPIRED: Json = {"expired": True}
"""The stored answer of a question that expired."""


class QuestionStatus(StrEnum):
    """The state of a question. The values are the wire format."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"


class Option(Struct, frozen=True, kw_only=True):
    """One of the answers that a question offers."""

    label: str
    value: str
    aliases: tuple[str, ...] = ()


class Question(Struct, frozen=True, kw_only=True):
    """A decision that a call needs from a person."""

    question_id: QuestionId
    kind: QuestionKind
    text: str
    path: CallPath
    """The call that waits for the answer."""
    call_id: CallId | None = None
    """The model's call that waits, or that contains the waiting call."""
    tool_id: str | None = None
    input: Json | None = None
    """The input that an approval would run with, redacted."""
    input_schema: Json | None = None
    """The schema of an edited input; not shown."""
    context: str | None = None
    options: tuple[Option, ...] = ()
    schema: Json | None = None
    """The schema of `value` in an answer."""
    form: Json | None = None
    """`type`, `multiSelect`, `allowCustom`, `defaultValue` of a question with a type."""
    expires_at: Moment | None = None
    resume_payload: Any = None
    """Returned with the answer, unless the answer has its own."""

    @property
    def handed_back(self) -> dict[str, Any]:
        """The members that every answer gets, in addition to its own."""
        return {} if self.resume_payload is None else {"resume_payload": self.resume_payload}


class QuestionForm(Struct, frozen=True, kw_only=True):
    """How a question may be answered."""

    options: tuple[Option, ...] = ()
    schema: Json | None = None
    context: str | None = None
    typed: Json | None = None
    """The fields of a typed question: `type` and its parameters."""


FREE = QuestionForm()


class QuestionRecord(Struct, frozen=True, kw_only=True):
    """A question and its answer as lists show them, derived from the log."""

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
    """Return the state of a question for people: open, answered, cancelled or expired."""
    has_expired = status is QuestionStatus.CANCELLED and not is_withdrawn(status, answer)
    return "expired" if has_expired else status.value


def is_withdrawn(status: QuestionStatus, answer: Json | None) -> bool:
    """Whether a question was cancelled before it expired."""
    is_expired = (answer or {}).items() >= EXPIRED.items()
    return status is QuestionStatus.CANCELLED and not is_expired


class TaskOutput(Struct, frozen=True, kw_only=True, gc=False):
    """The typed output of a task."""

    value: Any
    """JSON that fits the schema of the output."""
    type_name: str = ""
    """The member of a union that the model chose; empty if there is no choice."""
