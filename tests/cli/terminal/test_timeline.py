"""Events of a call while it runs, and its hops."""

import ast
from pathlib import Path

import pytest

import penstock
from penstock.cli.terminal.timeline import HOPS, Trace, line_of
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import (
    CallSettled,
    Event,
    NoteEmitted,
    QuestionAsked,
    Record,
    TaskStarted,
)
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.json_values.json_text import canonical
from penstock.core.task import Question, QuestionKind

LOST = Envelope(Status.FAILED, None, ErrorDetail(code="NO", message="not\nthere"))
WRONG = Envelope(
    Status.VALIDATION_ERROR, None, ErrorDetail(code="INVALID_INPUT", message="/to: is required")
)
WAITS = Envelope(Status.SUSPENDED, None, ErrorDetail(code="SUSPENDED", message="waits for q_1"))
NESTED = CallPath("task_1/0/use#aa/send#bb")

ALONE = CallPath("task_1/detached/send#bb.1")
APPROVAL = Question(
    question_id=QuestionId("q_1"),
    kind=QuestionKind.APPROVAL,
    text='Run "send"? Sends a\nmail.',
    path=NESTED,
    tool_id="send",
    input={"to": "Ann"},
)
MONTH = Question(
    question_id=QuestionId("q_2"),
    kind=QuestionKind.USER_MESSAGE,
    text="Which month?",
    path=NESTED,
    tool_id="use",
)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            NoteEmitted(event_type="script.console", payload={"level": "warn", "text": "hm"}),
            "warn: hm",
        ),
        (
            NoteEmitted(event_type="saved", title="Saved", payload={"n": 1}),
            '[info] saved · Saved · {"n": 1}',
        ),
        (NoteEmitted(event_type="late", message="slow", level="warning"), "[warning] late · slow"),
        (CallSettled(tool_id="send", envelope=Envelope.success(1)), "→ send: success"),
        (CallSettled(tool_id="send", envelope=LOST), "→ send: failed NO: not there"),
        (
            CallSettled(tool_id="send", envelope=WRONG, ran=False),
            "→ send: validation_error INVALID_INPUT: /to: is required",
        ),
        (
            CallSettled(tool_id="send", envelope=WAITS, ran=False),
            "→ send: suspended SUSPENDED: waits for q_1",
        ),
        (CallSettled(tool_id="sleep", envelope=Envelope.success(1), ran=False), None),
        (QuestionAsked(question=APPROVAL), '? q_1 Run "send"? Sends a mail. · send {"to": "Ann"}'),
        (QuestionAsked(question=MONTH), "? q_2 Which month?"),
        (TaskStarted(), None),
    ],
)
def test_an_event_is_a_line_or_nothing(event: Event, line: str | None) -> None:
    task_id = TaskId("task_1")
    record = Record(LogId("task_1"), 1, Moment(0), task_id, NESTED, event)
    assert line_of(record) == line


def test_the_outcome_of_a_detached_call_is_shown() -> None:
    settled = CallSettled(tool_id="send", envelope=Envelope.success(1))
    record = Record(LogId("task_1"), 1, Moment(0), TaskId("task_1"), ALONE, settled)
    assert line_of(record) == "→ send: success"


SOURCE = Path(penstock.__file__).parent


def test_every_hop_is_a_function_that_exists() -> None:
    for hop in HOPS:
        place, _, name = hop.rpartition(".")
        nodes = ast.walk(ast.parse((SOURCE / f"{place}.py").read_text()))
        functions = {
            node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, hop


def test_no_hop_is_recorded_unless_requested() -> None:
    trace = Trace()
    with trace.watch(is_wanted=False):
        canonical({})
    assert (trace.hops, trace.text()) == ([], "")


def test_a_hop_is_recorded_once_with_its_description() -> None:
    trace = Trace()
    trace.hops += ["app/runtime.call", "engine/ledger.find"]
    assert trace.text().splitlines() == [
        "  1  app/runtime.call    the runtime receives the call",
        "  2  engine/ledger.find  replay: if the call is settled, return that outcome",
    ]
