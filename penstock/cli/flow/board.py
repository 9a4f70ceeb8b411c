"""The board of a run: cards that change in place at a terminal, lines anywhere else."""

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
"""How often the board is drawn anew while nothing happens: the time goes on."""
_LEAST_SECONDS = 0.1
"""Between two drawings, however much happens."""


class LineBoard:
    """A line for each thing that a person wants to know."""

    def __init__(self, console: Console) -> None:
        self._cards = Cards()
        # Between words at a terminal; a line stays a line for programs.
        self._lines = Lines(partial(console.print, soft_wrap=not console.is_terminal))

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave everything as it is."""

    def take(self, item: bus.Live) -> None:
        """Print what happened."""
        card = self._cards.take(item)
        if isinstance(item, Record):
            self._lines.show(item, card)

    def tick(self) -> None:
        """Do nothing: lines have no clock."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let others print: lines stay where they are."""
        yield


class CardBoard:
    """Cards that change in place; those that are over become lines above, when room is wanted."""

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
        """What is to be seen now."""
        return View(self._title, self._cards, self._shown, self._clock.now())

    def __enter__(self) -> Self:
        """Begin to show."""
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
        """Take the board away; what is over stays as lines."""
        self._is_live = False
        while self._fold():
            pass
        self._region.remove()
        self._console.show_cursor()

    def take(self, item: bus.Live) -> None:
        """Take in what happened; it is seen within a moment."""
        card = self._cards.take(item)
        if isinstance(item, Record):
            if card is not None and isinstance(item.event, StepStarted):
                self._shown.append(card)
            if card is not None and card.is_over and not card.agent:
                self._settle(card)
            if isinstance(item.event, FlowNotified):
                self._lines.told(item.event)
        if self._clock.monotonic() - self._drawn >= _LEAST_SECONDS:
            self.tick()

    def tick(self) -> None:
        """Draw the board anew."""
        while not fits(self.view, self._console) and self._fold():
            pass
        if self._is_live:
            self._drawn = self._clock.monotonic()
            self._region.draw(draw(self.view, self._console))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the board away until the block ends, if it is there."""
        if not self._is_live:
            yield
            return
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _fold(self) -> bool:
        """Make a line of the card that was over first; False when all are at work."""
        over = [each for each in self._shown if each.is_over]
        if not over:
            return False
        first = min(over, key=lambda each: each.ended or 0)
        self._settle(first)
        return True

    def _settle(self, card: StepCard) -> None:
        """Make a line of a card that is on the board."""
        if any(each is card for each in self._shown):
            self._shown = [each for each in self._shown if each is not card]
            self._lines.settled(card)


RunBoard = CardBoard | LineBoard
"""What is printed beside it while it is shown, is printed inside `aside`."""


def board_for(console: Console, clock: Clock, *, title: str, card_of: CardOf = no_card) -> RunBoard:
    """Return cards for a person at a terminal that can move its cursor, else lines."""
    if console.is_terminal and not console.is_dumb_terminal and not console.quiet:
        return CardBoard(console, clock, title=title, card_of=card_of)
    return LineBoard(console)
