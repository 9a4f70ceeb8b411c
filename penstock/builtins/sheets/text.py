"""The text of a csv file: its rows as they stand, changed where cells are."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from penstock.builtins.sheets.a1 import Area, Cell
from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.json_values.json_text import compact

MOST_BYTES = 16 * 1024 * 1024
_ENDS = ("\r\n", "\n", "\r")


class CsvText:
    """The rows of a csv file (RFC 4180, comma, UTF-8); what is not changed stays as it was."""

    __slots__ = ("_changed", "_end", "_raw", "rows")

    def __init__(self, content: bytes) -> None:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise tool_failure(
                "not_text", f"the file is not UTF-8: byte {error.start} is no part of it"
            ) from None
        lines = StringIO(text, newline="").readlines()
        self._end = (_end_of(lines[0]) if lines else "") or "\r\n"
        """How a row ends that is new."""
        self.rows: list[list[str]] = []
        """The texts of the cells."""
        self._raw: list[str] = []
        """The rows as they stand in the file, with their ends."""
        self._changed: set[int] = set()
        """The numbers of those that are written anew."""
        self._read(lines)

    @property
    def columns(self) -> int:
        """How many cells the longest row has."""
        return max(map(len, self.rows), default=0)

    def values(self, area: Area) -> list[list[str | None]]:
        """Return the texts in an area; None where the file has no cell."""
        return [
            [self._text(row, column) for column in range(area.first.column, area.last.column + 1)]
            for row in range(area.first.row, area.last.row + 1)
        ]

    def edit(self, assignments: Mapping[Cell, str]) -> bytes:
        """Return the file with other texts in some cells; it grows for those outside."""
        filled = [cell for cell, text in assignments.items() if text]
        self._grow(max((cell.row for cell in filled), default=0))
        for cell, text in assignments.items():
            if cell.row <= len(self.rows) and (text or cell.column <= len(self.rows[cell.row - 1])):
                self._set(cell, text)
        return encoded("".join(self._written()))

    def _read(self, lines: list[str]) -> None:
        reader, begin = csv.reader(lines, strict=True), 0
        try:
            for row in reader:
                self.rows.append(row)
                self._raw.append("".join(lines[begin : reader.line_num]))
                begin = reader.line_num
        except csv.Error as error:
            line = reader.line_num
            raise tool_failure("bad_format", f"the file is no csv: line {line}: {error}") from None

    def _text(self, row: int, column: int) -> str | None:
        if row > len(self.rows) or column > len(self.rows[row - 1]):
            return None
        return self.rows[row - 1][column - 1]

    def _grow(self, rows: int) -> None:
        columns = max(self.columns, 1)
        added = rows - len(self.rows)
        if added * columns > MOST_BYTES:
            raise too_large()
        for _ in range(added):
            self._changed.add(len(self.rows))
            self.rows.append([""] * columns)
            self._raw.append(self._end)

    def _set(self, cell: Cell, text: str) -> None:
        row = self.rows[cell.row - 1]
        row.extend([""] * (cell.column - len(row)))
        row[cell.column - 1] = text
        self._changed.add(cell.row - 1)

    def _written(self) -> Iterator[str]:
        last = len(self.rows) - 1
        for number, (row, raw) in enumerate(zip(self.rows, self._raw, strict=True)):
            end = _end_of(raw)
            yield line_of(row) + end if number in self._changed else raw
            if not end and number < last:
                yield self._end


def written(values: Sequence[Sequence[Any]]) -> bytes:
    """Return a new file with these values; short rows are filled up."""
    columns = max(map(len, values), default=0)
    texts = [[*map(text_of, row), *[""] * (columns - len(row))] for row in values]
    return encoded("".join(f"{line_of(row)}\r\n" for row in texts))


def line_of(row: Sequence[str]) -> str:
    """Return a row as it stands in a file, without its end."""
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(row)
    return line.getvalue().removesuffix("\r\n")


def text_of(value: Any) -> str:
    """Return a value as a cell has it."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else compact(value)
    if len(text) > (most := csv.field_size_limit()):
        raise tool_failure(
            "too_large", f"a cell has at most {most} characters, one would have more"
        )
    return text


def encoded(text: str) -> bytes:
    """Return the bytes of a file, unless they are too many."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise tool_failure(
            "not_text", "a cell would hold a lone surrogate, which is no text"
        ) from None
    if len(content) > MOST_BYTES:
        raise too_large()
    return content


def too_large() -> ToolFailed:
    """Return the failure of a file that may not be."""
    return tool_failure(
        "too_large", f"a csv file has at most {MOST_BYTES} bytes, this would have more"
    )


def _end_of(raw: str) -> str:
    return next((each for each in _ENDS if raw.endswith(each)), "")
