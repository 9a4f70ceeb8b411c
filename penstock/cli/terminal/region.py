"""Lines at the bottom of a command's output that are redrawn in place, also after a resize.

How it works: to erase the last drawing, the cursor moves up over its rows. A terminal that became
narrower has wrapped those lines meanwhile, so the rows are counted for the current width. The
newest lines above the region are erased and printed again, wrapped at words for the new width.
rich.live counts rows of the old width, and leaves the rest on the screen.

Relies on: the terminal wraps lines that are too long for a new width (xterm.js, VTE, kitty, iTerm,
tmux do). In a terminal that cuts them off, more rows are erased than were drawn: the old drawing
disappears completely, and older lines above it may disappear too. Rows that wrapping pushed out of
the screen are in the terminal's history, where they cannot be erased.

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
"""Clears the rows below the cursor. Rows are erased one by one first, because tmux copies what this
sequence clears into its history if that is the whole screen."""
_MAX_LINES = 500
"""Lines above the region that are kept for printing again: more than fit on a screen."""


class Region:
    """The lines that a command redraws, and the lines that it prints above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: Sequence[int] = ()
        """The width of each drawn line, in columns."""
        self._above: deque[Text] = deque(maxlen=_MAX_LINES)
        """Lines printed above the region, to print them again after a resize."""
        self._size: ConsoleDimensions | None = None
        """The size of the screen at the last output."""

    def draw(self, content: RenderableType) -> None:
        """Replace the drawing with this content.

        The row below stays empty, because a terminal echoes ^C there.
        """
        size = self._console.size
        options = self._console.options.update(width=size.width, height=None)
        lines = self._console.render_lines(content, options, pad=False)[: max(size.height - 1, 1)]
        self._show(size, Segments(each for line in lines for each in (*line, Segment.line())))
        self._drawn = [Segment.get_line_length(line) for line in lines]

    def print(self, text: Text) -> None:
        """Print a line above, and remove the region until the next `draw`."""
        self._show(self._console.size, text, "\n")
        self._above.append(text)

    def remove(self) -> None:
        """Remove the region. Lines that other code prints from now on are not erased."""
        self._show(self._console.size)
        self._above.clear()
        self._size = None

    def _show(self, size: ConsoleDimensions, *parts: RenderableType) -> None:
        """Erase the drawing and print these parts, in one write so that nothing flickers."""
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
        """Return the number of rows to erase, and the lines above that must be printed again."""
        before, rows = self._size, sum(_rows(each, size.width) for each in self._drawn)
        if before is None or size == before or not self._drawn:
            return rows, ()
        again: deque[Text] = deque()
        for text in reversed(self._above):
            lines = text.wrap(self._console, before.width)
            height = sum(_rows(each.cell_len, size.width) for each in lines)
            if rows + height >= size.height:
                break  # the cursor cannot move above the top of the screen
            rows += height
            again.appendleft(text)
        return rows, again


def fitted(text: str, columns: int) -> str:
    """Shorten a line to a number of columns, between words if possible."""
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
    """Return how many rows a line takes on a screen of this width."""
    return max(-(-width // screen), 1)
