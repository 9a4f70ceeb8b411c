"""The screen of a terminal as a person sees it, also after a resize."""

import re

_PIECES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n]|[^\x1b\r\n]+")


class TerminalScreen:
    """A screen that wraps lines when it becomes narrower, or that cuts them off."""

    def __init__(self, width: int, height: int, *, wraps: bool = True) -> None:
        self.width, self.height = width, height
        self.history: list[str] = []
        """Rows that have scrolled out at the top."""
        self.rows = [""]
        self._wraps = wraps
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        """Apply the output of a program. A line of the full width has its own line end."""
        for piece in _PIECES.findall(text):
            if piece == "\r":
                self._column = 0
            elif piece == "\n":
                self._column = 0
                self._down()
            elif piece.startswith("\x1b"):
                self._steer(piece)
            else:
                self._put(piece)

    def resize(self, width: int, height: int) -> None:
        """Change the size; the cursor stays with its text."""
        if self._wraps:
            wrapped: list[str] = []
            for number, row in enumerate(self.rows):
                if number == self._row:
                    self._row = len(wrapped)
                wrapped += [row[at : at + width] for at in range(0, len(row), width)] or [""]
            self.rows = wrapped
        else:
            self.rows = [row[:width] for row in self.rows]
        self.width, self.height = width, height
        self._scroll()

    @property
    def seen(self) -> list[str]:
        """The visible rows, up to the last one with text."""
        return "\n".join(row.rstrip() for row in self.rows).rstrip().split("\n")

    def _put(self, text: str) -> None:
        for start in range(0, len(text), self.width):
            if start:
                self._down()
                self._column = 0
            part, row = text[start : start + self.width], self.rows[self._row]
            before = row[: self._column].ljust(self._column)
            self.rows[self._row] = before + part + row[self._column + len(part) :]
            self._column += len(part)

    def _steer(self, piece: str) -> None:
        if piece.endswith("A"):
            self._row = max(self._row - int(piece[2:-1] or 1), 0)
        elif piece == "\x1b[2K":
            self.rows[self._row] = ""
        elif piece == "\x1b[J":
            self.rows[self._row] = self.rows[self._row][: self._column]
            del self.rows[self._row + 1 :]

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")
        self._scroll()

    def _scroll(self) -> None:
        while len(self.rows) > self.height:
            self.history.append(self.rows.pop(0))
            self._row = max(self._row - 1, 0)
