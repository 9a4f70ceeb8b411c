"""Failures of a call, as its caller reads them."""

import asyncio
import errno
from typing import Any

import pytest

from penstock.core.call import Effect, RetryPolicy
from penstock.core.call_errors import CallError, InvalidOutput, OutputTooLarge, ToolFailed
from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.errors import LeaseLost, OutOfResources, Suspend
from penstock.core.events.events import CallRetried, CallSettled
from penstock.core.exhaustion import starting_process
from penstock.core.json_values.json_text import compact
from penstock.core.json_values.schema import Problem
from penstock.core.limits import KIB
from penstock.resources.redact import Redactor
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.tools.failures import (
    DETAILS_BYTES,
    TRACE_CHARACTERS,
    bounded,
    failure,
    foremost,
    invalid,
    out_of_time,
    without_output,
)
from penstock.tools.spec import ToolSpec
from tests.kit.tools import Act, raising


class Silent(ValueError):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("nor this")


NO = ToolFailed("no")
GONE = LeaseLost("gone")
WAIT = Suspend("q_1")


def test_every_problem_of_an_input_is_named() -> None:
    error = invalid("add", [Problem("/a", "is no number"), Problem("", "is too much")])
    assert str(error) == 'input of "add" is not valid: /a: is no number; /: is too much'
    assert error.details == {
        "problems": [
            {"path": "/a", "message": "is no number"},
            {"path": "", "message": "is too much"},
        ]
    }


@pytest.mark.parametrize(
    ("errors", "counts"),
    [
        ([ValueError("x"), NO], NO),
        ([NO, WAIT], WAIT),
        ([WAIT, GONE], GONE),
        ([BaseExceptionGroup("inner", [NO, WAIT])], WAIT),
    ],
)
def test_one_error_of_a_group_counts(errors: list[BaseException], counts: BaseException) -> None:
    assert foremost(BaseExceptionGroup("together", errors)) is counts


DONE = '. "act" ran, and its writes are in effect; only its output was rejected'


@pytest.mark.parametrize(
    ("given", "error", "more"),
    [
        ({"effect": Effect.WRITE}, InvalidOutput("bad"), DONE),
        ({"effect": Effect.WRITE}, OutputTooLarge("big"), DONE),
        ({"effect": Effect.WRITE, "idempotent": True}, InvalidOutput("bad"), DONE),
        ({"effect": Effect.WRITE, "is_transactional": True}, InvalidOutput("bad"), ""),
        ({"effect": Effect.READ}, InvalidOutput("bad"), ""),
        ({"effect": Effect.NONE}, OutputTooLarge("big"), ""),
        ({"effect": Effect.WRITE}, NO, ""),
    ],
)
def test_the_error_of_a_refused_output_reports_that_the_write_was_done(
    given: dict[str, Any], error: CallError, more: str
) -> None:
    """A transactional write is rolled back with its outcome, so it did not happen."""
    spec = Act("act", **given).spec
    said = without_output(error, spec)
    assert (str(said), type(said), said.details) == (f"{error}{more}", type(error), error.details)
    assert bool(said.suggestion) is bool(more)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NO, "no"),
        (ValueError("x" * 20), "ValueErro…"),
        (SystemExit(1), "the tool …"),
        (OSError(), "OSError"),
        (Silent(), "Silent"),
    ],
)
def test_an_exception_of_a_tool_becomes_a_message(error: BaseException, expected: str) -> None:
    assert str(failure(Act("add").spec, error, Redactor(), most=10)) == expected


@pytest.mark.parametrize(
    ("effect", "seconds", "left", "code"),
    [
        (Effect.READ, 5, 60, "TIMEOUT"),
        (Effect.WRITE, 5, 60, "TIMEOUT"),
        (Effect.READ, 60, 5, "BUDGET_EXCEEDED"),
        (Effect.WRITE, 60, 5, "INTERRUPTED"),
    ],
)
def test_the_time_limit_that_was_reached_first_decides_the_error(
    effect: Effect, seconds: float, left: float, code: str
) -> None:
    error: CallError = out_of_time(Act("add", effect=effect).spec, seconds, left)
    assert error.code == code


def test_operators_do_not_read_a_secret_in_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    secrets = Redactor()
    secrets.add("token", "s3cr3t-value")
    failure(Act("add").spec, ValueError("bad s3cr3t-value"), secrets, most=100)
    assert "ValueError: bad [secret:token]" in caplog.text
    assert "s3cr3t-value" not in caplog.text


async def test_the_event_has_the_traceback_and_the_caller_does_not() -> None:
    """Section 16: "`{type}: {text}` (≤ 2,000, redacted); traceback in the event"."""

    async def breaks(input: Any, invocation: Any) -> Any:
        invocation.caller.secrets.add("token", "s3cr3t-value")
        raise ValueError("bad s3cr3t-value \udc80" + "x" * 9_000)

    bench = await open_workbench(Act("breaks", breaks), Act("add", raising(NO)))
    envelope = await bench.call("breaks")
    await bench.call("add")
    told, other = await bench.settled()
    assert envelope.error
    assert envelope.error.message.startswith("ValueError: bad [secret:token] ")
    assert told.trace
    assert len(told.trace) == TRACE_CHARACTERS + 1
    assert "Traceback" not in (told.context or "")
    assert other.trace is None


async def test_the_traceback_of_an_error_names_the_line() -> None:
    bench = await open_workbench(Act("breaks", raising(KeyError("x"))))
    await bench.call("breaks")
    (told,) = await bench.settled()
    assert told.trace
    assert told.trace.startswith("Traceback (most recent call last)")
    assert told.trace.endswith("KeyError: 'x'\n")


async def called(act: Act) -> Envelope:
    """Call a tool, and move the clock while it waits."""
    clock = FakeClock()
    bench = await open_workbench(act, clock=clock)
    call = asyncio.ensure_future(bench.call(act.spec.tool_id))
    await clock.elapse(60)
    return await call


NO_FILE = OSError(errno.EMFILE, "Too many open files")


def unstarted() -> OutOfResources:
    """What a tool meets that cannot start its process."""
    with pytest.raises(OutOfResources) as raised, starting_process():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return raised.value


LACKS: list[tuple[dict[str, Any], BaseException, bool]] = [
    ({"effect": Effect.READ}, NO_FILE, True),
    ({"effect": Effect.WRITE}, NO_FILE, False),
    ({"effect": Effect.WRITE, "idempotent": True}, NO_FILE, True),
    ({"effect": Effect.WRITE, "is_frame": True}, NO_FILE, True),
    ({"effect": Effect.WRITE}, unstarted(), True),
    ({"effect": Effect.READ}, OSError(errno.ENOENT, "No such file"), False),
]


@pytest.mark.parametrize(("given", "lack", "waits"), LACKS)
async def test_a_call_without_resources_waits_unless_it_may_have_written(
    given: dict[str, Any], lack: BaseException, waits: bool
) -> None:
    lacks = 3

    async def scarce(input: Any, invocation: Any) -> Any:
        nonlocal lacks
        lacks -= 1
        if lacks >= 0:
            raise lack
        return "done"

    envelope = await called(Act("scarce", scarce, **given))
    assert (envelope.output if envelope.ok else None) == ("done" if waits else None)
    assert envelope.ok or (envelope.error and envelope.error.code == "TOOL_FAILED")


async def test_a_call_does_not_wait_for_ever_for_missing_resources() -> None:
    """A tool that opens too many files itself fails after the time of another attempt."""
    runs = 0

    async def greedy(input: Any, invocation: Any) -> Any:
        nonlocal runs
        runs += 1
        raise NO_FILE

    envelope = await called(Act("greedy", greedy, effect=Effect.READ, timeout_ms=5000))
    assert envelope.error
    assert envelope.error.retryable
    assert 5 < runs <= 12


@pytest.mark.parametrize("length", [1, 9_000])
def test_the_end_of_a_long_traceback_is_kept(length: int) -> None:
    spec = ToolSpec(tool_id="t", description="d", input_schema={"type": "object"})
    failed = failure(spec, ValueError("x" * length), Redactor(), most=100)
    assert isinstance(failed, ToolFailed)
    assert failed.trace is not None
    assert len(failed.trace) == (8_001 if length > 8_000 else len("ValueError: x\n"))
    assert failed.trace.startswith("…") is (length > 8_000)


WHY = "the details were over 1 KiB as JSON; only a part is kept"
DEEP = "the details were nested more than 200 deep; only a part is kept"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def details(given: Json) -> Json | None:
    return bounded(ErrorDetail(code="X", message="m", details=given), KIB).details


@pytest.mark.parametrize("given", [{}, {"a": None, "b": ["x" * 900]}, {"a": nested(199)}])
def test_details_within_their_limit_are_unchanged(given: Json) -> None:
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
def test_the_beginning_of_large_details_is_kept(given: Json, kept: Json) -> None:
    found = details(given)
    assert found == {**kept, "truncated": WHY}
    assert len(compact(found)) < KIB + 100


def test_details_that_are_nested_too_deeply_are_left_out() -> None:
    assert details({"a": nested(5_000), "b": 1}) == {"b": 1, "truncated": DEEP}


def test_messages_and_suggestions_are_cut() -> None:
    error = ErrorDetail(code="X", message="m" * 3_000, suggestion="s" * 3_000)
    found = bounded(error)
    assert (found.message, found.suggestion) == ("m" * 1_999 + "…", "s" * 1_999 + "…")


async def test_log_client_and_code_get_bounded_details() -> None:
    failed = ToolFailed("no", retryable=True, details={"reason": "x", "body": "y" * 300_000})
    retry = RetryPolicy(max_attempts=2, initial_backoff_ms=0)
    bench = await open_workbench(Act("act", raising(failed), retry=retry))
    envelope = await bench.call("act", {})
    events = [e for e in await bench.events() if isinstance(e, CallRetried | CallSettled)]
    errors = [e.error if isinstance(e, CallRetried) else e.envelope.error for e in events]
    assert len(errors) == 2
    for error in (*errors, envelope.error):
        assert error is not None
        assert error.details
        assert error.details["reason"] == "x"
        assert len(compact(error.to_wire())) < DETAILS_BYTES + KIB
