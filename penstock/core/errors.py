"""Everything the runtime raises, but for what a call answers.

PenstockError                 docstring = default message; `code` = the class name in capitals
├── ConfigError               a setting or an extra is missing or wrong
├── DeclarationError          what authors wrote does not hold; carries every Diagnostic
├── StoreError                the database or its disk failed
│   ├── StoreFull             no space is left
│   ├── StoreReadOnly         the place cannot be written
│   ├── StoreLocked           another process holds the file
│   ├── OutOfResources        no file, process, thread or memory is left
│   ├── StoreTooNew           made by a newer version
│   ├── StoreCorrupt          a row or the file does not read back
│   └── StoreClosed           the database was closed
├── NotFound                  no such thing, or not yours
├── NameTaken                 there is one of that name
├── ReadOnly                  it comes from a file
├── SessionBusy               tasks of the session are in the way
├── QuestionOpen              a question must be answered first
├── AlreadyAnswered           another answer was first
├── QuestionClosed            nobody waits for the answer any more
├── TaskOver                  the task has ended
├── IdempotencyConflict       one key, two requests
├── BadRequest                the request cannot be read
├── BadLastEventId            not a place in this log
├── InvalidRequest            carries every problem of a request's body
│   └── InvalidAnswer         the answer does not fit its question
├── Unauthenticated           no key, or none that counts
├── Forbidden                 a permission is missing
├── HostNotAllowed            a foreign Host header
├── OriginNotAllowed          a foreign Origin header
├── LinkExpired               a signed link that no longer counts
├── TooLarge                  a body over its limit
├── UnsupportedType           a content type that is not read here
├── RateLimited               too many requests
├── TooManyStreams            too many open streams
├── NotReady                  the server cannot serve yet, or any more
├── PromptNotResolved         the project's prompt script gave no text
├── ModelError                a model did not answer
│   ├── ModelUnavailable      try again later
│   ├── ModelRefused          the provider said no
│   └── ContextTooLarge       more than the model can read
└── CallError                 becomes an Envelope: `core/call_errors.py`
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import Json

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class PenstockError(Exception):
    """Something the runtime could not do."""

    code: str = "INTERNAL_ERROR"
    """The name of the error on the wire: the name of its class in capitals."""

    def __init_subclass__(cls) -> None:
        """Name the code after the class."""
        if "code" not in cls.__dict__:
            cls.code = _INNER_CAPITAL.sub("_", cls.__name__).upper()

    def __init__(self, message: str | None = None, *, details: Json | None = None) -> None:
        """Say what could not be done. Every error of the runtime is a subclass.

        `docs/errors.md` lists them with their HTTP statuses.

        Args:
            message: What was wanted, what was found, and what to do; None is the docstring.
            details: JSON for programs.

        Example:
            >>> import asyncio
            >>> import penstock
            >>> from penstock.testing.runtime import memory_runtime
            >>> async def main() -> None:
            ...     async with memory_runtime() as runtime:
            ...         try:
            ...             await runtime.chat("Hello", agent="nobody")
            ...         except penstock.PenstockError as error:
            ...             print(error.code)
            >>> asyncio.run(main())
            NOT_FOUND
        """
        super().__init__(message or (self.__doc__ or self.code).strip())
        self.details = details


class ConfigError(PenstockError):
    """A setting or an extra is missing or wrong."""


class DeclarationError(PenstockError):
    """What the authors of this project wrote does not hold."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics


class StoreError(PenstockError):
    """The database or its disk failed. `penstock doctor` checks both."""


class StoreFull(StoreError):
    """No space is left on the disk; nothing was lost. Free some and try again."""


class StoreReadOnly(StoreError):
    """The database cannot be written. Give this user the right to write, or another place."""


class StoreLocked(StoreError):
    """Another process holds the database. Stop it, or wait, and try again."""


class OutOfResources(StoreError):
    """No file, process, thread or memory is left for now; nothing was lost. Try again soon."""

    is_unstarted = False
    """What was to be done needs a process, and it was not started: nothing of it was done."""


class StoreTooNew(StoreError):
    """The database was made by a newer penstock. Upgrade this one; the file is unchanged."""


class StoreCorrupt(StoreError):
    """The database holds something that does not read back. `penstock doctor` says where."""


class StoreClosed(StoreError):
    """The database was closed."""


class NotFound(PenstockError):
    """There is no such thing."""

    known: tuple[str, ...] = ()
    """The names of those that there are, where they are told."""


class NameTaken(PenstockError):
    """There is one of that name already."""


class ReadOnly(PenstockError):
    """It comes from a file; change the file."""


class SessionBusy(PenstockError):
    """Tasks of this session are queued or running."""

    code = "CONVERSATION_BUSY"


class QuestionOpen(PenstockError):
    """A question of this session must be answered first."""


class AlreadyAnswered(PenstockError):
    """Another answer was first."""


class QuestionClosed(PenstockError):
    """Nobody waits for this answer any more."""


class TaskOver(PenstockError):
    """The task has ended."""

    code = "TASK_ENDED"


class IdempotencyConflict(PenstockError):
    """This Idempotency-Key came with another request before."""


class BadRequest(PenstockError):
    """The request cannot be read."""


class BadLastEventId(PenstockError):
    """Not a place in this log."""


class InvalidRequest(PenstockError):
    """The request is not valid."""

    code = "VALIDATION_ERROR"

    def __init__(self, problems: Sequence[Mapping[str, str]]) -> None:
        said = "; ".join(f"{each['field'] or '/'}: {each['issue']}" for each in problems)
        super().__init__(f"{(self.__doc__ or '').rstrip('.')}: {said}")
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
    """The body is over its limit."""


class UnsupportedType(PenstockError):
    """The body must be application/json."""


class RateLimited(PenstockError):
    """Too many requests; wait as long as Retry-After says."""


class TooManyStreams(PenstockError):
    """Too many streams are open; close one."""


class NotReady(PenstockError):
    """The server is starting or stopping; try again."""


class PromptNotResolved(PenstockError):
    """The project's prompt script gave no text for the system prompt."""

    code = "SYSTEM_PROMPT_RESOLUTION_FAILED"


class ModelError(PenstockError):
    """A model did not answer."""

    retryable: ClassVar[bool] = False


class ModelUnavailable(ModelError):
    """The model cannot be reached; try again later."""

    retryable = True

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The provider refused the request."""


class ContextTooLarge(ModelError):
    """The conversation is longer than the model can read, and cannot be cut further."""
