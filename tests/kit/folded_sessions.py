"""Sessions folded from events that a test writes down."""

from typing import Any

from penstock.core.clock import Moment
from penstock.core.events.events import CallSettled, Event, QuestionAsked, Record, TaskStarted
from penstock.core.ids import TaskId
from penstock.engine.session_state import SessionState, fold
from tests.kit.session_events import LOG, ONE, message, path_of, question, reply

ASKED: list[Any] = [
    message(),
    TaskStarted(),
    reply(1, "a", "b"),
    QuestionAsked(question=question("a")),
    QuestionAsked(question=question("b")),
]
"""A task with two open questions."""


def folded(*events: Event | tuple[Event, TaskId]) -> SessionState:
    """Fold events of the first task, or of the task beside them."""
    pairs = [each if isinstance(each, tuple) else (each, ONE) for each in events]
    return fold(LOG, [record(seq, *pair) for seq, pair in enumerate(pairs, 1)])


def record(seq: int, event: Event, task_id: TaskId) -> Record:
    """Return an event in its log; the path of an outcome is that of its call."""
    path = path_of(str(event.call_id)) if isinstance(event, CallSettled) else None
    return Record(LOG, seq, Moment(seq), task_id, path, event)
