"""Errors that end a call. The invoker turns each into an Envelope.

CallError                 code = the class name in capitals
├── ToolNotFound          failed            continuable
├── NotPermitted          failed            continuable
├── InvalidInput          validation_error  continuable
├── InvalidOutput         failed            continuable
├── ModelRetry            validation_error  continuable; the model reads it and tries again
├── ToolFailed            failed            continuable; the tool said so
├── ToolTimeout           timeout           retryable, continuable
├── OutputTooLarge        failed            continuable
├── ScriptError           failed            continuable; the script threw
├── ScriptLoadError       failed            the manifest or a module is broken
├── OutOfMemory           failed            continuable
├── VaultDenied           failed            continuable
├── VaultNotFound         failed            continuable
├── StateDenied           failed            continuable
├── EgressDenied          failed            continuable
├── UpstreamUnavailable   failed            retryable, continuable
├── NotAvailable          failed            continuable
├── ScheduleBusy          failed            continuable; a run of the schedule has not ended
├── ToolNotConfigured     failed            continuable
├── LoopDetected          failed            continuable
├── BudgetExceeded        failed
├── DepthExceeded         failed            continuable
├── Interrupted           failed            continuable; a write was cut
├── Rejected              failed            continuable; a person said no
└── Cancelled             failed
"""

import json
import re
from typing import Any

from penstock.core.envelope import SUSPENDED, Envelope, ErrorDetail, Json, Status
from penstock.core.errors import PenstockError
from penstock.core.json_values.json_text import without_surrogates

_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class CallError(PenstockError):
    """A tool call that did not succeed."""

    code = "INTERNAL_ERROR"
    status: Status = Status.FAILED
    retryable: bool = False
    continuable: bool = True
    trace: str | None = None
    """The traceback of a tool's own error: for the log, not for the caller."""

    def __init__(
        self,
        message: str | None = None,
        *,
        suggestion: str | None = None,
        details: Json | None = None,
    ) -> None:
        super().__init__(message, details=details)
        self.suggestion = suggestion

    def envelope(self) -> Envelope:
        """Return the envelope that the caller of the tool receives."""
        detail = ErrorDetail(
            code=self.code,
            message=without_surrogates(str(self)),
            retryable=self.retryable,
            continuable=self.continuable,
            suggestion=self.suggestion,
            details=self.details,
        )
        return Envelope(self.status, error=detail)


class ToolNotFound(CallError):
    """No such tool."""


class NotPermitted(CallError):
    """This caller may not call this tool."""


class InvalidInput(CallError):
    """The input does not match the tool's schema."""

    status = Status.VALIDATION_ERROR


class InvalidOutput(CallError):
    """The output is not JSON, or does not match the tool's output_schema."""


class ModelRetry(CallError):
    """The model must try again: it reads the message as the outcome of its call."""

    status = Status.VALIDATION_ERROR

    def __init__(
        self,
        message: str | None = None,
        *,
        suggestion: str | None = None,
        details: Json | None = None,
    ) -> None:
        """Ask the model to try again, in a tool, a hook, an output function or a validator.

        Attempts to give an output count against `output_retries` of the agent.

        Args:
            message: What was wrong and what to give instead; the model reads it.
            suggestion: What the model could do instead.
            details: JSON for programs.

        Example:
            >>> from penstock import ModelRetry
            >>> str(ModelRetry("The order has 6 digits; look it up first."))
            'The order has 6 digits; look it up first.'
        """
        super().__init__(message, suggestion=suggestion, details=details)


class ToolFailed(CallError):
    """The tool reported a failure."""

    def __init__(
        self,
        message: str | None = None,
        code: str = "TOOL_FAILED",
        *,
        retryable: bool = False,
        continuable: bool = True,
        suggestion: str | None = None,
        details: Json | None = None,
    ) -> None:
        """End a call as failed. Raise this inside a tool.

        Args:
            message: What went wrong, for the model and for people.
            code: A name of your own in capitals, which callers can test for. The codes of the
                runtime, such as `TIMEOUT`, are refused.
            retryable: Whether the same call may succeed later. `retry` of the tool then applies.
            continuable: Whether the model may continue its turn. False ends the task.
            suggestion: What the model could do instead.
            details: JSON for programs.

        Raises:
            ValueError: The code is malformed or the runtime's, or the details are not JSON.
            TypeError: The suggestion or the details have a wrong type.

        Example:
            >>> from penstock import ToolFailed
            >>> error = ToolFailed("Order A7 is already paid.", "ALREADY_PAID", suggestion="Ask.")
            >>> error.envelope().error.code
            'ALREADY_PAID'
        """
        if not is_free(code):
            raise ValueError(_not_free(code, message))
        if not isinstance(suggestion, str | None):
            raise TypeError(f"the suggestion of ToolFailed({message!r}) must be a text")
        if details is not None:
            _check_details(details, message)
        super().__init__(message, suggestion=suggestion, details=details)
        self.code = code
        self.retryable = retryable
        self.continuable = continuable


class ToolTimeout(CallError):
    """The tool took longer than its timeout."""

    code = "TIMEOUT"
    status = Status.TIMEOUT
    retryable = True


class OutputTooLarge(CallError):
    """The output exceeds its limit."""


class ScriptError(CallError):
    """The script threw, or its result is not JSON."""


class ScriptLoadError(CallError):
    """The manifest of the tool, or a module of its script, has errors."""

    continuable = False


class OutOfMemory(CallError):
    """The script needed more memory than its limit."""


class VaultDenied(CallError):
    """The tool does not declare this secret."""


class VaultNotFound(CallError):
    """The tool declares this secret, but no value is stored."""


class StateDenied(CallError):
    """The tool declares no state for this key, or the value contains a secret."""


class EgressDenied(CallError):
    """This address may not be contacted."""


class UpstreamUnavailable(CallError):
    """The other server did not answer."""

    retryable = True


class NotAvailable(CallError):
    """This is not available."""


class ScheduleBusy(CallError):
    """A run of the schedule has not ended, and it allows one at a time."""


class ToolNotConfigured(CallError):
    """The tool lacks its settings."""

    code = "NOT_CONFIGURED"


class LoopDetected(CallError):
    """The model repeated the same call; it was not run again."""


class BudgetExceeded(CallError):
    """The budget of this task is used up."""

    continuable = False


class DepthExceeded(CallError):
    """Calls are nested too deeply."""


class Interrupted(CallError):
    """The call was interrupted: it may or may not have taken effect."""


class Rejected(CallError):
    """A person rejected the call."""


class Cancelled(CallError):
    """The task was cancelled."""

    continuable = False


_FREE = frozenset((ToolFailed.code, UpstreamUnavailable.code))
_OF_RUNTIME = {kind.code for kind in CallError.__subclasses__()} | {SUSPENDED, "INTERNAL_ERROR"}


def is_free(code: object) -> bool:
    """Whether a tool may use this code: it is well formed, and not one of the runtime."""
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return False
    return code in _FREE or code not in _OF_RUNTIME


def _check_details(details: Any, message: object) -> None:
    """Raise TypeError for details that cannot be stored as JSON."""
    rule = f"the details of ToolFailed({message!r}) must be a dict of JSON"
    if not isinstance(details, dict):
        raise TypeError(f"{rule}, not {type(details).__name__}")
    try:
        json.dumps(details, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{rule}: {error}") from None


def tool_failure(reason: str, message: str) -> ToolFailed:
    """Return a failure with one of the closed list of reasons."""
    return ToolFailed(message, details={"reason": reason})


def quota(message: str) -> ToolFailed:
    """Return the failure of a quota that is used up."""
    return tool_failure("quota", message)


def not_a_directory(path: str) -> ToolFailed:
    """Return the failure of a path with a file in place of a directory."""
    return tool_failure("not_a_directory", f"{path!r} is a file, not a directory")


def is_directory(path: str) -> ToolFailed:
    """Return the failure of a path with a directory in place of a file."""
    return tool_failure("is_directory", f"{path or '/'!r} is a directory, not a file")


def not_utf8(path: str, error: UnicodeDecodeError) -> ToolFailed:
    """Return the failure of a file that is not UTF-8 text."""
    message = f"{path!r} is not UTF-8 text: byte {error.start} is not valid"
    return tool_failure("not_text", message)


def _not_free(code: object, message: str | None) -> str:
    is_taken = isinstance(code, str) and code in _OF_RUNTIME
    wrong = "belongs to the runtime" if is_taken else f"must match ^{_CODE.pattern}$"
    return f"the code {code!r} of ToolFailed({message!r}) {wrong}; choose one such as OUT_OF_PAPER"
