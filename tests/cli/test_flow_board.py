"""A run at the terminal: a line for each thing that a person wants to know."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.flow_board import Board
from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events import CallSettled, Event, Record, ReplyReceived, TaskStarted
from penstock.core.flow_events import AgentBegan, FlowTold, StepSettled, StepStarted
from penstock.core.ids import LogId, MessageId, TaskId
from penstock.core.messages import Usage
from penstock.core.step import Outcome, StepResult

RUN, LOOK = TaskId("task_1"), "task_1/look/1"
STARTED = StepStarted(step_id="look", visit=1, agent="scout")


def lines(*happened: tuple[Event, str]) -> list[str]:
    """Return what the board shows of events, a second apart."""
    out = StringIO()
    board = Board(Console(file=out, width=200, highlight=False))
    for number, (event, path) in enumerate(happened):
        at = Moment(1000 * number)
        board.show(Record(LogId(RUN), number + 1, at, RUN, CallPath(path), event))
    return out.getvalue().splitlines()


def settled(outcome: Outcome, **more: Any) -> StepSettled:
    result = StepResult(summary="seen\nall")
    return StepSettled(step_id="look", visit=1, outcome=outcome, result=result, **more)


def told(kind: str, **body: Any) -> FlowTold:
    return FlowTold(kind=kind, body=body)


def test_a_step_with_its_agent_model_calls_time_and_tokens() -> None:
    reply = ReplyReceived(
        iteration=1,
        base=0,
        text="",
        message_id=MessageId(""),
        usage=Usage(input_tokens=3, output_tokens=2),
    )
    began = AgentBegan(agent="scout", message="", system="", model="m1")
    done = CallSettled(tool_id="read", envelope=Envelope.success(1), call_id=None)
    finish = CallSettled(tool_id="finish", envelope=Envelope.success(1), call_id=None)
    below = f"{LOOK}/1/read#1"
    assert lines(
        (STARTED, LOOK),
        (began, LOOK),
        (reply, LOOK),
        (done, below),
        (finish, below),
        (settled(Outcome.SUCCESS), LOOK),
    ) == [
        "▸ look by scout",
        "    m1",
        "    read: success",
        "✓ look (5.0 s, 5 tokens) seen all",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (StepStarted(step_id="make", visit=2), "▸ make, visit 2"),
        (settled(Outcome.SOFT, source="api_error"), "✗ look (0.0 s) api_error: seen all"),
        (
            settled(Outcome.SOFT, source="x", will_retry=True),
            "✗ look (0.0 s, tried again) x: seen all",
        ),
        (
            told("flow_loop_iteration", stepId="a", iteration=2, maxIterations=3, forced=False),
            "  ↻ a: round 2 of 3",
        ),
        (
            told("flow_loop_iteration", stepId="a", iteration=3, maxIterations=3, forced=True),
            "  ↻ a: round 3 of 3, forced out",
        ),
        (told("flow_auto_decision", agentName="judge", chosenBranch="Go"), "  judge decided: Go"),
        (
            told("flow_step_skipped", stepId="b", reason="jumped_over"),
            "  · b is skipped (jumped_over)",
        ),
        (told("flow_warning", message="odd \x1b[2J"), "  ! odd �[2J"),
    ],
)
def test_what_else_is_told(event: Event, line: str) -> None:
    assert lines((event, LOOK)) == [line]


def test_nothing_is_said_of_the_rest() -> None:
    assert lines((TaskStarted(), ""), (told("flow_jump", to=[]), "task_1")) == []
