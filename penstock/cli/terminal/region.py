"""Lines at the bottom of what a command printed, redrawn in place, also after a resize.

How it works: the lines drawn last are erased by moving the cursor up over them. When the terminal
became narrower, it has wrapped them by then, so the rows are counted for the width that is there
now. The newest lines printed above are erased and printed again with them, wrapped between words
for the new width. rich.live counts the rows of the old width, and leaves the rest on the screen.

Relies on: the terminal wraps lines that are too long for a new width (xterm.js, VTE, kitty, iTerm,
tmux do). In one that cuts them off instead more rows are erased than were drawn: nothing remains of
the old drawing, and older lines above it may go. Rows that the wrapping pushed out of the screen
are in the terminal's history, where nothing can erase them.

Proof: tests/cli/terminal/test_region.py.
"""

from collections import deque
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleDimensions, RenderableType
from rich.segment import Segment, Segments
from rich.text import Text

_MORE = " …"
_ERASE = "\x1b[2K"
_UP = f"\x1b[A{_ERASE}"
_BELOW = "\x1b[J"
"""Rows are erased one by one before: tmux keeps what this clears in its history, if that is the
whole screen."""
_MOST_KEPT = 500
"""Lines above that may be on a screen."""


class Region:
    """The lines that a command redraws, and what it prints above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: Sequence[int] = ()
        """How wide each drawn line is, in columns."""
        self._above: deque[Text] = deque(maxlen=_MOST_KEPT)
        """What was printed since the region began, for a screen of another width."""
        self._size: ConsoleDimensions | None = None
        """Of the screen when something was printed last."""

    def draw(self, content: RenderableType) -> None:
        """Show this in place of what is shown now.

        The line below stays empty: there a terminal echoes ^C.
        """
        size = self._console.size
        options = self._console.options.update(width=size.width, height=None)
        lines = self._console.render_lines(content, options, pad=False)[: max(size.height - 1, 1)]
        self._show(size, Segments(each for line in lines for each in (*line, Segment.line())))
        self._drawn = [Segment.get_line_length(line) for line in lines]

    def print(self, text: Text) -> None:
        """Print a line above, and take the region away until it is drawn again."""
        self._show(self._console.size, text, "\n")
        self._above.append(text)

    def remove(self) -> None:
        """Take the region away; what others print now is left alone from here on."""
        self._show(self._console.size)
        self._above.clear()
        self._size = None

    def _show(self, size: ConsoleDimensions, *parts: RenderableType) -> None:
        """Erase what is shown and show this, in one piece so that nothing flickers."""
        rows, again = self._stale(size)
        with self._console.capture() as shown:
            for text in again:
                self._console.print(text)
            self._console.print(*parts, sep="", end="")
        erased = f"\r{_ERASE}{_UP * rows}{_BELOW}" if rows else ""
        self._console.file.write(f"{erased}{shown.get()}")
        self._console.file.flush()
        self._drawn, self._size = (), size

    def _stale(self, size: ConsoleDimensions) -> tuple[int, Sequence[Text]]:
        """Return how many rows are to be erased, and which lines above are among them."""
        before, rows = self._size, sum(_rows(each, size.width) for each in self._drawn)
        if before is None or size == before or not self._drawn:
            return rows, ()
        again: deque[Text] = deque()
        for text in reversed(self._above):
            lines = text.wrap(self._console, before.width)
            high = sum(_rows(each.cell_len, size.width) for each in lines)
            if rows + high >= size.height:
                break
            rows += high
            again.appendleft(text)
        return rows, again


def fitted(text: str, columns: int) -> str:
    """Return a line in so many columns: cut between words, or inside one that is too long alone."""
    if cell_len(text) <= columns:
        return text
    kept = set_cell_size(text, max(columns - len(_MORE), 1)).rstrip()
    if text[len(kept) : len(kept) + 1] not in {" ", ""}:
        head, blank, _ = kept.rpartition(" ")
        if not blank:
            return set_cell_size(text, max(columns - 1, 1)).rstrip() + _MORE.strip()
        kept = head.rstrip()
    return f"{kept}{_MORE}"


def _rows(width: int, screen: int) -> int:
    """Return how many rows of a screen a line takes."""
    return max(-(-width // screen), 1)
