"""The errors of calls."""

from typing import Any

import pytest

from penstock.core import call_errors
from penstock.core.call_errors import CallError
from penstock.core.envelope import Envelope, ErrorDetail, Status

OUTCOMES = {
    call_errors.ToolNotFound: (Status.FAILED, False, True),
    call_errors.NotPermitted: (Status.FAILED, False, True),
    call_errors.InvalidInput: (Status.VALIDATION_ERROR, False, True),
    call_errors.InvalidOutput: (Status.FAILED, False, True),
    call_errors.ModelRetry: (Status.VALIDATION_ERROR, False, True),
    call_errors.ToolFailed: (Status.FAILED, False, True),
    call_errors.ToolTimeout: (Status.TIMEOUT, True, True),
    call_errors.OutputTooLarge: (Status.FAILED, False, True),
    call_errors.ScriptError: (Status.FAILED, False, True),
    call_errors.ModelRetry: (Status.VALIDATION_ERROR, False, True),
    call_errors.ScriptLoadError: (Status.FAILED, False, False),
    call_errors.OutOfMemory: (Status.FAILED, False, True),
    call_errors.VaultDenied: (Status.FAILED, False, True),
    call_errors.VaultNotFound: (Status.FAILED, False, True),
    call_errors.StateDenied: (Status.FAILED, False, True),
    call_errors.EgressDenied: (Status.FAILED, False, True),
    call_errors.UpstreamUnavailable: (Status.FAILED, True, True),
    call_errors.NotAvailable: (Status.FAILED, False, True),
    call_errors.ScheduleBusy: (Status.FAILED, False, True),
    call_errors.ToolNotConfigured: (Status.FAILED, False, True),
    call_errors.LoopDetected: (Status.FAILED, False, True),
    call_errors.BudgetExceeded: (Status.FAILED, False, False),
    call_errors.DepthExceeded: (Status.FAILED, False, True),
    call_errors.Interrupted: (Status.FAILED, False, True),
    call_errors.Rejected: (Status.FAILED, False, True),
    call_errors.Cancelled: (Status.FAILED, False, False),
}


@pytest.mark.parametrize("kind", CallError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_a_failed_call_becomes_an_envelope(kind: type[CallError]) -> None:
    """Words: statuses side by side; `scripts.md` section 8."""
    status, retryable, continuable = OUTCOMES[kind]
    error = kind("so it was", suggestion="Do that.", details={"a": 1})
    assert error.envelope() == Envelope(
        status,
        error=ErrorDetail(
            code=kind.code,
            message="so it was",
            retryable=retryable,
            continuable=continuable,
            suggestion="Do that.",
            details={"a": 1},
        ),
    )


def test_a_tool_may_choose_its_code_and_whether_to_retry_or_continue() -> None:
    error = call_errors.ToolFailed("no ink", "NO_INK", retryable=True, continuable=False)
    detail = ErrorDetail(code="NO_INK", message="no ink", retryable=True, continuable=False)
    assert error.envelope() == Envelope(Status.FAILED, error=detail)
    assert call_errors.ToolFailed.code == "TOOL_FAILED"


WRONG_CODES = {
    "no_ink": "must match",
    "NO-INK": "must match",
    "": "must match",
    "1_INK": "must match",
    "A" * 65: "must match",
    "TIMEOUT": "belongs to the runtime",
    "SUSPENDED": "belongs to the runtime",
}


@pytest.mark.parametrize(("code", "expected"), WRONG_CODES.items())
def test_a_code_that_a_tool_may_not_choose_is_a_mistake_of_its_author(
    code: str, expected: str
) -> None:
    """Spec: "`code` `^[A-Z][A-Z0-9_]{0,63}$`, not a code of §8 (except the two named there)"."""
    with pytest.raises(ValueError, match=expected) as caught:
        call_errors.ToolFailed("no ink", code)
    assert "'no ink'" in str(caught.value)


def test_two_codes_of_the_runtime_are_free_for_tools() -> None:
    for code in ("TOOL_FAILED", "UPSTREAM_UNAVAILABLE", "A", "A" * 64):
        assert call_errors.ToolFailed("no ink", code).code == code
    assert not call_errors.is_free(404)


def test_a_message_with_half_a_character_can_be_printed_and_stored() -> None:
    """Spec: "lone surrogates become U+FFFD"."""
    detail = call_errors.ToolFailed("bad\ud800 thing").envelope().error
    assert detail is not None
    assert detail.message == "bad\ufffd thing"


FAILURES = [
    (call_errors.quota("it is full"), "quota", "it is full"),
    (call_errors.not_a_directory("a/b"), "not_a_directory", "'a/b' is a file, not a directory"),
    (call_errors.is_directory("a"), "is_directory", "'a' is a directory, not a file"),
    (call_errors.is_directory(""), "is_directory", "'/' is a directory, not a file"),
    (
        call_errors.not_utf8("a", UnicodeDecodeError("utf-8", b"ab\xff", 2, 3, "why")),
        "not_text",
        "'a' is not UTF-8 text: byte 2 is not valid",
    ),
]


@pytest.mark.parametrize(("error", "reason", "message"), FAILURES)
def test_tool_errors_have_a_reason(
    error: call_errors.ToolFailed, reason: str, message: str
) -> None:
    assert (error.code, error.details, str(error)) == ("TOOL_FAILED", {"reason": reason}, message)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"details": [1]}, "must be a dict of JSON, not list"),
        ({"details": {"x": object()}}, "object is not JSON serializable"),
        ({"details": {"x": float("nan")}}, "not JSON compliant"),
        ({"suggestion": 5}, r"the suggestion of ToolFailed\('no'\) must be a text"),
    ],
)
def test_details_that_the_log_cannot_store_raise_type_error(members: Any, expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        call_errors.ToolFailed("no", **members)
