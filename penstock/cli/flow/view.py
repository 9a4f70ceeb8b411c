"""Draws the cards of a run for a screen of a given size."""

from collections.abc import Sequence
from zlib import crc32

from msgspec import Struct
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.agents.agent_profile import DisplayCard
from penstock.cli.flow.cards import Cards, CardState, StepCard
from penstock.cli.terminal.output import clean
from penstock.cli.terminal.region import fitted
from penstock.core.text import one_line

CARD_HEIGHT = 5
MIN_WIDTH = 34
MAX_WIDTH = 56
MIN_DETAIL, MAX_DETAIL = 5, 11
MARGIN_SHARE = 12
"""One of this many columns stays free at the right; see `_width`."""
FRAME = 4
"""Columns that the frame of a card takes."""
MIN_FIGURES = 8
"""Minimum columns after the title for figures to be shown."""
SPARE = 2
"""Free lines below the board: one for text that the terminal echoes, one for the cursor."""
MAX_DETAIL_WIDTH = 2 * MAX_WIDTH
_COLOURS = ("cyan", "magenta", "blue", "bright_cyan", "bright_magenta", "bright_blue")
_NAMED = frozenset({"red", "green", "yellow", "blue", "magenta", "cyan", "white"})
_STYLES = {
    CardState.WAITING: "bold yellow",
    CardState.DONE: "green",
    CardState.FAILED: "bold red",
    CardState.BLOCKED: "red",
    CardState.RETRIED: "yellow",
    CardState.ABORTED: "red",
}
_MARKS = {CardState.WORKING: "▸", CardState.WAITING: "?", CardState.DONE: "✓"}
_SAID_LINES = 4
_MINUTE, _HOUR = 60, 3600


class View(Struct, frozen=True):
    """The content of the board at one moment: its cards, and the time."""

    title: str
    cards: Cards
    shown: Sequence[StepCard]
    now: int

    @property
    def newest(self) -> StepCard | None:
        """The card that was active last; working cards come before ended ones."""
        working = [each for each in self.shown if not each.is_over]
        return max(working or self.shown, key=lambda each: each.touched, default=None)


def fits(view: View, console: Console) -> bool:
    """Whether the screen has room for every card and for the details of one."""
    return _free_lines(view, console) >= MIN_DETAIL


def draw(view: View, console: Console) -> RenderableType:
    """Return the board. It leaves `SPARE` lines of the screen free."""
    width = _width(console)
    parts: list[RenderableType] = [_header(view, width)]
    if rounds := _rounds(view.cards, width):
        parts.append(rounds)
    if not fits(view, console):
        return Group(*parts, *_crowd(view, console.height - len(parts) - SPARE, width))
    if view.shown:
        parts.append(_grid(view, width))
    if (card := view.newest) is not None and (lines := _doings(card, console)):
        height = min(_free_lines(view, console), MAX_DETAIL, len(lines) + 2)
        parts.append(_detail(card, lines[2 - height :], console))
    return Group(*parts)


def _free_lines(view: View, console: Console) -> int:
    rows = -(-len(view.shown) // _columns(view, _width(console)))
    return console.height - 1 - SPARE - bool(view.cards.rounds) - rows * CARD_HEIGHT


def _columns(view: View, width: int) -> int:
    return max(min(len(view.shown), width // MIN_WIDTH), 1)


def _header(view: View, width: int) -> Text:
    cards = view.cards
    began = view.now if cards.began is None else cards.began
    at_work = sum(each.state is CardState.WORKING for each in view.shown)
    waiting = sum(each.state is CardState.WAITING for each in view.shown)
    figures = [span(view.now - began), f"{cards.settled} done", f"{at_work} at work"]
    figures += [f"{waiting} waits for you"] * bool(waiting)
    figures.append(f"{cards.tokens:,} tokens")
    line, title = " · ".join(figures), fitted(clean(one_line(view.title)), width)
    header = Text(title, "bold", no_wrap=True)
    left = width - header.cell_len - 2
    return header.append(f"  {fitted(line, left)}", "dim") if left > MIN_FIGURES else header


def _rounds(cards: Cards, width: int) -> Text | None:
    """Return the line with the rounds of loops."""
    rounds = [
        f"↻ {round_card.step_id}: {round_card.iteration} of {round_card.most}"
        f"{', forced out' if round_card.is_forced else ''}"
        for round_card in cards.rounds.values()
    ]
    return _line("   ".join(rounds), width, "yellow") if rounds else None


def _grid(view: View, width: int) -> Table:
    columns = _columns(view, width)
    each_width = min(width // columns, MAX_WIDTH)
    grid = Table.grid()
    for _ in range(columns):
        grid.add_column(width=each_width)
    for start in range(0, len(view.shown), columns):
        row = view.shown[start : start + columns]
        grid.add_row(*(_panel(each, view.now, each_width) for each in row))
    return grid


def _panel(card: StepCard, now: int, width: int) -> Panel:
    again = f" {card.visit}" if card.visit > 1 else ""
    style = _STYLES.get(card.state) or _colour(card.face)
    last, room = card.summary if card.is_over else card.tool, width - FRAME
    lines = [
        _line(_who(card), room),
        _line(_figures(card, now), room, "dim"),
        _line(last or "…", room, "" if card.is_over else "italic"),
    ]
    role = _short(card.face.role or card.face.card_type, width // 2 - 4)
    return Panel(
        Group(*lines),
        title=Text(f"{_MARKS.get(card.state, '✗')} {_short(card.step_id, width - 10)}{again}"),
        title_align="left",
        subtitle=Text(role) if role else None,
        subtitle_align="right",
        border_style=style,
        box=box.ROUNDED,
        width=width,
        height=CARD_HEIGHT,
    )


def _who(card: StepCard) -> str:
    label, agent = card.face.label, card.agent
    if not label or label.lower() == agent.lower():
        return label or agent
    return f"{label} ({agent})"


def _figures(card: StepCard, now: int) -> str:
    measures = {
        "calls": _counted(card.calls, "call"),
        "turns": _counted(card.turns, "turn"),
        "files": _counted(card.files, "file"),
    }
    tokens = f"{card.tokens:,} tokens"
    figures = [card.state.value, span(card.milliseconds(now)), tokens]
    if (more := measures.get(card.face.metric)) is not None:
        figures.insert(2, more)
    return " · ".join(figures)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _crowd(view: View, room: int, width: int) -> list[Text]:
    """Return one line for each card, as many as fit."""
    most = max(room, 1)
    texts = [f"{each.step_id}  {_figures(each, view.now)}  {each.tool}" for each in view.shown]
    marks = [_MARKS.get(each.state, "✗") for each in view.shown]
    lines = [_line(f"{mark} {text}", width) for mark, text in zip(marks, texts, strict=True)]
    left = len(lines) - most + 1
    return (
        lines
        if len(lines) <= most
        else [*lines[: most - 1], _line(f"… and {left} more", width, "dim")]
    )


def _doings(card: StepCard, console: Console) -> list[Text]:
    """Return the last activities of a card: text of its agent and calls of tools."""
    room = _detail_width(console) - FRAME
    lines = [_line(f"{each.mark} {each.text}", room, "dim") for each in card.activities]
    if card.saying.strip():
        wrapped = Text(clean(card.saying.strip())).wrap(console, room)
        lines += list(wrapped)[-_SAID_LINES:]
    return lines


def _detail(card: StepCard, lines: Sequence[Text], console: Console) -> Panel:
    width = _detail_width(console)
    who = f" · {card.agent}" if card.agent else ""
    return Panel(
        Group(*lines),
        title=Text(_short(f"{card.step_id}{who}", width - 8)),
        title_align="left",
        border_style="dim",
        box=box.ROUNDED,
        width=width,
        height=len(lines) + 2,
    )


def _detail_width(console: Console) -> int:
    return min(_width(console), MAX_DETAIL_WIDTH)


def _width(console: Console) -> int:
    """Return the width of the board. A margin keeps lines from wrapping in a small resize.

    A line that wraps makes the board higher before it is redrawn, and rows that are pushed out of
    the screen stay in the terminal's history.
    """
    return max(console.width - max(console.width // MARGIN_SHARE, 2), 1)


def _colour(face: DisplayCard) -> str:
    """Return the colour of a working card, derived from its type."""
    kind = face.card_type.lower()
    return kind if kind in _NAMED else _COLOURS[crc32(kind.encode()) % len(_COLOURS)]


def _line(text: str, width: int, style: str = "") -> Text:
    return Text(fitted(clean(one_line(text)), width), style, no_wrap=True, overflow="ellipsis")


def _short(text: str, most: int) -> str:
    return fitted(clean(one_line(text)), max(most, 4))


def span(milliseconds: int) -> str:
    """Return a duration as text for people."""
    seconds = milliseconds / 1000
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds) // _MINUTE} min {int(seconds) % _MINUTE:02d} s"
    return f"{int(seconds) // _HOUR} h {int(seconds) % _HOUR // _MINUTE:02d} min"
