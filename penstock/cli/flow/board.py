"""The display of a run: cards that change in place at a terminal, lines anywhere else.

A card takes room on the screen while its step works. When the cards do not fit any more, the card
that ended first becomes a line above, so the screen always shows every working step. Drawing is
limited to ten times a second, because a model streams hundreds of pieces a second; a tick redraws
the times when nothing happens.

Proof: tests/cli/flow/test_board.py, tests/journeys/test_terminal.py.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.text import Text

from penstock.cli.flow.cards import CardOf, Cards, CardState, StepCard, no_card
from penstock.cli.flow.view import View, draw, fits
from penstock.cli.terminal.output import hanging
from penstock.cli.terminal.region import Region, fitted
from penstock.core.call import FINISH
from penstock.core.clock import Clock
from penstock.core.events.events import CallSettled, Record, TaskBlocked
from penstock.core.events.flow_events import FlowNotified, StepSettled, StepStarted
from penstock.core.task import blocked
from penstock.core.text import one_line
from penstock.engine import bus

GOOD, BAD, DIM, ODD = "green", "bold red", "dim", "yellow"
_SUMMARY = 120
Show = Callable[[Text], None]
"""Prints a line."""


class Lines:
    """Prints what happens in a run."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def show(self, record: Record, card: StepCard | None) -> None:
        """Print one event, if it matters to a person."""
        match record.event:
            case StepStarted() if card is not None:
                self._line(started_text(card))
            case CallSettled(tool_id=tool_id, envelope=envelope) if tool_id != FINISH:
                self._line(Text(f"    {tool_id}: {envelope.status.value}", DIM))
            case StepSettled() if card is not None:
                self.settled(card)
            case FlowNotified(kind="flow_loop_iteration", body=body):
                self._line(_round_text(body))
            case FlowNotified() as notice:
                self.notified(notice)
            case TaskBlocked(blocked_on=missing):
                self._line(Text(f"  ■ {blocked(missing)}", ODD))
            case _:
                pass

    def settled(self, card: StepCard) -> None:
        """Print the end of a visit of a step."""
        self._line(settled_text(card))

    def notified(self, notice: FlowNotified) -> None:
        """Print a notice of the flow: a decision, a skipped step, a warning."""
        body = notice.body
        match notice.kind:
            case "flow_auto_decision":
                text = f"  {body['agentName']} decided: {body['chosenBranch']}"
                self._line(Text(text, DIM))
            case "flow_step_skipped":
                self._line(Text(f"  · {body['stepId']} is skipped ({body['reason']})", DIM))
            case "flow_warning":
                self._line(Text(f"  ! {body['message']}", ODD))
            case _:
                pass

    def _line(self, text: Text) -> None:
        self._show(Text(hanging(text.plain), style=text.style))


def started_text(card: StepCard) -> Text:
    """Return the line for the start of a visit."""
    agent = f" by {card.agent}" if card.agent else ""
    return Text(f"▸ {card.step_id}{agent}{_again(card)}", "bold")


def settled_text(card: StepCard) -> Text:
    """Return the line for the end of a visit."""
    spent = f", {card.tokens} tokens" if card.tokens else ""
    tried = ", tried again" if card.state is CardState.RETRIED else ""
    is_good = card.state is CardState.DONE
    why = f" {card.source}:" if card.source and not is_good else ""
    seconds = card.milliseconds(card.ended or card.began) / 1000
    summary = fitted(one_line(card.summary or card.state.value), _SUMMARY)
    mark = "✓" if is_good else "✗"
    line = f"{mark} {card.step_id}{_again(card)} ({seconds:.1f} s{spent}{tried}){why} {summary}"
    return Text(line, GOOD if is_good else BAD)


def _again(card: StepCard) -> str:
    return f", visit {card.visit}" if card.visit > 1 else ""


def _round_text(body: Mapping[str, object]) -> Text:
    forced = ", forced out" if body["forced"] else ""
    line = f"  ↻ {body['stepId']}: round {body['iteration']} of {body['maxIterations']}{forced}"
    return Text(line, DIM)


TICK_SECONDS = 0.25
"""Time between two redraws while nothing happens, which keep the shown durations current."""
_MIN_SECONDS = 0.1
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
        """The present content of the board."""
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
        if self._clock.monotonic() - self._drawn >= _MIN_SECONDS:
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
