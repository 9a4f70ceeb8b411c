"""The exceptions and signals that the runtime raises."""

import inspect
import pickle
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from penstock.chat.python.recorded_task import RecordedTask
from penstock.core import call_errors, errors, reply
from penstock.core.diagnostics import Diagnostic
from penstock.core.reply import OutputChanged, Reply, TaskError, TaskFailed

REPLY: Reply[str] = Reply(
    status="failed", agent="clerk", session="conv_1", task_id="task_1", recorded=RecordedTask(())
)
MODULES = (errors, call_errors, reply)
CLASSES = [
    each
    for module in MODULES
    for _, each in inspect.getmembers(module, inspect.isclass)
    if each.__module__ == module.__name__ and issubclass(each, BaseException)
]
RAISED: list[type[errors.PenstockError]] = [
    each for each in CLASSES if issubclass(each, errors.PenstockError)
]


def test_the_tree_draws_every_class_under_its_parent() -> None:
    roots = dict.fromkeys(("CallError", "TaskError"), "PenstockError")
    drawn = {name: above for module in MODULES for name, above in _drawn(module)} | roots
    bases = {each.__name__: each.__bases__[0].__name__ for each in CLASSES}
    assert drawn == bases | {"PenstockError": "", "Signal": ""}


def _drawn(module: ModuleType) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    for line in (inspect.getdoc(module) or "").splitlines()[1:]:
        if found := re.match(r"([│├└─ ]*)([A-Z]\w+)", line):
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            yield found[2], above[depth - 1] if depth else ""


def test_every_error_class_has_a_docstring_and_a_code_of_its_own() -> None:
    families = {errors.PenstockError, call_errors.CallError, TaskError}
    codes = [each.code for each in RAISED if each not in families]
    assert len(set(codes)) == len(codes)
    for each in CLASSES:
        assert each.__doc__ is not None
        assert each.__doc__.endswith((".", "…`."))


CODES = set(
    """
ALREADY_ANSWERED BAD_LAST_EVENT_ID BAD_REQUEST BUDGET_EXCEEDED CANCELLED CARRY_REFUSED CONFIG_ERROR
CONTEXT_TOO_LARGE CONVERSATION_BUSY DECLARATION_ERROR DEPTH_EXCEEDED EGRESS_DENIED ERASED
FORBIDDEN
HOOK_FAILED HOOK_REFUSED
HOST_NOT_ALLOWED IDEMPOTENCY_CONFLICT INTERNAL_ERROR INTERRUPTED INVALID_ANSWER INVALID_INPUT
INVALID_OUTPUT LINK_EXPIRED LOOP_DETECTED MODEL_ERROR MODEL_REFUSED MODEL_RETRY MODEL_UNAVAILABLE
NAME_TAKEN
NOT_AVAILABLE NOT_CONFIGURED NOT_FOUND NOT_PERMITTED NOT_READY ORIGIN_NOT_ALLOWED OUTPUT_TOO_LARGE
OUT_OF_RESOURCES
OUT_OF_MEMORY QUESTION_CLOSED QUESTION_OPEN RATE_LIMITED READ_ONLY REJECTED SCHEDULE_BUSY
SCRIPT_ERROR
SCRIPT_LOAD_ERROR STATE_DENIED STORE_CLOSED STORE_CORRUPT STORE_ERROR STORE_FULL STORE_LOCKED
STORE_READ_ONLY STORE_TOO_NEW SYSTEM_PROMPT_RESOLUTION_FAILED TASK_ENDED TASK_RUNNING TIMEOUT
TOOL_FAILED
TOOLSET_FAILED TOOL_NOT_FOUND TOO_LARGE
TOO_MANY_STREAMS UNAUTHENTICATED UNSUPPORTED_TYPE UPSTREAM_UNAVAILABLE VALIDATION_ERROR VAULT_DENIED
VAULT_NOT_FOUND TASK_FAILED TASK_CANCELLED TASK_SUSPENDED TASK_ERROR OUTPUT_CHANGED RUNTIME_MISUSE
""".split()  # noqa: SIM905
)


def test_codes_stay_as_they_are() -> None:
    """Codes are part of the wire and of logs: a class may be renamed, its code may not."""
    assert {each.code for each in RAISED} == CODES


def test_the_default_message_of_an_error_is_its_docstring() -> None:
    assert str(errors.QuestionClosed()) == "The question was cancelled or has expired."
    assert str(errors.NotFound("there is no such thing as 'x'")) == "there is no such thing as 'x'"


def test_problems_of_a_request_are_all_named() -> None:
    problems = [{"field": "/content", "issue": "is blank"}, {"field": "", "issue": "is no object"}]
    request, answer = errors.InvalidRequest(problems), errors.InvalidAnswer(problems)
    assert str(request) == "The request is not valid: /content: is blank; /: is no object"
    assert str(answer) == (
        "The answer does not fit its question: /content: is blank; /: is no object"
    )
    assert (request.code, answer.code) == ("VALIDATION_ERROR", "INVALID_ANSWER")
    assert answer.problems == problems


def test_a_declaration_error_carries_every_finding() -> None:
    found = [Diagnostic(code="a", message="A.", file="x.yaml"), Diagnostic(code="b", message="B.")]
    error = errors.DeclarationError(found)
    assert str(error) == "x.yaml:1:1: error a: A.\nerror b: B."
    assert error.diagnostics == found


@pytest.mark.parametrize("signal", [errors.Suspend, errors.Cancel, errors.LeaseLost])
def test_no_tool_can_swallow_a_signal(signal: type[errors.Signal]) -> None:
    assert issubclass(signal, BaseException)
    assert not issubclass(signal, Exception)


def test_a_suspension_carries_what_it_waits_for() -> None:
    assert errors.Suspend("q_1", "task_2").awaited == ("q_1", "task_2")


@pytest.mark.parametrize(
    "error",
    [
        errors.NotFound(),
        errors.InvalidRequest([{"field": "/content", "issue": "is blank"}]),
        errors.ModelUnavailable("busy", retry_after=3.0),
        errors.DeclarationError([]),
        call_errors.ToolFailed("no paper", details={"tray": 2}),
        TaskFailed(REPLY),
        OutputChanged(REPLY, None, {"type": "integer"}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling_as_in_a_pool_of_processes(error: errors.PenstockError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert type(copy) is type(error)
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))
