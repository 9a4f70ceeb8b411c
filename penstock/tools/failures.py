"""Errors of calls: how a failure becomes the error that a caller reads, and how large it may be.

Only a CallError reaches a caller. Any other error of a tool becomes ToolFailed, with its traceback
for operators and a message without secrets. Errors are cut before they reach the log, so that a
tool cannot fill it with its details. Proof: `tests/tools/test_failures.py`.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from traceback import format_exception
from typing import Any, cast

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import (
    BudgetExceeded,
    CallError,
    Interrupted,
    InvalidInput,
    InvalidOutput,
    OutputTooLarge,
    ToolFailed,
    ToolTimeout,
)
from penstock.core.envelope import ErrorDetail, Json
from penstock.core.errors import LeaseLost, Signal
from penstock.core.events.events import CallRetried
from penstock.core.exhaustion import exhaustion_of
from penstock.core.json_values.json_text import (
    JSON_DEPTH,
    compact,
    is_deeper,
    is_larger,
    without_surrogates,
)
from penstock.core.json_values.schema import Problem
from penstock.core.limits import KIB
from penstock.core.text import ERROR_CHARS, cut, size_text
from penstock.resources.redact import Redactor
from penstock.tools.redaction import redacted_error
from penstock.tools.spec import ToolSpec

DETAILS_BYTES = 64 * KIB
"""Most bytes of the details of an error, as JSON; larger ones are cut."""

log = logging.getLogger(__name__)

TRACE_CHARACTERS = 8_000


def failure(spec: ToolSpec, error: BaseException, secrets: Redactor, *, most: int) -> BaseException:
    """Convert any error of a tool to the error for its caller. `most` limits its characters."""
    if isinstance(error, CallError | Signal):
        return error
    trace = secrets.text(without_surrogates("".join(format_exception(error))))
    log.error("tool %s failed\n%s", spec.tool_id, trace)
    # Redacted before it is cut: a redactor does not find a part of a secret.
    failed = ToolFailed(cut(secrets.text(_message_of(error)), most))
    failed.retryable = exhaustion_of(error) is not None
    # The end of a traceback has the innermost frame and the error itself.
    failed.trace = trace if len(trace) <= TRACE_CHARACTERS else f"…{trace[-TRACE_CHARACTERS:]}"
    return failed


def _message_of(error: BaseException) -> str:
    # An author's exception may fail in its own `__str__`: its type is the message then.
    with suppress(Exception):
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return f"the tool tried to end the process ({error!r})"
        if isinstance(error, asyncio.CancelledError):
            return "the tool cancelled itself: no caller requested it"
        text = str(error)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return type(error).__name__


def explain_interrupted(spec: ToolSpec, error: Interrupted) -> None:
    """Add to the error of a call that a crash cut what its author can write."""
    # Only a default is explained: an author who wrote `effect="write"` has decided about crashes.
    if spec.has_default_effect:
        error.suggestion = (
            f"{error.suggestion} The function of {spec.tool_id!r} says no effect, so it counts as "
            'a write. If it only reads, write @tool(effect="read") above it; if a second run does '
            "no harm, @tool(idempotent=True)."
        )


def invalid(tool_id: str, problems: list[Problem]) -> InvalidInput:
    """Return the error that names every problem of an input."""
    text = "; ".join(str(problem) for problem in problems)
    return InvalidInput(
        f'input of "{tool_id}" is not valid: {text}', details=problem_details(problems)
    )


def invalid_output(tool_id: str, problems: list[Problem]) -> InvalidOutput:
    """Return the error that names every problem of an output."""
    text = "; ".join(str(problem) for problem in problems)
    return InvalidOutput(
        f'output of "{tool_id}" is not valid: {text}', details=problem_details(problems)
    )


def retried(spec: ToolSpec, attempt: int, error: CallError, *, secrets: Redactor) -> CallRetried:
    """Return the event of a failed attempt that is followed by another one."""
    detail = redacted_error(cast("ErrorDetail", error.envelope().error), secrets)
    return CallRetried(tool_id=spec.tool_id, attempt=attempt, error=bounded(detail))


def may_wait(spec: ToolSpec, error: CallError) -> bool:
    """Whether an attempt failed because a resource ran out, and can be repeated safely.

    A write can be repeated if it did not start, such as a process that could not be created.
    """
    lack = exhaustion_of(error)
    repeats = spec.idempotent or not spec.is_ambiguous_when_cut
    return lack is not None and (repeats or lack.is_unstarted)


def without_output(error: CallError, spec: ToolSpec) -> CallError:
    """Return the error of a refused output. For a write it says that the write was made."""
    # A model that reads only of a failure calls the tool again, and the write happens twice.
    is_refused = isinstance(error, InvalidOutput | OutputTooLarge)
    if not is_refused or spec.effect is not Effect.WRITE or spec.is_transactional:
        return error
    refusal = type(error)(
        f'{error}. "{spec.tool_id}" ran, and its writes are in effect; only its output was '
        "rejected",
        suggestion="Do not call it again to repeat it. Check what it did with a tool that reads.",
        details=error.details,
    )
    refusal.trace = error.trace
    return refusal


def problem_details(problems: list[Problem]) -> dict[str, Any]:
    """Return problems as the details of an error."""
    return {"problems": [{"path": each.path, "message": each.message} for each in problems]}


def out_of_time(spec: ToolSpec, seconds: float, left: float) -> CallError:
    """Return the error of a call whose time is up: its own (`seconds`) or its task's (`left`)."""
    if left < seconds:
        text = "the seconds of this task's budget were used up during the call"
        if spec.is_ambiguous_when_cut:
            return Interrupted(f"{text}: it may or may not have happened")
        return BudgetExceeded(text)
    return ToolTimeout(f'"{spec.tool_id}" did not finish within {spec.timeout_ms / 1000:g} s')


def foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the most important error of a group: a Signal, a CallError, or the first one."""
    # LeaseLost first: without the lease, no other outcome may be recorded.
    leaves = list(_leaves(group))
    kinds = (LeaseLost, Signal, CallError, BaseException)
    return next(each for kind in kinds for each in leaves if isinstance(each, kind))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


CUT = "truncated"
"""The member of the details that reports what was cut."""
MAX_CHARACTER_BYTES = 6
"""Bytes of an escaped character (`\\u00e9`), the longest form in JSON."""


def bounded(error: ErrorDetail, details_bytes: int = DETAILS_BYTES) -> ErrorDetail:
    """Return an error whose texts and details are cut to their maximum."""
    suggestion = error.suggestion
    return replace(
        error,
        message=cut(error.message, ERROR_CHARS),
        suggestion=None if suggestion is None else cut(suggestion, ERROR_CHARS),
        details=None if error.details is None else _details(dict(error.details), details_bytes),
    )


def _details(details: Json, most: int) -> Json:
    is_deep = is_deeper(details, JSON_DEPTH)
    if not is_deep and not is_larger(details, most):
        return details
    kept: dict[str, Any] = {}
    left = most
    for key, value in details.items():
        if is_deeper(value, JSON_DEPTH - 1):
            continue
        beginning = _beginning(value, left - _size(key))
        if beginning is not None or value is None:
            kept[key] = beginning
            left -= _size(key) + _size(beginning)
    why = f"nested more than {JSON_DEPTH} deep" if is_deep else f"over {size_text(most)} as JSON"
    return kept | {CUT: f"the details were {why}; only a part is kept"}


def _beginning(value: Any, room: int) -> Any:
    """Return the part of a value that fits: all, its first items or characters, or None."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        characters = room // MAX_CHARACTER_BYTES - 1
        return cut(value, characters) if characters > 0 else None
    return _first(value, room) if isinstance(value, list | tuple) else None


def _first(items: Sequence[Any], room: int) -> list[Any] | None:
    kept, left = [], room
    for item in items:
        left -= _size(item)
        if left < 0:
            break
        kept.append(item)
    return kept or None


def _size(value: Any) -> int:
    return len(compact(value).encode()) + 1
