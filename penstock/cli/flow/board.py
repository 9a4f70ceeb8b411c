"""The display of a run: cards that change in place at a terminal, lines anywhere else.

A card takes room on the screen while its step works. When the cards do not fit any more, the card
that ended first becomes a line above, so the screen always shows every working step. Drawing is
limited to ten times a second, because a model streams hundreds of pieces a second; a tick redraws
the times when nothing happens.

Proof: tests/cli/flow/test_board.py, tests/journeys/test_terminal.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from rich.console import Console

from penstock.cli.flow.cards import CardOf, Cards, StepCard, no_card
from penstock.cli.flow.lines import Lines
from penstock.cli.flow.view import View, draw, fits
from penstock.cli.terminal.region import Region
from penstock.core.clock import Clock
from penstock.core.events.events import Record
from penstock.core.events.flow_events import FlowNotified, StepStarted
from penstock.engine import bus

TICK_SECONDS = 0.25
"""Time between two redraws while nothing happens, which keep the shown durations current."""
_LEAST_SECONDS = 0.1
"""Minimum time between two redraws, however many events arrive."""


class LineBoard:
    """Prints a line for each event that matters to a person."""

    def __init__(self, console: Console) -> None:
        self._cards = Cards()
        # Rich wraps lines at words for a terminal; programs that read the lines need them whole.
        self._lines = Lines(partial(console.print, soft_wrap=not console.is_terminal))

    def __enter__(self) -> Self:
        """Start to show."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the printed lines."""

    def take(self, item: bus.Live) -> None:
        """Print an event."""
        card = self._cards.take(item)
        if isinstance(item, Record):
            self._lines.show(item, card)

    def tick(self) -> None:
        """Do nothing: lines show no running time."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let other code print; lines need no care."""
        yield


class CardBoard:
    """Shows cards that change in place. Ended cards become lines above when room is needed."""

    def __init__(
        self, console: Console, clock: Clock, *, title: str, card_of: CardOf = no_card
    ) -> None:
        self._console = console
        self._clock = clock
        self._title = title
        self._cards = Cards(card_of)
        self._region = Region(console)
        self._lines = Lines(self._region.print)
        self._shown: list[StepCard] = []
        self._is_live = False
        self._drawn = 0.0

    @property
    def view(self) -> View:
        """What the board shows now."""
        return View(self._title, self._cards, self._shown, self._clock.now())

    def __enter__(self) -> Self:
        """Start to show."""
        self._is_live = True
        self._console.show_cursor(show=False)
        self.tick()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the board; ended cards stay as lines."""
        self._is_live = False
        while self._fold():
            pass
        self._region.remove()
        self._console.show_cursor()

    def take(self, item: bus.Live) -> None:
        """Update the cards; the change is drawn now or with a later tick."""
        card = self._cards.take(item)
        if isinstance(item, Record):
            if card is not None and isinstance(item.event, StepStarted):
                self._shown.append(card)
            if card is not None and card.is_over and not card.agent:
                self._settle(card)
            if isinstance(item.event, FlowNotified):
                self._lines.notified(item.event)
        if self._clock.monotonic() - self._drawn >= _LEAST_SECONDS:
            self.tick()

    def tick(self) -> None:
        """Redraw the board."""
        while not fits(self.view, self._console) and self._fold():
            pass
        if self._is_live:
            self._drawn = self._clock.monotonic()
            self._region.draw(draw(self.view, self._console))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Remove the board until the block ends, if it is shown."""
        if not self._is_live:
            yield
            return
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _fold(self) -> bool:
        """Turn the card that ended first into a line; False if all cards still work."""
        ended = [each for each in self._shown if each.is_over]
        if not ended:
            return False
        first = min(ended, key=lambda each: each.ended or 0)
        self._settle(first)
        return True

    def _settle(self, card: StepCard) -> None:
        """Turn a shown card into a line."""
        if any(each is card for each in self._shown):
            self._shown = [each for each in self._shown if each is not card]
            self._lines.settled(card)


RunBoard = CardBoard | LineBoard
"""Other output while the display is active must be printed inside `aside`."""


def board_for(console: Console, clock: Clock, *, title: str, card_of: CardOf = no_card) -> RunBoard:
    """Return cards if the console is a terminal that can move its cursor, else lines."""
    if console.is_terminal and not console.is_dumb_terminal and not console.quiet:
        return CardBoard(console, clock, title=title, card_of=card_of)
    return LineBoard(console)
