"""A workbook in memory: its sheets, the values of its cells, and its bytes."""

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from io import BytesIO
from typing import Any

from openpyxl import Workbook, load_workbook
from openpyxl.cell.cell import Cell as BookCell
from openpyxl.cell.cell import MergedCell
from openpyxl.utils.exceptions import IllegalCharacterError
from openpyxl.worksheet.formula import ArrayFormula
from openpyxl.worksheet.worksheet import Worksheet

from penstock.builtins.sheets.cells import Area, Cell, whole_area
from penstock.builtins.sheets.package import bad_format, take_census
from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.diagnostics import did_you_mean
from penstock.core.json_values.schema import SAFE_INTEGER

MAX_TEXT_LENGTH = 32_767
"""Characters of a cell."""
_BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError),
    *(SyntaxError, TypeError, ValueError),
)
"""The errors that openpyxl raises for malformed files."""


class ExcelFile:
    """One workbook, for reading and changing."""

    def __init__(self, content: bytes) -> None:
        census = take_census(content)
        self._content = content
        self._has_formulas = census.formulas > 0
        self._book = _loaded(content)

    @property
    def sheets(self) -> list[Worksheet]:
        """The sheets that have cells, in their order."""
        return list(self._book.worksheets)

    def sheet(self, name: str | None) -> Worksheet:
        """Return a sheet; None is the first one. Raises ToolFailed `no_such_sheet`."""
        names = [each.title for each in self.sheets]
        if name is None and names:
            return self.sheets[0]
        if name not in names:
            hint = did_you_mean(name or "", names)
            raise tool_failure("no_such_sheet", f"the workbook has no sheet {name!r}.{hint}")
        return self.sheets[names.index(name)]

    def values(self, areas: Iterable[tuple[str, Area]]) -> list[list[list[Any]]]:
        """Return the values in areas of sheets; for a formula its last value, or else its text."""
        known = _loaded(self._content, data_only=True) if self._has_formulas else self._book
        return [
            [
                [value_of(last, text) for last, text in zip(lasts, texts, strict=True)]
                for lasts, texts in zip(
                    _rows(known[name], area), _rows(self._book[name], area), strict=True
                )
            ]
            for name, area in areas
        ]

    def shown(self, sheet: Worksheet, rows: int, columns: int) -> Area | None:
        """Return the area of the first rows and columns, at most so many."""
        wide, high = sizes_of(sheet)
        return whole_area(min(high, rows), min(wide, columns))

    def save(self) -> bytes:
        """Return the workbook as a file."""
        return _saved(self._book)

    def reopened(self) -> "ExcelFile":
        """Save and load the workbook: changes that openpyxl makes only then become visible."""
        return ExcelFile(self.save())


def new_book(sheet: str, values: list[list[Any]]) -> bytes:
    """Return a new workbook with one sheet."""
    book = Workbook()
    page = book.worksheets[0]
    page.title = sheet
    for number, row in enumerate(values, start=1):
        for column, value in enumerate(row, start=1):
            if value is not None:
                put(page, Cell(number, column), value)
    return _saved(book)


def put(sheet: Worksheet, cell: Cell, value: Any) -> None:
    """Write a value; None clears. The style stays."""
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise tool_failure(
            "too_large",
            f"{cell} would have {len(value)} characters; at most {MAX_TEXT_LENGTH} are allowed",
        )
    target = sheet.cell(cell.row, cell.column)
    if isinstance(target, MergedCell):
        raise tool_failure("merge_overlap", f"{cell} is covered by merged cells of {sheet.title!r}")
    try:
        target.value = value
    except (IllegalCharacterError, UnicodeEncodeError):
        raise tool_failure(
            "not_text", f"{cell} would contain characters that a workbook cannot store"
        ) from None


def at(sheet: Worksheet, cell: Cell) -> BookCell | MergedCell:
    """Return a cell, for a change of its style."""
    return sheet.cell(cell.row, cell.column)


def cells_of(sheet: Worksheet) -> Mapping[tuple[int, int], BookCell | MergedCell]:
    """Return the existing cells by row and column, without creating any."""
    cells: Mapping[tuple[int, int], BookCell | MergedCell] = sheet._cells  # noqa: SLF001  every public way creates the missing cells: billions, in a sparse sheet
    return cells


def used_columns(sheet: Worksheet, row: int) -> set[int]:
    """Return the columns that have a cell in a row."""
    cells = cells_of(sheet)
    return {each for each in range(1, sheet.max_column + 1) if (row, each) in cells}


def used_rows(sheet: Worksheet, column: int) -> set[int]:
    """Return the rows that have a cell in a column."""
    return {each[0] for each in cells_of(sheet) if each[1] == column}


def sizes_of(sheet: Worksheet) -> tuple[int, int]:
    """Return how many columns and rows are used."""
    is_empty = sheet.max_row == 1 and sheet.max_column == 1 and sheet["A1"].value is None
    return (0, 0) if is_empty else (sheet.max_column, sheet.max_row)


def value_of(last: Any, text: Any) -> Any:
    """Return the value of a cell as JSON."""
    value = text if last is None else last
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    match value:
        case bool() | str() | None:
            return value
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
        case ArrayFormula():
            return value.text
        case _:
            return str(value)


def _number(value: float) -> Any:
    """Return a number as JSON, or as text if JSON has none."""
    if isinstance(value, int) and abs(value) <= SAFE_INTEGER:
        return value
    try:
        return float(value) if math.isfinite(value) else str(value)
    except OverflowError:
        return str(value)


def _rows(sheet: Worksheet, area: Area) -> list[tuple[Any, ...]]:
    rows = sheet.iter_rows(
        min_row=area.first.row,
        max_row=area.last.row,
        min_col=area.first.column,
        max_col=area.last.column,
        values_only=True,
    )
    return list(rows)


def _duration(value: timedelta) -> str:
    """Return a duration in ISO 8601."""
    seconds = value.total_seconds()
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{sign}PT{hours:.0f}H{minutes:.0f}M{rest:g}S"


def _loaded(content: bytes, *, data_only: bool = False) -> Workbook:
    try:
        return load_workbook(BytesIO(content), data_only=data_only)
    except ToolFailed:
        raise
    except _BROKEN as error:
        raise bad_format(f"{type(error).__name__}: {error}"[:500]) from error


def _saved(book: Workbook) -> bytes:
    content = BytesIO()
    try:
        book.save(content)
    except _BROKEN as error:
        raise bad_format(f"it cannot be saved: {error}"[:500]) from error
    return content.getvalue()
