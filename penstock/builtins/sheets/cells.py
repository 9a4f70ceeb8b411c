"""Names of cells and ranges (A1), schemas of their values, and how many one call handles."""

import re
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.envelope import Json
from penstock.tools.python.builtin import fields_of, list_of

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
"""`XFD`."""
_CELL = re.compile(r"\$?([A-Za-z]{1,3})\$?([1-9][0-9]{0,6})")
_SHEET = re.compile(r"(?:'((?:[^']|'')+)'|([^'!:\s]+))!(.+)")


class Cell(Struct, frozen=True, order=True):
    """A cell of a sheet; row and column count from 1."""

    row: int
    column: int

    def __str__(self) -> str:
        """Return it as `B2`."""
        return f"{letters(self.column)}{self.row}"


class Area(Struct, frozen=True):
    """A rectangle of cells, optionally with the name of its sheet."""

    first: Cell
    last: Cell
    sheet: str | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.last.row - self.first.row + 1

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.last.column - self.first.column + 1

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    def __str__(self) -> str:
        """Return it as `A1:C5`, and as `A1` for one cell; the sheet is not named."""
        return str(self.first) if self.first == self.last else f"{self.first}:{self.last}"


def read_cell(text: str) -> Cell:
    """Return the cell of a name such as `B2`. Raises ToolFailed `bad_range`."""
    match = _CELL.fullmatch(text)
    if match is None:
        raise _bad(text, "a cell such as B2")
    cell = Cell(int(match[2]), number(match[1]))
    if cell.row > MAX_ROWS or cell.column > MAX_COLUMNS:
        raise _bad(text, f"a cell from A1 to {Cell(MAX_ROWS, MAX_COLUMNS)}")
    return cell


def read_area(text: str) -> Area:
    """Return the cells of a range such as `'My sheet'!A1:C5`; reversed corners are swapped."""
    sheet, cells = None, text.strip()
    if match := _SHEET.fullmatch(cells):
        sheet, cells = (match[1] or match[2]).replace("''", "'"), match[3]
    names = cells.split(":")
    if len(names) > 2:  # noqa: PLR2004  two corners
        raise _bad(text, "a range such as A1:C5")
    corners = [read_cell(each) for each in names]
    rows, columns = [each.row for each in corners], [each.column for each in corners]
    return Area(Cell(min(rows), min(columns)), Cell(max(rows), max(columns)), sheet)


def whole_area(rows: int, columns: int) -> Area | None:
    """Return the rectangle of so many rows and columns from A1; None if it has no cells."""
    return Area(Cell(1, 1), Cell(rows, columns)) if rows and columns else None


def letters(column: int) -> str:
    """Return the name of a column, such as `AB` of 28."""
    name = ""
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def number(name: str) -> int:
    """Return the number of a column, such as 28 of `AB`."""
    value = 0
    for letter in name.upper():
        value = 26 * value + ord(letter) - ord("A") + 1
    return value


def read_column(text: str) -> int:
    """Return the number of a column that is named alone. Raises ToolFailed `bad_range`."""
    if not re.fullmatch("[A-Za-z]{1,3}", text) or number(text) > MAX_COLUMNS:
        raise _bad(text, "a column from A to XFD")
    return number(text)


def _bad(text: str, expected: str) -> ToolFailed:
    return tool_failure("bad_range", f"expected {expected}, found {text!r:.100}")


MAX_BYTES = 16 * 1024 * 1024
"""Largest workbook that is read."""
PREVIEW_ROWS, PREVIEW_COLUMNS = 10, 20
MAX_READ = 50_000
MAX_CREATED = 100_000
VALUE: Json = {"type": ["string", "number", "boolean", "null"]}
VALUES: Json = {"type": "array", "items": {"type": "array", "items": VALUE}}


def assignments_of(cell: Json) -> Json:
    """Return the schema of a list of values, each with the cell that it goes into."""
    return list_of(fields_of({"cell": cell, "value?": VALUE}), most=10_000)


def check_size(area: Area) -> None:
    """Raise ToolFailed if an area has too many cells for one call."""
    if area.size > MAX_READ:
        raise tool_failure(
            "too_large", f"at most {MAX_READ} cells are read at once, {area} has {area.size}"
        )


def check_values(values: list[list[Any]], *, max_columns: int | None = None) -> None:
    """Raise ToolFailed if a new file would have too many cells."""
    columns = max(map(len, values), default=0)
    cells = len(values) * columns
    if cells > MAX_CREATED or columns > (max_columns or columns):
        raise tool_failure(
            "too_large", f"a new file has at most {MAX_CREATED} cells, this has {cells}"
        )
