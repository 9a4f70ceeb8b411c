"""Exceptions as HTTP answers: one table of status codes, one error format."""

import logging
import math
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.chat.requests import TaskReply
from penstock.core import call_errors, errors
from penstock.core.envelope import ErrorDetail
from penstock.core.json_values.json_text import compact
from penstock.core.task import TaskStatus
from penstock.core.text import cut, one_line
from penstock.server.routing import path_of

log = logging.getLogger(__name__)

STATUS: dict[type[errors.PenstockError], int] = {
    errors.PenstockError: 500,
    errors.StoreError: 503,
    errors.NotReady: 503,
    errors.ConfigError: 422,
    errors.NotFound: 404,
    errors.NameTaken: 409,
    errors.ReadOnly: 409,
    errors.SessionBusy: 409,
    errors.QuestionOpen: 409,
    errors.AlreadyAnswered: 409,
    errors.QuestionClosed: 409,
    errors.TaskOver: 409,
    errors.TaskRunning: 409,
    errors.TextErased: 409,
    errors.IdempotencyConflict: 409,
    errors.BadRequest: 400,
    errors.BadLastEventId: 400,
    errors.InvalidRequest: 422,
    errors.InvalidAnswer: 422,
    call_errors.NotAvailable: 422,
    call_errors.ScheduleBusy: 409,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.HostNotAllowed: 403,
    errors.OriginNotAllowed: 403,
    errors.LinkExpired: 403,
    errors.TooLarge: 413,
    errors.UnsupportedType: 415,
    errors.RateLimited: 429,
    errors.TooManyStreams: 429,
    errors.PromptNotResolved: 422,
    errors.ModelUnavailable: 502,
    errors.ModelRefused: 502,
    errors.ContextTooLarge: 413,
}
"""Status codes. A class that is not listed has the code of its nearest listed base class."""

END_STATUS = {
    errors.ModelError.code: 500,
    errors.ModelUnavailable.code: 502,
    errors.ModelRefused.code: 502,
    errors.CarryRefused.code: 502,
    errors.ContextTooLarge.code: 413,
    call_errors.Cancelled.code: 409,
    errors.PenstockError.code: 500,
}
"""Status codes of errors that ended a task, for clients that do not stream; others are 422."""

RETRY_SECONDS = 1
NAME_CHARACTERS = 100
"""How much of a path a message repeats."""
MESSAGE_CHARACTERS = 300
"""The longest message that repeats a part of the request."""
_REPEATING = (errors.NotFound, errors.HostNotAllowed, errors.OriginNotAllowed)


class Json(JSONResponse):
    """A JSON answer."""

    def render(self, content: Any) -> bytes:
        """Return the value as compact JSON."""
        return compact(content).encode()


def problem(error: errors.PenstockError, request_id: str) -> Json:
    """Return the answer for an exception."""
    status = next(STATUS[each] for each in type(error).__mro__ if each in STATUS)
    if status == STATUS[errors.PenstockError]:
        return unexpected(error, request_id)
    code, details, message = error.code, error.details, str(error)
    if isinstance(error, errors.InvalidRequest | errors.InvalidAnswer):
        code, details = errors.InvalidRequest.code, error.problems  # type: ignore[assignment]
    elif isinstance(error, _REPEATING):
        message = cut(message, MESSAGE_CHARACTERS)
    elif isinstance(error, errors.StoreError):
        log.warning("request %s: the store failed: %s", request_id, one_line(str(error)))
        code, details = errors.NotReady.code, {"requestId": request_id, **(error.details or {})}
        if not error.details:  # its own message may contain paths of this machine
            message = (type(error).__doc__ or code).strip()
    return error_response(status, code, message, details=details, headers=_headers(error, status))


def unexpected(error: BaseException, request_id: str) -> Json:
    """Return the answer for an unexpected exception, and log it for operators."""
    if isinstance(error, errors.PenstockError):
        log.warning("request %s failed: %s: %s", request_id, error.code, one_line(str(error)))
    else:
        log.error("request %s failed", request_id, exc_info=error)
    message = "the server failed; its log has the cause under the request id"
    code = errors.PenstockError.code
    return error_response(500, code, message, details={"requestId": request_id})


def error_response(
    status: int,
    code: str,
    message: str,
    *,
    details: Any = None,
    headers: dict[str, str] | None = None,
) -> Json:
    """Return an error in the one format that all errors have."""
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return Json({"error": error}, status, headers)


def end_problem(
    reply: TaskReply, culprit: dict[str, Any], headers: dict[str, str], request_id: str
) -> Json:
    """Return the answer for a task that did not succeed, for a client that does not stream.

    `culprit` describes the call that ended the task, if one did.
    """
    error = reply.error
    details: dict[str, Any] = {"taskId": reply.task_id, "conversationId": reply.session_id}
    if reply.status is TaskStatus.CANCELLED or error is None:
        details["status"] = reply.status.value
        message = "the task was cancelled"
        return error_response(409, errors.TaskOver.code, message, details=details, headers=headers)
    status = END_STATUS.get(error.code, 422)
    if status == END_STATUS[errors.ModelUnavailable.code]:
        details["retryable"] = error.retryable
        headers = headers | _wait(error)
    elif status == END_STATUS[errors.PenstockError.code]:
        details["requestId"] = request_id
    details |= culprit
    return error_response(status, error.code, error.message, details=details, headers=headers)


async def on_error(request: Request, error: Exception) -> Response:
    """Answer an exception of a route."""
    assert isinstance(error, errors.PenstockError)  # noqa: S101  registered for it alone
    return problem(error, request_id_of(request.scope))


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer an unknown path, or a method that the path does not support."""
    assert isinstance(error, HTTPException)  # noqa: S101  registered for it alone
    path, shown = path_of(request.scope), cut(request.url.path, NAME_CHARACTERS)
    if error.status_code == 405:  # noqa: PLR2004
        described = methods_of(request.app.openapi()["paths"], path)
        allowed = ", ".join(described) or (error.headers or {}).get("Allow", "")
        message = f"{shown} does not support {request.method}; allowed: {allowed}"
        headers = {"Allow": allowed}
        return error_response(405, "METHOD_NOT_ALLOWED", message, headers=headers)
    if error.status_code == STATUS[errors.NotFound]:
        return error_response(404, errors.NotFound.code, f"there is nothing at {shown}")
    return error_response(error.status_code, errors.BadRequest.code, str(error.detail))


def methods_of(paths: dict[str, dict[str, Any]], path: str) -> list[str]:
    """Return the methods of a path in an OpenAPI document, by its name or by a template."""
    if path in paths:
        return sorted(method.upper() for method in paths[path])
    methods: set[str] = set()
    for template, operations in paths.items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            methods |= {method.upper() for method in operations}
    return sorted(methods)


def request_id_of(scope: Any) -> str:
    """Return the id that the server gave to the request."""
    request_id: str = scope.get("penstock.request_id", "")
    return request_id


def _wait(error: ErrorDetail) -> dict[str, str]:
    """Return the `Retry-After` header, if the model's provider sent a delay."""
    seconds = (error.details or {}).get("retryAfter")
    return {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}


def _headers(error: errors.PenstockError, status: int) -> dict[str, str] | None:
    if isinstance(error, errors.Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, errors.RateLimited | errors.TooManyStreams):
        seconds = (error.details or {}).get("retryAfter", RETRY_SECONDS)
        return {"Retry-After": str(seconds)}
    return {"Retry-After": str(RETRY_SECONDS)} if status == STATUS[errors.NotReady] else None
