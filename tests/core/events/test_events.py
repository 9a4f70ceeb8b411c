"""The lists of event kinds agree: a new kind is decided in each place that depends on kinds.

`engine/session_state` and `store/erased_events` end in `assert_never`, so mypy names a missing kind
there. The tests of `codec` and `projections` name one that is missing in theirs. The rest is here.
"""

import ast
from pathlib import Path
from typing import get_args

import pytest

import penstock
from penstock.core.events.events import Event, QuestionAnswered
from penstock.core.events.roles import REPEATED, is_outside
from tests.core.stored_events import STORED

PACKAGE = Path(penstock.__file__).parent
KINDS = {kind.__name__ for kind in get_args(Event)}
OUTSIDE = {
    "SessionOpened",
    "MessageReceived",
    "CallRequested",
    "FlowRequested",
    "RunEnded",
    "ChildRequested",
    "WaiterAdded",
    "TreeAsked",
    "CancelRequested",
    "MessagesErased",
    "HandedBack",
    "ScheduleFired",
    "Forked",
}
PROGRESS = """
AgentReminded AgentStarted CallSettled Erased FlowNotified FlowStarted HandedOff PromptResolved
HookDecided QuestionAnswered QuestionAsked ReplyReceived SkillsSelected StepSettled StepStarted
Summarised TaskEnded TaskStarted TaskSuspended WaitExpired ChildrenSpawned
""".split()  # noqa: SIM905
"""Events of the holder that a restarted activation does not write a second time."""
PASSED_OVER = {
    "server/streams/wire.py": """
        AgentReminded AgentStarted CallRetried CallStarted Erased FlowNotified FlowRequested
        FlowStarted Forked HandedBack HookDecided MessagesErased PromptResolved ScheduleFired
        SecretGiven
        SessionOpened SkillsSelected StateWritten StepSettled StepStarted Summarised WaitExpired
        ChildRequested ChildrenSpawned WaiterAdded
    """,
    "app/run_feed.py": """
        AgentReminded CallRequested CallRetried CallStarted CancelRequested Erased FlowRequested
        Forked HandedBack HandedOff
        HookDecided MessageReceived MessagesErased NoteEmitted PromptResolved ReplyRestarted
        RunEnded ScheduleFired SecretGiven SessionOpened SkillsSelected StateWritten Summarised
        TaskResumed
        TaskStarted TaskSuspended WaitExpired
        ChildRequested ChildrenSpawned WaiterAdded TreeAsked
    """,
    "core/events/roles.py": """
        CallRequested CallStarted CancelRequested Erased FlowNotified FlowRequested FlowStarted
        Forked HandedBack HandedOff
        HookDecided MessageReceived MessagesErased NoteEmitted PromptResolved QuestionAnswered
        QuestionAsked RunEnded ScheduleFired SecretGiven SessionOpened SkillsSelected StateWritten
        StepSettled
        StepStarted Summarised TaskBlocked TaskEnded TaskResumed TaskStarted TaskSuspended
        WaitExpired
        ChildRequested ChildrenSpawned WaiterAdded TreeAsked
    """,
}
"""Events that the chat stream, the stream of a run and the filter of subagents ignore."""


def test_people_and_doors_send_these_and_no_others() -> None:
    events = [event for event, *_ in STORED if not isinstance(event, QuestionAnswered)]
    assert {type(event).__name__ for event in events if is_outside(event)} == OUTSIDE


def test_an_answer_is_from_outside_unless_it_has_no_author() -> None:
    answers = [event for event, *_ in STORED if isinstance(event, QuestionAnswered)]
    assert {(answer.by is None, is_outside(answer)) for answer in answers} == {
        (False, True),
        (True, False),
    }


def test_every_kind_is_progress_repeated_or_from_outside() -> None:
    """A kind that is written again after a crash must be in REPEATED: else no crash is counted."""
    repeated = {kind.__name__ for kind in REPEATED}
    assert repeated.isdisjoint(PROGRESS)
    assert {*PROGRESS, *repeated, *OUTSIDE} == KINDS


@pytest.mark.parametrize("path", PASSED_OVER)
def test_every_kind_is_matched_or_passed_over_on_purpose(path: str) -> None:
    code = ast.parse((PACKAGE / path).read_text())
    patterns = [node.cls for node in ast.walk(code) if isinstance(node, ast.MatchClass)]
    matched = {name.id for name in patterns if isinstance(name, ast.Name)} & KINDS
    passed_over = set(PASSED_OVER[path].split())
    assert matched.isdisjoint(passed_over)
    assert matched | passed_over == KINDS, f"decide in {path} what to do with the new kind"
