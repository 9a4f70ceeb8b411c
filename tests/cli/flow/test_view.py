"""Cards on screens of every size, with any text of agents."""

from collections.abc import Sequence
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from penstock.agents.agent_profile import DisplayCard
from penstock.cli.flow.cards import Cards, StepCard
from penstock.cli.flow.view import SPARE, View, draw, fits, span
from penstock.core.events.flow_events import FileUse, StepResult
from tests.kit.flow_steps import (
    Happened,
    asks,
    called,
    ends,
    piece,
    records,
    says,
    starts,
    tells,
)

ROUND = {"stepId": "again", "iteration": 2, "maxIterations": 5, "forced": False}


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=StringIO(), width=width, height=height, force_terminal=True)


def view_of(
    *happened: Happened, texts: str = "", faces: dict[str, DisplayCard] | None = None
) -> View:
    cards = Cards(lambda agent: (faces or {}).get(agent, DisplayCard()))
    for record in records(*happened):
        cards.take(record)
    if texts:
        cards.take(piece(texts))
    return View("/demo", cards, list(cards.all), 1000 * len(happened))


def lines(view: View, console: Console | None = None) -> list[str]:
    """Return what is drawn, without what would colour it."""
    console = console or screen()
    drawn = console.render_lines(draw(view, console), pad=False)
    return ["".join(segment.text for segment in line if not segment.control) for line in drawn]


def crowd(count: int, *more: Happened) -> View:
    return view_of(*[starts(f"step-{number}") for number in range(count)], *more)


def test_a_card_shows_agent_step_state_and_last_tool() -> None:
    """One card per agent: status, time, tokens, last tool."""
    shown = lines(view_of(starts(), says("", "read"), called("read")))
    assert shown[0].strip() == "/demo  3.0 s · 0 done · 1 at work · 5 tokens"
    assert shown[1].startswith("╭─ ▸ look ─")
    assert [line.strip("│ ") for line in shown[2:5]] == [
        "scout",
        "at work · 3.0 s · 5 tokens",
        "read: success",
    ]


def test_a_card_uses_the_display_settings_of_the_agent() -> None:
    face = DisplayCard(card_type="research", label="Scout of lands", metric="files", role="finder")
    uses = (FileUse(path="a", action="created"), FileUse(path="b", action="created"))
    done = ends(result=StepResult(summary="s", files=uses))
    shown = "\n".join(lines(view_of(starts(), done, faces={"scout": face})))
    for part in ("Scout of lands (scout)", "done · 1.0 s · 2 files · 0 tokens", " finder ─"):
        assert part in shown


@pytest.mark.parametrize("kind", ["research", "red", "", "\x1b[31m", "x" * 500])
def test_every_step_type_has_a_colour(kind: str) -> None:
    shown = "\n".join(lines(view_of(starts(), faces={"scout": DisplayCard(card_type=kind)})))
    assert "scout" in shown
    assert "\x1b" not in shown


def test_rounds_are_above_the_cards() -> None:
    shown = lines(view_of(starts(), tells("flow_loop_iteration", **ROUND)))
    assert shown[1].strip() == "↻ again: 2 of 5"
    forced = tells("flow_loop_iteration", **ROUND | {"forced": True})
    assert lines(view_of(starts(), forced))[1].strip() == "↻ again: 2 of 5, forced out"


def test_a_step_that_waits_for_the_person_is_marked() -> None:
    shown = "\n".join(lines(view_of(starts(), asks())))
    assert "1 waits for you" in shown
    assert "╭─ ? look" in shown


def test_the_newest_card_is_detailed_below() -> None:
    view = view_of(starts("other"), starts(), says("Let me see.", "read"), texts="It is\nfine.")
    shown = lines(view)
    assert shown[-6].startswith("╭─ look · scout ─")
    assert [line.strip("│ ") for line in shown[-5:-1]] == [
        "“ Let me see.",
        '→ read {"path": "a.md"}',
        "It is",
        "fine.",
    ]


def test_working_cards_come_before_ended_ones() -> None:
    view = view_of(starts("other", "ann"), says("x", path="task_1/other/1"), starts(), ends())
    assert view.newest is not None
    assert view.newest.step_id == "other"


SIZES = [(80, 24), (200, 50), (40, 12), (34, 8), (20, 6), (10, 4), (300, 10)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("count", [0, 1, 4, 30])
def test_the_view_fits_any_screen(width: int, height: int, count: int) -> None:
    """Long flows do not overflow the screen."""
    console = screen(width, height)
    view = crowd(count, says("word " * 500, "read", path="task_1/step-0/1"))
    shown = lines(view, console)
    assert len(shown) <= height - SPARE
    assert all(len(line.rstrip("\n")) <= width for line in shown)


def test_cards_become_lines_on_small_screens() -> None:
    console = screen(80, 12)
    view = crowd(30)
    assert not fits(view, console)
    shown = lines(view, console)
    assert shown[1].startswith("▸ step-0 at work")
    assert shown[-1].strip() == "… and 22 more"


HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "[red]markup[/red]",
    "[/",
    "日本語" * 100,
    "\u202eabc",
    "a\r\nb",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_agents_cannot_control_the_terminal(text: str) -> None:
    face = DisplayCard(label=text, role=text)
    view = view_of(starts(agent=text), says(text, text), texts=text, faces={text: face})
    shown = "\n".join(lines(view))
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown)
    assert ("[red]markup[/red]" in shown) == (text == HOSTILE[1])


@pytest.mark.parametrize(
    ("milliseconds", "message"),
    [
        (0, "0.0 s"),
        (4210, "4.2 s"),
        (60_000, "1 min 00 s"),
        (3_599_000, "59 min 59 s"),
        (7_500_000, "2 h 05 min"),
    ],
)
def test_durations_are_short_texts(milliseconds: int, message: str) -> None:
    assert span(milliseconds) == message


def test_a_view_without_cards_has_no_newest() -> None:
    none: Sequence[StepCard] = ()
    assert View("/demo", Cards(), none, 0).newest is None


@pytest.mark.parametrize("width", range(36, 130, 7))
def test_the_board_cuts_no_word_that_fits(width: int) -> None:
    """A line that does not fit ends between words; a margin stays free at the right."""
    text = "a summary of many ordinary words that no card has room for at any width"
    words, summary = text.split(), StepResult(summary=text)
    shown = lines(view_of(starts(), ends(result=summary)), screen(width))
    (line,) = [each for each in shown if "a summary" in each]
    lines_shown = line.split("│")[1].strip().removesuffix(" …").split()
    assert lines_shown == words[: len(lines_shown)]
    assert max(map(cell_len, shown)) < width
