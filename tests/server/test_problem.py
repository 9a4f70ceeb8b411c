"""Exceptions as answers."""

import inspect
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from penstock.chat.requests import TaskReply
from penstock.core import errors
from penstock.core.call_errors import CallError, NotAvailable, ScheduleBusy
from penstock.core.envelope import ErrorDetail
from penstock.core.ids import SessionId, TaskId
from penstock.core.task import TaskStatus
from penstock.models.model import ModelEvent, ModelRequest
from penstock.models.scripted import ScriptedModel
from penstock.server.problem import (
    end_problem,
    error_response,
    methods_of,
    problem,
    request_id_of,
    unexpected,
)
from tests.kit.server import CHAT, served

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
PROBLEMS = [{"field": "/a", "issue": "is missing"}]
TABLE: list[tuple[errors.PenstockError, int, str]] = [
    (errors.BadRequest(), 400, "BAD_REQUEST"),
    (errors.BadLastEventId(), 400, "BAD_LAST_EVENT_ID"),
    (errors.Unauthenticated(), 401, "UNAUTHENTICATED"),
    (errors.Forbidden(), 403, "FORBIDDEN"),
    (errors.HostNotAllowed(), 403, "HOST_NOT_ALLOWED"),
    (errors.OriginNotAllowed(), 403, "ORIGIN_NOT_ALLOWED"),
    (errors.LinkExpired(), 403, "LINK_EXPIRED"),
    (errors.NotFound(), 404, "NOT_FOUND"),
    (errors.NameTaken(), 409, "NAME_TAKEN"),
    (errors.ReadOnly(), 409, "READ_ONLY"),
    (errors.SessionBusy(), 409, "CONVERSATION_BUSY"),
    (errors.QuestionOpen(), 409, "QUESTION_OPEN"),
    (errors.AlreadyAnswered(), 409, "ALREADY_ANSWERED"),
    (errors.QuestionClosed(), 409, "QUESTION_CLOSED"),
    (errors.TaskOver(), 409, "TASK_ENDED"),
    (errors.TaskRunning(), 409, "TASK_RUNNING"),
    (errors.TextErased(), 409, "ERASED"),
    (errors.IdempotencyConflict(), 409, "IDEMPOTENCY_CONFLICT"),
    (errors.TooLarge(), 413, "TOO_LARGE"),
    (errors.ContextTooLarge(), 413, "CONTEXT_TOO_LARGE"),
    (errors.PromptNotResolved(), 422, "SYSTEM_PROMPT_RESOLUTION_FAILED"),
    (errors.UnsupportedType(), 415, "UNSUPPORTED_TYPE"),
    (errors.InvalidRequest(PROBLEMS), 422, "VALIDATION_ERROR"),
    (errors.InvalidAnswer(PROBLEMS), 422, "VALIDATION_ERROR"),
    (errors.ConfigError(), 422, "CONFIG_ERROR"),
    (NotAvailable(), 422, "NOT_AVAILABLE"),
    (ScheduleBusy(), 409, "SCHEDULE_BUSY"),
    (errors.RateLimited(), 429, "RATE_LIMITED"),
    (errors.TooManyStreams(), 429, "TOO_MANY_STREAMS"),
    (errors.ModelUnavailable(), 502, "MODEL_UNAVAILABLE"),
    (errors.ModelRefused(), 502, "MODEL_REFUSED"),
    (errors.CarryRefused(), 502, "CARRY_REFUSED"),
    (errors.NotReady(), 503, "NOT_READY"),
    (errors.StoreFull(), 503, "NOT_READY"),
    (errors.PenstockError("a secret"), 500, "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("error", "status", "code"), TABLE)
def test_each_exception_has_its_status(error: errors.PenstockError, status: int, code: str) -> None:
    response = problem(error, "req_1")
    assert (response.status_code, body(response)["code"]) == (status, code)


def body(response: Any) -> dict[str, Any]:
    """Return the error of an answer."""
    result: dict[str, Any] = json.loads(response.body)["error"]
    return result


def test_a_refusal_reports_every_problem_of_a_body() -> None:
    assert body(problem(errors.InvalidRequest(PROBLEMS), "r"))["details"] == PROBLEMS


def test_only_operators_see_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = body(unexpected(ValueError("a secret"), "req_1"))
    assert "secret" not in json.dumps(result)
    assert result["details"] == {"requestId": "req_1"}
    assert "a secret" in caplog.text
    assert "req_1" in caplog.text


def test_only_operators_see_the_place_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    result = body(problem(errors.StoreReadOnly("/srv/penstock.db cannot be written"), "req_1"))
    assert result["message"].startswith("The database cannot be written.")
    assert "/srv" not in json.dumps(result)
    assert result["details"] == {"requestId": "req_1"}
    assert "/srv/penstock.db" in caplog.text


KNOWN = [
    (errors.StoreCorrupt("event 4\n  is no JSON"), "the store failed: event 4 is no JSON"),
    (errors.PenstockError("a\nb"), "failed: INTERNAL_ERROR: a b"),
]


@pytest.mark.parametrize(("error", "message"), KNOWN)
def test_a_known_error_takes_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, error: errors.PenstockError, message: str
) -> None:
    problem(error, "req_1")
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert record.message.startswith("request req_1")
    assert record.message.endswith(message)
    assert "\n" not in record.message


def test_an_unreadable_event_is_named() -> None:
    of = {"log": "conv_1", "event": 4}
    result = body(problem(errors.StoreCorrupt("event 4 is no JSON", details=of), "req_1"))
    assert result["message"] == "event 4 is no JSON"
    assert result["details"] == {"requestId": "req_1"} | of


@pytest.mark.parametrize(
    ("error", "name", "value"),
    [
        (errors.Unauthenticated(), "www-authenticate", "Bearer"),
        (errors.RateLimited(details={"retryAfter": 7}), "retry-after", "7"),
        (errors.TooManyStreams(), "retry-after", "1"),
        (errors.NotReady(), "retry-after", "1"),
    ],
)
def test_some_errors_set_a_header(error: errors.PenstockError, name: str, value: str) -> None:
    assert problem(error, "r").headers[name] == value


def ended(status: TaskStatus, code: str | None) -> TaskReply:
    """Return the reply of a task with this end."""
    error = None if code is None else ErrorDetail(code=code, message="m", details={"secret": 1})
    return TaskReply(
        session_id=SessionId("conv_1"), task_id=TaskId("task_1"), status=status, error=error
    )


ENDS = [
    ("MODEL_UNAVAILABLE", 502),
    ("MODEL_REFUSED", 502),
    ("CONTEXT_TOO_LARGE", 413),
    ("CANCELLED", 409),
    ("INTERNAL_ERROR", 500),
    ("NO_PAPER", 422),
    ("SCRIPT_LOAD_ERROR", 422),
]


@pytest.mark.parametrize(("code", "status"), ENDS)
def test_the_end_of_a_task_without_a_stream_has_its_status(code: str, status: int) -> None:
    reply = ended(TaskStatus.FAILED, code)
    response = end_problem(reply, {"toolName": "print"}, {"x-task-id": "task_1"}, "req_1")
    assert (response.status_code, body(response)["code"]) == (status, code)
    details = body(response)["details"]
    assert (details["taskId"], details["conversationId"]) == ("task_1", "conv_1")
    assert details["toolName"] == "print"
    assert ("retryable" in details) is (status == 502)
    assert details.get("requestId") == ("req_1" if status == 500 else None)
    assert response.headers["x-task-id"] == "task_1"


def test_a_cancelled_task_has_ended() -> None:
    result = body(end_problem(ended(TaskStatus.CANCELLED, "CANCELLED"), {}, {}, "req_1"))
    assert (result["code"], result["details"]["status"]) == ("TASK_ENDED", "cancelled")


@pytest.mark.parametrize(("error", "status", "notice"), TABLE)
def test_the_docs_page_names_the_status_that_is_sent(
    error: errors.PenstockError, status: int, notice: str
) -> None:
    """docs/errors.md: "if the table has a code after a status, HTTP uses that code"."""
    http = f"{status}" if notice == error.code else f"{status} `{notice}`"
    row = f"| `{error.code}` | {http} | `{type(error).__name__}` |"
    assert isinstance(error, CallError) or row in PAGE.read_text()


def test_the_table_has_every_error_that_a_route_can_raise() -> None:
    """A missing class would be a 500, which only errors of files and calls may be."""
    shown = {type(error) for error, _, _ in TABLE}
    leaves = {
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.PenstockError) and not each.__subclasses__()
    }
    missing = {each for each in leaves - shown if not issubclass(each, errors.StoreError)}
    # Their tasks end with them.
    of_tasks = {errors.HookRefused, errors.HookFailed, errors.ToolsetFailed}
    assert missing - of_tasks <= {errors.DeclarationError, errors.RuntimeMisuse}


async def test_a_long_path_is_cut_in_the_message() -> None:
    long = "x" * 30_000
    async with served() as server:
        for path in (f"/{long}", f"/api/agents/{long}", f"/api/tasks/{long}", f"{CHAT}/{long}"):
            response = await server.client.get(path)
            assert (response.status_code, len(response.text) < 500) == (404, True), path[:20]


def test_the_methods_of_a_path_come_from_the_document() -> None:
    paths: dict[str, dict[str, Any]] = {
        "/a/{id}": {"get": {}, "put": {}},
        "/a/{id}/b": {"post": {}},
    }
    assert methods_of(paths, "/a/x.y") == ["GET", "PUT"]
    assert methods_of(paths, "/a/x/b") == ["POST"]
    assert methods_of(paths, "/c") == []


def test_a_scope_without_a_request_id_has_an_empty_one() -> None:
    assert request_id_of({}) == ""
    assert body(error_response(400, "X", "m")) == {"code": "X", "message": "m"}


async def test_a_model_class_that_fails_is_a_500_with_the_id_of_its_request() -> None:
    class Wrong(ScriptedModel):
        def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            raise ValueError("no key")

    async with served(model=Wrong([])) as server:
        response = await server.say("Go")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (500, "MODEL_ERROR")
    assert error["details"]["requestId"] == response.headers["x-request-id"]
    assert "ValueError: no key" in error["message"]
