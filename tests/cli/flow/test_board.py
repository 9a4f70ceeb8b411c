"""The board at a terminal: cards in place, and lines for ended steps."""

import re
from io import StringIO

import pytest
from rich.console import Console

from penstock.cli.flow.board import CardBoard, LineBoard, board_for
from penstock.core.clock import Moment
from penstock.core.events.events import TaskStarted
from penstock.core.events.flow_events import AgentStarted, Outcome
from penstock.engine.bus import Live
from penstock.testing.clock import FakeClock
from tests.kit.flow_steps import (
    LOOK,
    RUN,
    Happened,
    called,
    ends,
    piece,
    records,
    says,
    starts,
    tells,
)

_FOLDED = re.compile(r"✓ step-(\d+) \(")
_STEERING = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Screen:
    """A terminal that records its input."""

    def __init__(self, height: int = 24) -> None:
        self.out = StringIO()
        self.console = Console(
            file=self.out, width=80, height=height, force_terminal=True, highlight=False
        )
        self.clock = FakeClock(Moment(0))
        self.board = CardBoard(self.console, self.clock, title="/demo")

    def take(self, *items: Live) -> None:
        for item in items:
            self.clock.advance(1)
            self.board.take(item)

    def said(self) -> str:
        """Return what came since this was asked last, without what moves the cursor."""
        text = _STEERING.sub("", self.out.getvalue())
        self.out.seek(0)
        self.out.truncate()
        return text


def test_cards_change_in_place_and_end_as_lines() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts(), says("Hm.")))
        assert "╭─ ▸ look" in screen.said()
        screen.take(piece("It is fine."))
        assert "It is fine." in screen.said()
        screen.take(*records(ends(duration_ms=1500)))
        assert "╭─ ✓ look" in screen.said()
    assert screen.said().splitlines()[-1] == "✓ look (1.5 s, 5 tokens) seen all"


def test_ended_cards_make_room_for_working_ones() -> None:
    """Ended cards become lines, in the order in which they ended."""
    screen = Screen(height=20)
    with screen.board:
        for number in range(20):
            name = f"step-{number}"
            screen.take(*records(starts(name), ends(name)))
        folded = [int(number) for number in _FOLDED.findall(screen.said())]
        assert folded == list(range(16))
    assert len(_FOLDED.findall(screen.said())) == 4


def test_a_step_without_an_agent_becomes_a_line_when_it_ends() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts("build", ""), ends("build")))
        assert "✓ build (1.0 s) seen all" in screen.said()
        screen.board.tick()
        assert "╭─ ✓ build" not in screen.said()


def test_notices_are_printed_above_the_board() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts(), tells("flow_warning", message="odd")))
        assert "  ! odd" in screen.said()


def test_the_shown_time_advances_while_nothing_happens() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts()))
        screen.clock.advance(59)
        screen.said()
        screen.board.tick()
        assert "1 min 00 s" in screen.said()


def test_many_events_at_once_are_drawn_once() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts()))
        screen.said()
        for _ in range(100):
            screen.board.take(piece("word "))
        assert screen.said() == ""
        screen.board.tick()
        assert screen.said().count("╭─ ▸ look") == 1


def test_other_output_is_printed_while_the_board_is_removed() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts("done"), ends("done"), starts()))
        screen.said()
        with screen.board.aside():
            assert screen.said().strip().splitlines()[-1].startswith("✓ done")
            screen.board.tick()
            assert screen.said() == ""
        assert "╭─ ▸ look" in screen.said()
    screen.said()
    with screen.board.aside():
        assert screen.said() == ""


def test_a_resumed_step_is_on_the_board_again() -> None:
    screen = Screen()
    with screen.board:
        screen.take(*records(starts()))
    screen.said()
    with screen.board:
        assert "╭─ ▸ look" in screen.said()


@pytest.mark.parametrize(
    ("is_terminal", "kind", "quiet", "board"),
    [
        (True, "xterm-256color", False, CardBoard),
        (True, "dumb", False, LineBoard),
        (False, "xterm", False, LineBoard),
        (True, "xterm", True, LineBoard),
    ],
)
def test_cards_are_shown_only_at_terminals(
    is_terminal: bool, kind: str, quiet: bool, board: type[CardBoard | LineBoard]
) -> None:
    environment = {"TERM": kind}
    console = Console(
        file=StringIO(), force_terminal=is_terminal, quiet=quiet, _environ=environment
    )
    assert isinstance(board_for(console, FakeClock(), title="/demo"), board)


ROUND = {"stepId": "a", "iteration": 2, "maxIterations": 3, "forced": False}


def lines(*happened: Happened) -> list[str]:
    """Return the printed lines of events, one second apart."""
    out = StringIO()
    with LineBoard(Console(file=out, width=200, highlight=False)) as board:
        for record in records(*happened):
            board.take(record)
    return out.getvalue().splitlines()


def test_a_step_with_its_agent_calls_time_and_tokens() -> None:
    """The name of a model gets no line: most steps of a flow have the same one."""
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


def test_a_repeated_visit_shows_its_number() -> None:
    assert lines(starts("make", "", visit=2)) == ["▸ make, visit 2"]


def test_other_events_print_nothing() -> None:
    assert lines((TaskStarted(), ""), tells("flow_jump", to=[]), (TaskStarted(), RUN)) == []
