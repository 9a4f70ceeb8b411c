"""A run where no cursor moves: a line for each thing that a person wants to know."""

from io import StringIO

import pytest
from rich.console import Console

from penstock.cli.flow.board import LineBoard
from penstock.core.events.events import TaskStarted
from penstock.core.events.flow_events import AgentStarted, Outcome
from tests.kit.flow_steps import LOOK, RUN, Happened, called, ends, records, says, starts, tells

ROUND = {"stepId": "a", "iteration": 2, "maxIterations": 3, "forced": False}


def lines(*happened: Happened) -> list[str]:
    """Return what is printed of events, a second apart."""
    out = StringIO()
    with LineBoard(Console(file=out, width=200, highlight=False)) as board:
        for record in records(*happened):
            board.take(record)
    return out.getvalue().splitlines()


def test_a_step_with_its_agent_calls_time_and_tokens() -> None:
    """The name of a model is no line: most steps of a flow have the same one."""
    began = AgentStarted(agent="scout", message="", system="", model="m1")
    happened = [starts(), (began, LOOK), says(), called("read"), called("finish"), ends()]
    assert lines(*happened) == [
        "▸ look by scout",
        "    read: success",
        "✓ look (5.0 s, 5 tokens) seen all",
    ]


@pytest.mark.parametrize(
    ("happened", "line"),
    [
        (ends(outcome=Outcome.SOFT, source="api_error"), "✗ look (1.0 s) api_error: seen all"),
        (
            ends(outcome=Outcome.SOFT, source="x", will_retry=True),
            "✗ look (1.0 s, tried again) x: seen all",
        ),
        (ends(duration_ms=2500), "✓ look (2.5 s) seen all"),
        (tells("flow_loop_iteration", **ROUND), "  ↻ a: round 2 of 3"),
        (
            tells("flow_loop_iteration", **ROUND | {"iteration": 3, "forced": True}),
            "  ↻ a: round 3 of 3, forced out",
        ),
        (tells("flow_auto_decision", agentName="judge", chosenBranch="Go"), "  judge decided: Go"),
        (
            tells("flow_step_skipped", stepId="b", reason="jumped_over"),
            "  · b is skipped (jumped_over)",
        ),
        (tells("flow_warning", message="odd \x1b[2J"), "  ! odd �[2J"),
    ],
)
def test_notices_are_printed(happened: Happened, line: str) -> None:
    assert lines(starts(), happened)[1:] == [line]


def test_a_further_visit_says_which() -> None:
    assert lines(starts("make", "", visit=2)) == ["▸ make, visit 2"]


def test_other_events_print_nothing() -> None:
    assert lines((TaskStarted(), ""), tells("flow_jump", to=[]), (TaskStarted(), RUN)) == []
