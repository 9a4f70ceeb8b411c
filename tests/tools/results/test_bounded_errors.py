"""Errors of calls at a size that logs keep."""

from typing import Any

import pytest

from penstock.core.call import RetryPolicy
from penstock.core.call_errors import ToolFailed
from penstock.core.envelope import ErrorDetail, Json
from penstock.core.events.events import CallRetried, CallSettled
from penstock.core.json_values.json_text import compact
from penstock.core.limits import KIB, Limits
from penstock.testing.invocation import open_workbench
from penstock.tools.results.bounded_errors import bounded
from tests.kit.tools import Act, raising

LIMITS = Limits(details_bytes=KIB)
WHY = "the details were over 1 KiB as JSON; what is here is a part of them"
DEEP = "the details were nested more than 200 deep; what is here is a part of them"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def details(given: Json) -> Json | None:
    return bounded(ErrorDetail(code="X", message="m", details=given), LIMITS).details


@pytest.mark.parametrize("given", [{}, {"a": None, "b": ["x" * 900]}, {"a": nested(199)}])
def test_what_fits_stays_as_it_is(given: Json) -> None:
    assert details(given) == given


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            {"reason": "quota", "body": {"a": "x" * 2_000}, "n": None},
            {"reason": "quota", "n": None},
        ),
        ({"body": "\0" * 5_000}, {"body": "\0" * 167 + "…"}),
        ({"problems": ["x" * 300] * 9, "n": 1}, {"problems": ["x" * 300] * 3, "n": 1}),
        ({"problems": ["x" * 500, "y" * 900, 1, 2]}, {"problems": ["x" * 500]}),
        ({"first": ["x" * 900], "second": ["y" * 200]}, {"first": ["x" * 900]}),
        (
            {"first": "x" * 900, "second": "y" * 2_000},
            {"first": "x" * 900, "second": "y" * 15 + "…"},
        ),
        ({"k" * 610: "x" * 400, "n": "y" * 400}, {"k" * 610: "x" * 400}),
        ({"k" * 2_000: 1}, {}),
        ({"truncated": "x" * 2_000}, {}),
    ],
)
def test_of_what_is_too_large_the_beginning_is_kept(given: Json, kept: Json) -> None:
    found = details(given)
    assert found == {**kept, "truncated": WHY}
    assert len(compact(found)) < KIB + 100


def test_what_is_too_deep_is_left_out() -> None:
    assert details({"a": nested(5_000), "b": 1}) == {"b": 1, "truncated": DEEP}


def test_the_words_are_short() -> None:
    error = ErrorDetail(code="X", message="m" * 3_000, suggestion="s" * 3_000)
    found = bounded(error, Limits())
    assert (found.message, found.suggestion) == ("m" * 1_999 + "…", "s" * 1_999 + "…")


async def test_neither_the_log_nor_a_client_nor_code_gets_endless_details() -> None:
    failed = ToolFailed("no", retryable=True, details={"reason": "x", "body": "y" * 300_000})
    retry = RetryPolicy(max_attempts=2, initial_backoff_ms=0)
    bench = await open_workbench(Act("act", raising(failed), retry=retry), limits=LIMITS)
    envelope = await bench.call("act", {})
    events = [e for e in await bench.events() if isinstance(e, CallRetried | CallSettled)]
    errors = [e.error if isinstance(e, CallRetried) else e.envelope.error for e in events]
    assert len(errors) == 2
    for error in (*errors, envelope.error):
        assert error is not None
        assert error.details
        assert error.details["reason"] == "x"
        assert len(compact(error.to_wire())) < 2 * KIB
