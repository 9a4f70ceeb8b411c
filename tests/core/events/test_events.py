"""What comes into a log without the lease."""

from typing import get_args

from penstock.core.events.events import Event, QuestionAnswered, is_outside
from tests.core.stored_events import STORED

OUTSIDE = {
    "SessionOpened",
    "MessageReceived",
    "CallRequested",
    "FlowRequested",
    "RunEnded",
    "CancelRequested",
    "MessagesErased",
}


def test_people_and_doors_send_these_and_no_others() -> None:
    events = [event for event, *_ in STORED if not isinstance(event, QuestionAnswered)]
    assert {type(event).__name__ for event in events if is_outside(event)} == OUTSIDE
    assert {kind.__name__ for kind in get_args(Event)} >= OUTSIDE


def test_an_answer_is_from_outside_unless_nobody_gave_it() -> None:
    answers = [event for event, *_ in STORED if isinstance(event, QuestionAnswered)]
    assert {(answer.by is None, is_outside(answer)) for answer in answers} == {
        (False, True),
        (True, False),
    }
