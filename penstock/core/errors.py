"""The exceptions and signals of the runtime; those of calls and replies have files of their own.

PenstockError                 docstring = default message; `code` = the class name in capitals
├── ConfigError               a setting or an extra is missing or wrong
├── DeclarationError          an authored file has errors; contains every Diagnostic
├── StoreError                the database or its disk failed
│   ├── StoreFull             no space is left
│   ├── StoreReadOnly         the database cannot be written
│   ├── StoreLocked           another process holds the file
│   ├── OutOfResources        no free file descriptor, process, thread or memory
│   ├── StoreTooNew           made by a newer version
│   ├── StoreCorrupt          a row or the file cannot be decoded
│   └── StoreClosed           the database was closed
├── NotFound                  it does not exist, or belongs to another profile
├── NameTaken                 the name is in use
├── ReadOnly                  it is defined in a file
├── SessionBusy               tasks of the session are queued or running
├── QuestionOpen              a question must be answered first
├── AlreadyAnswered           the question has an answer
├── QuestionClosed            the question was cancelled or has expired
├── TaskOver                  the task has ended
├── TaskRunning               the task has not ended yet
├── TextErased                a part of the task was erased
├── RuntimeMisuse             a program used the runtime in a way that cannot work
├── IdempotencyConflict       one key, two requests
├── BadRequest                the request cannot be read
├── BadLastEventId            not a position in this log
├── InvalidRequest            contains every problem of a request's body
│   └── InvalidAnswer         the answer does not fit its question
├── Unauthenticated           no valid key
├── Forbidden                 a permission is missing
├── HostNotAllowed            a foreign Host header
├── OriginNotAllowed          a foreign Origin header
├── LinkExpired               a signed link that is no longer valid
├── TooLarge                  a body over its limit
├── UnsupportedType           a content type that is not supported
├── RateLimited               too many requests
├── TooManyStreams            too many open streams
├── NotReady                  the server is starting or stopping
├── PromptNotResolved         the project's prompt script returned no text
├── ToolsetFailed             a toolset raised, or returned no usable tools
├── HookRefused               a hook refused a message, a request or a reply
├── HookFailed                a hook raised, returned something else, or did not return
├── ModelError                a model did not answer
│   ├── ModelUnavailable      try again later
│   ├── ModelRefused          the provider rejected the request
│   │   └── CarryRefused      it rejected the thinking of earlier replies
│   └── ContextTooLarge       more than the model can read
├── TaskError                 a task has no output: `core/reply.py`
└── CallError                 becomes an Envelope: `core/call_errors.py`
Signal                        control flow; a BaseException, so `except Exception` lets it pass
├── Suspend                   ends the activation until a question is answered or a run ends
├── Cancel                    ends the task
├── Blocked                   ends the activation: this process lacks something the task needs
└── LeaseLost                 ends the activation: another process has the log
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json
from penstock.core.task import Missing


class PenstockError(Exception):
    """The base class of the runtime's exceptions."""

    code: str = "INTERNAL_ERROR"
    """The name of the error on the wire: the name of its class in capitals."""

    def __init_subclass__(cls) -> None:
        """Name the code after the class."""
        if "code" not in cls.__dict__:
            cls.code = "".join("_" * each.isupper() + each for each in cls.__name__)[1:].upper()

    def __init__(self, message: str | None = None, *, details: Json | None = None) -> None:
        """Create the error. `docs/errors.md` lists all subclasses with their HTTP statuses.

        Args:
            message: What was expected and found, and what to do next. None: its docstring.
            details: JSON for programs.

        Example:
            >>> from penstock import PenstockError
            >>> assert PenstockError("no such order").code == "INTERNAL_ERROR"
        """
        super().__init__(message or (self.__doc__ or self.code).strip())
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it with its attributes: subclasses take other arguments than a message."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class ConfigError(PenstockError):
    """A setting or an extra is missing or wrong."""


class DeclarationError(PenstockError):
    """Files of this project have errors."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics


class StoreError(PenstockError):
    """The database or its disk failed. `penstock doctor` checks both."""


class StoreFull(StoreError):
    """No space is left on the disk; nothing was lost. Free some and try again."""


class StoreReadOnly(StoreError):
    """The database cannot be written. Give this user the right to write, or use another place."""


class StoreLocked(StoreError):
    """Another process holds the database. Stop it, or wait, and try again."""


class OutOfResources(StoreError):
    """The process has no free file descriptor, thread or memory; nothing was lost. Try again."""

    is_unstarted = False
    """A process for the work could not be started, so none of the work was done."""


class StoreTooNew(StoreError):
    """The database was made by a newer penstock. Upgrade this one; the file is unchanged."""


class StoreCorrupt(StoreError):
    """The database contains something that cannot be read. `penstock doctor` shows where."""


class StoreClosed(StoreError):
    """The database was closed."""


class NotFound(PenstockError):
    """There is no such thing."""

    known: tuple[str, ...] = ()
    """The existing names, if the caller may see them."""


class NameTaken(PenstockError):
    """The name is in use."""


class ReadOnly(PenstockError):
    """It comes from a file; change the file."""


class SessionBusy(PenstockError):
    """Tasks of this session are queued or running."""

    code = "CONVERSATION_BUSY"


class QuestionOpen(PenstockError):
    """A question of this session must be answered first."""


class AlreadyAnswered(PenstockError):
    """The question has an answer already."""


class QuestionClosed(PenstockError):
    """The question was cancelled or has expired."""


class TaskOver(PenstockError):
    """The task has ended."""

    code = "TASK_ENDED"


class TaskRunning(PenstockError):
    """The task has not ended yet."""


class TextErased(PenstockError):
    """A part of the task was erased, so it cannot be continued or repeated."""

    code = "ERASED"


class RuntimeMisuse(PenstockError):
    """The runtime was used in a way that cannot work."""


class IdempotencyConflict(PenstockError):
    """This Idempotency-Key was used for another request before."""


class BadRequest(PenstockError):
    """The request cannot be read."""


class BadLastEventId(PenstockError):
    """Not a position in this log."""


class InvalidRequest(PenstockError):
    """The request is not valid."""

    code = "VALIDATION_ERROR"

    def __init__(self, problems: Sequence[Mapping[str, str]]) -> None:
        issues = "; ".join(f"{each['field'] or '/'}: {each['issue']}" for each in problems)
        super().__init__(f"{(self.__doc__ or '').rstrip('.')}: {issues}")
        self.problems = list(problems)


class InvalidAnswer(InvalidRequest):
    """The answer does not fit its question."""


class Unauthenticated(PenstockError):
    """A valid key is needed: `Authorization: Bearer pk_…`."""


class Forbidden(PenstockError):
    """A permission is missing."""


class HostNotAllowed(PenstockError):
    """In local mode the Host must be localhost, 127.0.0.1 or [::1]."""


class OriginNotAllowed(PenstockError):
    """This Origin may not use the API."""


class LinkExpired(PenstockError):
    """The link is no longer valid."""


class TooLarge(PenstockError):
    """The body exceeds its limit."""


class UnsupportedType(PenstockError):
    """The body must be application/json."""


class RateLimited(PenstockError):
    """Too many requests; wait as long as Retry-After says."""


class TooManyStreams(PenstockError):
    """Too many streams are open; close one."""


class NotReady(PenstockError):
    """The server is starting or stopping; try again."""


class PromptNotResolved(PenstockError):
    """The project's prompt script returned no text for the system prompt."""

    code = "SYSTEM_PROMPT_RESOLUTION_FAILED"


class ToolsetFailed(PenstockError):
    """A toolset raised an error, did not return, or returned something else than its tools."""


class HookRefused(PenstockError):
    """A hook refused this."""


class HookFailed(PenstockError):
    """A hook raised an error, returned something else than it may, or did not return."""

    ends_task = False  # whether the task ends, even if the hook was asked about a call


class ModelError(PenstockError):
    """A model did not answer."""

    retryable: ClassVar[bool] = False


class ModelUnavailable(ModelError):
    """The model cannot be reached (`is_throttled`: for its rate of requests); try again later."""

    retryable, is_throttled = True, False

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The provider refused the request."""


class CarryRefused(ModelRefused):
    """The provider refused what earlier replies carried; ask again without it."""


class ContextTooLarge(ModelError):
    """The conversation is longer than the model can read, and cannot be cut further."""


class Signal(BaseException):
    """Control flow that no tool can stop; the activation turns it into a value or an error."""


class Suspend(Signal):
    """Ends the activation until all of these questions are answered and these runs have ended."""

    def __init__(self, *awaited: Any) -> None:
        self.awaited = awaited


class Cancel(Signal):
    """Ends the task."""


class Blocked(Signal):
    """Ends the activation: this process lacks what the task needs."""

    def __init__(self, blocked_on: tuple[Missing, ...]) -> None:
        self.blocked_on = blocked_on


class LeaseLost(Signal):
    """Ends the activation: another process has the log."""
