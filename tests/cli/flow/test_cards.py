"""Events of a run, folded into cards."""

import pytest

from penstock.agents.agent_profile import DisplayCard
from penstock.cli.flow.cards import (
    MAX_ACTIVITIES,
    MAX_REPLY_CHARS,
    Cards,
    CardState,
    LoopRound,
    StepCard,
)
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import TaskEnded
from penstock.core.events.flow_events import (
    AgentStarted,
    FlowNotified,
    Outcome,
    StepResult,
    StepStatus,
)
from penstock.core.messages import Usage
from penstock.core.task import TaskStatus
from penstock.engine.bus import DeltaKind
from tests.kit.flow_steps import (
    LOOK,
    RUN,
    Happened,
    answers,
    asks,
    called,
    ends,
    piece,
    records,
    says,
    starts,
    tells,
)

REFUSED = Envelope(Status.FAILED, None, ErrorDetail(code="X", message="no such file"))


def folded(*happened: Happened) -> Cards:
    cards = Cards(lambda agent: DisplayCard(label=f"The {agent}"))
    for record in records(*happened):
        cards.take(record)
    return cards


def only(*happened: Happened) -> StepCard:
    [card] = folded(*happened).all
    return card


def test_a_card_has_the_agent_the_step_the_tokens_and_the_last_tool() -> None:
    card = only(starts(), says("Let me see.", "read"), called("read"), called("finish"))
    assert (card.step_id, card.agent, card.face.label) == ("look", "scout", "The scout")
    assert (card.state, card.tokens, card.tool) == (CardState.WORKING, 5, "read: success")
    assert card.milliseconds(9000) == 9000
    assert [(each.mark, each.text) for each in card.activities] == [
        ("“", "Let me see."),
        ("→", 'read {"path": "a.md"}'),
        ("←", "read: success"),
    ]


def test_events_of_a_nested_agent_belong_to_the_same_card() -> None:
    inner = f"{LOOK}/1/subagent#1/agent"
    began = AgentStarted(agent="aide", message="", system="")
    card = only(starts(), (began, inner), says("I help.", path=inner))
    assert (card.agent, card.tokens, card.turns) == ("scout", 5, 1)


def test_a_fork_that_an_agent_decides_has_its_name() -> None:
    began = AgentStarted(agent="judge", message="", system="")
    assert only(starts(agent=""), (began, LOOK)).agent == "judge"


@pytest.mark.parametrize(
    ("outcome", "status", "again", "state"),
    [
        (Outcome.SUCCESS, StepStatus.COMPLETE, False, CardState.DONE),
        (Outcome.SOFT, StepStatus.ERROR, False, CardState.FAILED),
        (Outcome.HARD, StepStatus.ERROR, False, CardState.FAILED),
        (Outcome.SOFT, StepStatus.BLOCKED, False, CardState.BLOCKED),
        (Outcome.SOFT, StepStatus.ERROR, True, CardState.RETRIED),
        (Outcome.ABORTED, StepStatus.ABORTED, False, CardState.ABORTED),
    ],
)
def test_a_card_shows_the_end_of_a_visit(
    outcome: Outcome, status: StepStatus, again: bool, state: CardState
) -> None:
    result = StepResult(status=status, summary="s")
    cards = folded(starts(), ends(outcome=outcome, result=result, will_retry=again))
    [card] = cards.all
    assert (card.state, card.is_over, cards.settled) == (state, True, 1)


def test_the_end_of_a_visit_sets_the_final_cost() -> None:
    usage = Usage(input_tokens=30, output_tokens=20)
    card = only(starts(), says(), ends(duration_ms=700, usage=usage))
    assert (card.milliseconds(99_000), card.tokens) == (700, 50)
    assert only(starts(), ends()).milliseconds(99_000) == 1000


def test_the_time_of_waiting_for_people_is_not_counted() -> None:
    card = only(starts(), asks())
    assert (card.state, card.milliseconds(99_000)) == (CardState.WAITING, 1000)
    card = only(starts(), asks(), answers(), ends())
    assert (card.state, card.milliseconds(99_000)) == (CardState.DONE, 2000)


def test_a_card_waits_until_its_last_question_is_answered() -> None:
    happened = [starts(), asks(1), asks(2), answers(1)]
    assert only(*happened).state is CardState.WAITING
    assert only(*happened, answers(2)).milliseconds(5000) == 2000


def test_rounds_are_counted() -> None:
    """A flow inside the run may have a loop of the same name: its rounds are its own."""
    body = {"stepId": "again", "iteration": 1, "maxIterations": 5, "forced": False}
    happened = [
        (FlowNotified(kind="flow_loop_iteration", body=body), "task_1/again/1"),
        (FlowNotified(kind="flow_loop_iteration", body={**body, "iteration": 2}), "task_1/again/2"),
        (FlowNotified(kind="flow_loop_iteration", body=body), "task_1/part/1/again/1"),
    ]
    rounds = list(folded(*happened).rounds.values())
    assert rounds == [LoopRound("again", 2, 5), LoopRound("again", 1, 5)]


def test_a_cut_visit_has_ended() -> None:
    cards = folded(starts(), starts("look", visit=2), tells("flow_step_aborted", stepId="look"))
    assert {each.state for each in cards.all} == {CardState.ABORTED}


def test_pieces_of_a_reply_are_shown_before_it_is_complete() -> None:
    cards = folded(starts())
    cards.take(piece("I am ", DeltaKind.REASONING))
    cards.take(piece("It is "))
    card = cards.take(piece("3."))
    assert card is not None
    assert card.saying == "It is 3."
    assert cards.take(piece("?", path="task_1/other/1")) is None
    cards.take(records(says("It is 3."))[0])
    assert card.saying == ""


def test_a_long_text_keeps_its_end() -> None:
    cards = folded(starts(), *[called("read", REFUSED)] * 50)
    [card] = cards.all
    assert len(card.activities) == MAX_ACTIVITIES
    assert card.activities[-1].text == "read: failed: no such file"
    cards.take(piece("x" * 10_000))
    assert len(card.saying) == MAX_REPLY_CHARS


def test_events_outside_of_steps_change_no_card() -> None:
    cards = folded((TaskEnded(status=TaskStatus.SUCCEEDED), RUN), says(path="task_1"), answers(7))
    assert (cards.is_over, list(cards.all), cards.tokens) == (True, [], 0)
