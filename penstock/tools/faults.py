"""What goes wrong with a call, as its caller reads it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from traceback import format_exception
from typing import Any, cast

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
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import LeaseLost, Signal
from penstock.core.events.events import CallRetried
from penstock.core.exhaustion import exhaustion_of
from penstock.core.json_values.json_text import without_surrogates
from penstock.core.json_values.schema import Problem
from penstock.core.limits import Limits
from penstock.core.text import cut
from penstock.resources.redact import Redactor
from penstock.tools.results.bounded_errors import bounded
from penstock.tools.results.redaction import redacted_error
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

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


def retried(
    spec: ToolSpec, attempt: int, error: CallError, *, secrets: Redactor, limits: Limits
) -> CallRetried:
    """Return the event of an attempt that failed and is followed by another."""
    detail = redacted_error(cast("ErrorDetail", error.envelope().error), secrets)
    return CallRetried(tool_id=spec.tool_id, attempt=attempt, error=bounded(detail, limits))


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


def out_of_time(tool: Tool, seconds: float, left: float) -> CallError:
    """Return what it means that a call was stopped: its own time was up, or that of the task."""
    if left < seconds:
        text = "the seconds of this task's budget were used up during the call"
        if tool.spec.is_cut_short:
            return Interrupted(f"{text}: it may or may not have happened")
        return BudgetExceeded(text)
    return ToolTimeout(f'"{tool.spec.tool_id}" gave no answer in {tool.spec.timeout_ms / 1000:g} s')


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
