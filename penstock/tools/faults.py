"""What goes wrong with a call, as its caller reads it."""

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
from penstock.core.json_values.json_text import JSON_DEPTH, compact, is_larger, without_surrogates
from penstock.core.json_values.schema import Problem, is_deeper
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
    """Return what a tool's own error means for its caller, in at most so many characters."""
    if isinstance(error, CallError | Signal):
        return error
    trace = secrets.text(without_surrogates("".join(format_exception(error))))
    log.error("tool %s failed\n%s", spec.tool_id, trace)
    failed = ToolFailed(cut(secrets.text(_said(error)), most))  # a part of a secret is not found
    failed.retryable = exhaustion_of(error) is not None
    failed.trace = trace if len(trace) <= TRACE_CHARACTERS else f"…{trace[-TRACE_CHARACTERS:]}"
    return failed


def _said(error: BaseException) -> str:
    """Return what a tool's own error says, be it one that cannot say anything."""
    with suppress(Exception):
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return f"the tool tried to end the process ({error!r})"
        if isinstance(error, asyncio.CancelledError):
            return "the tool was cancelled from inside, by nobody who waits for it"
        text = str(error)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return type(error).__name__


def invalid(tool_id: str, problems: list[Problem]) -> InvalidInput:
    """Return the error that names every problem of an input."""
    said = "; ".join(str(problem) for problem in problems)
    return InvalidInput(
        f'input of "{tool_id}" is not valid: {said}', details=problem_details(problems)
    )


def invalid_output(tool_id: str, problems: list[Problem]) -> InvalidOutput:
    """Return the error that names every problem of an output."""
    said = "; ".join(str(problem) for problem in problems)
    return InvalidOutput(
        f'output of "{tool_id}" is not valid: {said}', details=problem_details(problems)
    )


def retried(spec: ToolSpec, attempt: int, error: CallError, *, secrets: Redactor) -> CallRetried:
    """Return the event of an attempt that failed and is followed by another."""
    detail = redacted_error(cast("ErrorDetail", error.envelope().error), secrets)
    return CallRetried(tool_id=spec.tool_id, attempt=attempt, error=bounded(detail))


def may_wait(spec: ToolSpec, error: CallError) -> bool:
    """Whether an attempt failed for want of resources, and may be made again without harm.

    A write may where nothing of it was done: the process that it is was not started.
    """
    lack = exhaustion_of(error)
    repeats = spec.idempotent or not spec.is_cut_short
    return lack is not None and (repeats or lack.is_unstarted)


def without_output(error: CallError, spec: ToolSpec) -> CallError:
    """Return the error of a refused output; of a tool that writes it says that the write was done.

    A model that reads of a failure alone calls again, and pays twice.
    """
    is_refused = isinstance(error, InvalidOutput | OutputTooLarge)
    if not is_refused or spec.effect is not Effect.WRITE or spec.stays_inside:
        return error
    said = type(error)(
        f'{error}. "{spec.tool_id}" did run, and what it wrote stays done; only its output was '
        "refused",
        suggestion="Do not call it again to repeat it. Check what it did with a tool that reads.",
        details=error.details,
    )
    said.trace = error.trace
    return said


def problem_details(problems: list[Problem]) -> dict[str, Any]:
    """Return problems as the details of an error."""
    found = [{"path": problem.path, "message": problem.message} for problem in problems]
    return {"problems": found}


def out_of_time(spec: ToolSpec, seconds: float, left: float) -> CallError:
    """Return what it means that a call was stopped: its own time was up, or that of the task."""
    if left < seconds:
        text = "the seconds of this task's budget were used up during the call"
        if spec.is_cut_short:
            return Interrupted(f"{text}: it may or may not have happened")
        return BudgetExceeded(text)
    return ToolTimeout(f'"{spec.tool_id}" gave no answer in {spec.timeout_ms / 1000:g} s')


def foremost(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what counts of errors that came together: a Signal, a CallError, or the first."""
    leaves = list(_leaves(group))
    kinds = (LeaseLost, Signal, CallError, BaseException)
    return next(each for kind in kinds for each in leaves if isinstance(each, kind))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


CUT = "truncated"
"""The member of the details that says what is missing."""
MOST_OF_A_CHARACTER = 6
"""Bytes of a character that is escaped."""


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
        found = _beginning(value, left - _size(key))
        if found is not None or value is None:
            kept[key] = found
            left -= _size(key) + _size(found)
    why = f"nested more than {JSON_DEPTH} deep" if is_deep else f"over {size_text(most)} as JSON"
    return kept | {CUT: f"the details were {why}; what is here is a part of them"}


def _beginning(value: Any, room: int) -> Any:
    """Return what of a value has room: all, the first of its items or characters, or None."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        characters = room // MOST_OF_A_CHARACTER - 1
        return cut(value, characters) if characters > 0 else None
    return _first(value, room) if isinstance(value, list | tuple) else None


def _first(items: Sequence[Any], room: int) -> list[Any] | None:
    kept, left = [], room
    for each in items:
        left -= _size(each)
        if left < 0:
            break
        kept.append(each)
    return kept or None


def _size(value: Any) -> int:
    return len(compact(value).encode()) + 1
