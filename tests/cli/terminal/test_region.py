"""Lines that are redrawn in place, on a screen whose size changes meanwhile."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, ConsoleDimensions
from rich.text import Text

from penstock.cli.terminal.region import Region, fitted
from tests.kit.screen import TerminalScreen

WORDS = "one two three four five six seven eight nine ten eleven twelve"
SIZES = [(40, 20), (39, 20), (70, 20), (20, 20), (40, 12), (90, 30), (25, 12)]


class Shown:
    """A region on a screen, with a line of another writer above it."""

    def __init__(self, width: int = 60, height: int = 20, *, wraps: bool = True) -> None:
        self.out = StringIO()
        self.console = Console(file=self.out, force_terminal=True, highlight=False)
        self.console.size = ConsoleDimensions(width, height)
        self.screen = TerminalScreen(width, height, wraps=wraps)
        self.screen.feed("$ penstock flow run\r\n")
        self.region = Region(self.console)

    def draw(self, *lines: str) -> list[str]:
        self.region.draw(Text("\n".join(lines), no_wrap=True, overflow="crop"))
        return self._seen()

    def print(self, line: str) -> list[str]:
        self.region.print(Text(line))
        return self._seen()

    def resize(self, width: int, height: int) -> None:
        self.screen.resize(width, height)
        self.console.size = ConsoleDimensions(width, height)

    def _seen(self) -> list[str]:
        self.screen.feed(self.out.getvalue())
        self.out.seek(0)
        self.out.truncate()
        return self.screen.seen


def board(number: int, shown: Shown) -> list[str]:
    """Return three lines of the full width, which say when they were drawn."""
    return [f"{number}{each * (shown.console.size.width - 1)}" for each in "abc"]


def test_a_drawing_replaces_the_previous_one() -> None:
    shown = Shown()
    shown.draw("1 a", "1 b", "1 c")
    assert shown.draw("2 a") == ["$ penstock flow run", "2 a"]
    assert shown.print("done") == ["$ penstock flow run", "done"]
    assert shown.draw("3 a", "3 b") == ["$ penstock flow run", "done", "3 a", "3 b"]
    shown.region.remove()
    assert shown.print("end") == ["$ penstock flow run", "done", "end"]


@pytest.mark.parametrize("size", SIZES)
def test_a_resize_leaves_no_rest_and_loses_no_line_above(
    size: tuple[int, int],
) -> None:
    shown = Shown()
    shown.print(WORDS)
    shown.draw(*board(1, shown))
    shown.resize(*size)
    lines = board(2, shown)
    seen = shown.draw(*lines)
    assert seen[-3:] == lines
    above = "".join([*shown.screen.history, *seen[:-3]]).replace(" ", "")
    assert above.endswith(WORDS.replace(" ", ""))
    assert not any(line.startswith("1") for line in [*seen, *shown.screen.history])


@pytest.mark.parametrize("size", SIZES)
def test_no_rest_remains_on_a_screen_that_cuts_lines(size: tuple[int, int]) -> None:
    shown = Shown(wraps=False)
    shown.print(WORDS)
    shown.draw(*board(1, shown))
    shown.resize(*size)
    lines = board(2, shown)
    seen = shown.draw(*lines)
    assert seen[-3:] == lines
    assert not any(line.startswith("1") for line in seen)


def test_lines_above_break_between_words_at_every_width() -> None:
    shown = Shown()
    shown.print(WORDS)
    shown.draw("x")
    for width in (30, 50, 21, 60):
        shown.resize(width, 20)
        seen = shown.draw("x")
        assert " ".join(seen[1:-1]) == WORDS


def test_lines_printed_by_others_stay() -> None:
    shown = Shown()
    shown.print("before")
    shown.region.remove()
    shown.screen.feed("? Which colour?\r\nblue\r\n")
    shown.resize(30, 20)
    shown.draw("x")
    assert shown.draw("y")[1:] == ["before", "? Which colour?", "blue", "y"]


def test_a_region_is_never_higher_than_the_screen() -> None:
    shown = Shown(60, 5)
    for number in range(3):
        shown.draw(*[f"{number} {line}" for line in range(30)])
    assert shown.screen.seen == [f"2 {line}" for line in range(4)]
    assert not any("0 " in line or "1 " in line for line in shown.screen.history)


@given(
    sizes=st.lists(st.tuples(st.integers(10, 120), st.integers(6, 40)), min_size=1, max_size=6),
    wraps=st.booleans(),
)
def test_after_any_resizes_the_screen_shows_the_last_drawing(
    sizes: list[tuple[int, int]], *, wraps: bool
) -> None:
    shown = Shown(wraps=wraps)
    for number, size in enumerate(sizes):
        shown.print(f"line {number}")
        shown.draw(*board(number, shown))
        shown.resize(*size)
    last = [line[: shown.console.size.width] for line in board(7, shown)]
    seen = shown.draw(*last)
    assert seen[-3:] == last
    assert not any(line[1:4] in {"aaa", "bbb", "ccc"} for line in seen[:-3])


@pytest.mark.parametrize(
    ("text", "columns", "line"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two …"),
        ("one two three", 9, "one two …"),
        ("one two three", 8, "one …"),
        ("one two three", 5, "one …"),
        ("one two three", 4, "one…"),
        ("three", 4, "thr…"),
        ("", 4, ""),
        ("日本 日本語", 9, "日本 …"),
    ],
)
def test_a_line_is_cut_between_words(text: str, columns: int, line: str) -> None:
    assert fitted(text, columns) == line
