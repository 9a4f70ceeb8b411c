"""What a call tells on its way."""

import pytest

from penstock.cli.timeline import line_of
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events import CallSettled, Event, NoteEmitted, Record, TaskStarted
from penstock.core.ids import LogId, TaskId

LOST = Envelope(Status.FAILED, None, ErrorDetail(code="NO", message="not\nthere"))
NESTED = CallPath("task_1/0/use#aa/send#bb")


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
        (CallSettled(tool_id="sleep", envelope=Envelope.success(1), ran=False), None),
        (TaskStarted(), None),
    ],
)
def test_an_event_is_a_line_or_nothing(event: Event, line: str | None) -> None:
    task_id = TaskId("task_1")
    record = Record(LogId("task_1"), 1, Moment(0), task_id, NESTED, event)
    assert line_of(record) == line
