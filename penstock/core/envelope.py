"""The envelope that every tool call returns: a status, and an output or an error."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from msgspec import Struct

SUSPENDED = "SUSPENDED"
"""The code of the error of a call that waits for a person."""
Json = Mapping[str, Any]
"""A JSON object on the wire or in the log; code inside the runtime uses named values."""


class Status(StrEnum):
    """How a call ended. The values are the wire format.

    Example:
        >>> from penstock import Status
        >>> Status("success") is Status.SUCCESS
        True
    """

    SUCCESS = "success"
    """The tool returned; `output` is what it returned."""
    FAILED = "failed"
    """The tool raised, was refused, or was interrupted; `error.code` tells which."""
    TIMEOUT = "timeout"
    """The tool took longer than its timeout."""
    VALIDATION_ERROR = "validation_error"
    """The input does not match the tool's schema; the tool did not run."""
    SUSPENDED = "suspended"
    """The call waits for a person; `error.details` names the open questions."""


class ErrorDetail(Struct, frozen=True, kw_only=True, gc=False):
    """Why a call did not succeed, and what the caller can do."""

    code: str
    message: str
    retryable: bool = False
    """The task that made the call may run it again."""
    continuable: bool = True
    """The model may continue its turn."""
    suggestion: str | None = None
    """The next step, for a model. It is part of the tool message, not of the envelope."""
    details: Json | None = None

    @classmethod
    def from_wire(cls, wire: Json) -> Self:
        """Return the error of its stored form."""
        return cls(
            code=wire["code"],
            message=wire["message"],
            retryable=wire.get("retryable", False),
            continuable=wire.get("continuable", True),
            suggestion=wire.get("suggestion"),
            details=wire.get("details"),
        )

    def to_wire(self) -> dict[str, Any]:
        """Return the stored form of the error, without members that are not set."""
        wire: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "continuable": self.continuable,
        }
        if self.suggestion is not None:
            wire["suggestion"] = self.suggestion
        if self.details is not None:
            wire["details"] = dict(self.details)
        return wire


class Envelope(Struct, frozen=True, gc=False):
    """The outcome of one call: a status, and either an output or an error.

    A run of a flow that failed has both: the results of the steps that finished are not lost.

    Example:
        >>> from penstock import Envelope
        >>> done = Envelope.success({"total": 3})
        >>> done.ok, done.output
        (True, {'total': 3})
        >>> done.to_wire()
        {'status': 'success', 'output': {'total': 3}}
    """

    status: Status
    """How the call ended."""
    output: Any = None
    """JSON that the tool returned; None if it failed."""
    error: ErrorDetail | None = None
    """Why the call did not succeed; None if it did."""

    @classmethod
    def success(cls, output: Any) -> Self:
        """Return the envelope of a call that succeeded.

        Args:
            output: What the tool returned, as JSON.
        """
        return cls(Status.SUCCESS, output)

    @classmethod
    def from_wire(cls, wire: Json) -> Self:
        """Return the envelope that `to_wire` wrote.

        Args:
            wire: `status`, and `output` or `error` or both.

        Raises:
            ValueError: The status is unknown.
            KeyError: A member is missing.
        """
        error = wire.get("error")
        detail = None if error is None else ErrorDetail.from_wire(error)
        return cls(Status(wire["status"]), wire.get("output"), detail)

    def to_wire(self) -> dict[str, Any]:
        """Return the stored form of the envelope."""
        if self.error is None:
            return {"status": self.status.value, "output": self.output}
        wire = {"status": self.status.value, "error": self.error.to_wire()}
        return wire if self.output is None else wire | {"output": self.output}

    @property
    def ok(self) -> bool:
        """Whether `output` may be used."""
        return self.error is None


def suspended(question_ids: Sequence[str], **details: Any) -> Envelope:
    """Return the envelope of a call that waits for answers to these questions."""
    error = ErrorDetail(
        code=SUSPENDED,
        message=f"Waiting for an answer to {', '.join(question_ids)}",
        retryable=True,
        details={"question_ids": list(question_ids), **details},
    )
    return Envelope(Status.SUSPENDED, error=error)
