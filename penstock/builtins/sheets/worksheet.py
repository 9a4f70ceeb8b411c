"""Changes of one worksheet: insert and delete rows and columns; copy styles, sizes and merges.

openpyxl moves the cells of an insertion or deletion, but neither merged ranges nor the heights and
widths, so these are moved here. Formulas are not rewritten, which openpyxl cannot do either; those
that refer to moved cells are reported (`stale_formulas`).
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from math import ceil
from typing import Any, Literal

from msgspec import Struct
from openpyxl.cell.cell import Cell as BookCell
from openpyxl.cell.cell import MergedCell
from openpyxl.styles import DEFAULT_FONT, Alignment, Border, PatternFill, Protection
from openpyxl.worksheet.cell_range import CellRange
from openpyxl.worksheet.dimensions import ColumnDimension
from openpyxl.worksheet.worksheet import Worksheet

from penstock.builtins.sheets.cells import MAX_COLUMNS, MAX_ROWS, letters, number
from penstock.builtins.sheets.package import MAX_AREA, too_large
from penstock.builtins.sheets.workbook import cells_of, used_columns, used_rows
from penstock.core.call_errors import tool_failure

Kind = Literal["insert_rows", "delete_rows", "insert_columns", "delete_columns"]
_CORNER = r"\$?([A-Za-z]{1,3})\$?(\d{1,7})"
_SHEET = r"(?:(?:'((?:[^']|'')+)'|([^\W\d][\w.]*))!)?"
_REFERENCE = re.compile(
    rf"(?<![\w.$!'\]]){_SHEET}(?:{_CORNER}(?::{_CORNER})?"
    r"|\$?([A-Za-z]{1,3}):\$?([A-Za-z]{1,3})|\$?(\d{1,7}):\$?(\d{1,7}))(?![\w(!])"
)
_TEXT = re.compile(r'"(?:[^"]|"")*"')


class Operation(Struct, frozen=True, kw_only=True):
    """One insertion or deletion."""

    kind: Kind
    index: int
    count: int = 1

    @property
    def is_rows(self) -> bool:
        """Whether it changes rows, not columns."""
        return self.kind.endswith("rows")

    @property
    def is_insertion(self) -> bool:
        """Whether it is an insertion."""
        return self.kind.startswith("insert")

    def moved(self, place: int) -> int | None:
        """Return the new number of a row or column; None if it was deleted."""
        if place < self.index:
            return place
        if self.is_insertion:
            return place + self.count
        return place - self.count if place >= self.index + self.count else None


def apply(sheet: Worksheet, operation: Operation) -> None:
    """Apply one operation: cells, merges and sizes move, formulas stay unchanged."""
    _check(sheet, operation)
    merged = {each.coord: _changed(each, operation) for each in sheet.merged_cells.ranges}
    merged = {old: new for old, new in merged.items() if new is None or new.coord != old}
    if sum(_area(each) for each in merged.values() if each) > MAX_AREA:
        raise too_large("it would merge more cells than are changed at once")
    for old in merged:
        sheet.unmerge_cells(old)
    sizes = _sizes(sheet, operation)
    getattr(sheet, _METHODS[operation.kind])(operation.index, operation.count)
    _set_sizes(sheet, operation, sizes)
    for new in merged.values():
        if new is not None and _area(new) > 1:
            sheet.merge_cells(new.coord)


def stale_formulas(
    sheets: Iterable[Worksheet], changed: str, operations: Iterable[Operation]
) -> Iterator[str]:
    """Yield the cells whose formulas refer to moved cells, each with its sheet."""
    done = list(operations)
    for sheet in sheets:
        formulas = {at: each for at, each in cells_of(sheet).items() if each.data_type == "f"}
        for place in sorted(formulas):
            cell = formulas[place]
            if _is_stale(cell.value, sheet.title, changed, done):
                yield f"{_quoted(sheet.title)}!{cell.coordinate}"


_MAX_TOUCHED = 20_000_000
_METHODS = {
    "insert_rows": "insert_rows",
    "delete_rows": "delete_rows",
    "insert_columns": "insert_cols",
    "delete_columns": "delete_cols",
}


def _check(sheet: Worksheet, operation: Operation) -> None:
    most = MAX_ROWS if operation.is_rows else MAX_COLUMNS
    used = sheet.max_row if operation.is_rows else sheet.max_column
    grows = operation.is_insertion and operation.index <= used
    across = sheet.max_column if operation.is_rows else sheet.max_row
    if not operation.is_insertion and min(operation.count, used) * across > _MAX_TOUCHED:
        raise too_large(f"{operation.kind} touches more cells than are changed at once")
    if operation.index > most or (grows and used + operation.count > most):
        raise tool_failure(
            "bad_range", f"{operation.kind} at {operation.index} leads beyond the sheet of {most}"
        )


def _changed(merged: CellRange, operation: Operation) -> CellRange | None:
    """Return a merged range after the operation; None if nothing of it is left."""
    low, high = (
        (merged.min_row, merged.max_row) if operation.is_rows else (merged.min_col, merged.max_col)
    )
    left = [operation.moved(each) for each in (low, high)]
    last = operation.index + operation.count
    first = left[0] if left[0] is not None else operation.index
    end = left[1] if left[1] is not None else operation.index - 1
    if end < first or (not operation.is_insertion and low >= operation.index and high < last):
        return None
    if operation.is_rows:
        return CellRange(min_col=merged.min_col, max_col=merged.max_col, min_row=first, max_row=end)
    return CellRange(min_row=merged.min_row, max_row=merged.max_row, min_col=first, max_col=end)


def _area(merged: CellRange) -> int:
    return int(merged.size["rows"] * merged.size["columns"])


def _sizes(sheet: Worksheet, operation: Operation) -> dict[int, float]:
    """Remove the explicit heights or widths, and return them."""
    sizes: dict[int, float] = {}
    if operation.is_rows:
        for row, dimension in sheet.row_dimensions.items():
            if dimension.height is not None:
                sizes[row], dimension.height = dimension.height, None
        return sizes
    for name, group in list(sheet.column_dimensions.items()):
        first = group.min or number(name)
        sizes |= dict.fromkeys(range(first, (group.max or first) + 1), group.width)
        del sheet.column_dimensions[name]
    return sizes


def _set_sizes(sheet: Worksheet, operation: Operation, sizes: dict[int, float]) -> None:
    for place, size in sizes.items():
        now = operation.moved(place)
        if now is None:
            continue
        if operation.is_rows:
            sheet.row_dimensions[now].height = size
        elif now <= MAX_COLUMNS:
            sheet.column_dimensions[letters(now)].width = size


def _is_stale(formula: Any, own: str, changed: str, operations: list[Operation]) -> bool:
    text = _TEXT.sub("", str(getattr(formula, "text", formula)))
    for reference in _REFERENCE.finditer(text):
        quoted, plain, *corners = reference.groups()
        sheet = (quoted or plain or own).replace("''", "'")
        if sheet.casefold() != changed.casefold():
            continue
        columns = [number(each) for each in corners if each and each.isalpha()]
        rows = [int(each) for each in corners if each and each.isdigit()]
        if any(
            max(rows if each.is_rows else columns, default=0) >= each.index for each in operations
        ):
            return True
    return False


def _quoted(title: str) -> str:
    return title if re.fullmatch(r"[A-Za-z_]\w*", title) else "'" + title.replace("'", "''") + "'"


# ---- styles, sizes and merges ----

DEFAULT_HEIGHT = 15.0
DEFAULT_WIDTH = 8.43
_DEFAULT_SIZE = 11.0
_LINE = 1.25
"""Height of a line, for the size of its letters."""
_GENERAL = "General"
_LOOKS = ("font", "fill", "border", "alignment", "protection", "number_format")

Styled = BookCell | MergedCell


def copy_style(source: Styled, target: Styled) -> None:
    """Copy the style of a cell, not its value."""
    for name in _LOOKS:
        setattr(target, name, copy(getattr(source, name)))


def clear_style(cell: Styled) -> None:
    """Reset the style of a cell."""
    cell.font = copy(DEFAULT_FONT)
    cell.fill = PatternFill()
    cell.border = Border()
    cell.alignment = Alignment()
    cell.protection = Protection()
    cell.number_format = _GENERAL


def copy_row(source: Worksheet, row: int, target: Worksheet, to: int) -> list[str]:
    """Copy style, height and merges of a row; returns the merged ranges."""
    merges = [_moved(each, to - row, 0) for each in _merges(source) if _is_row(each, row)]
    _merge(target, merges)
    for column in sorted(used_columns(source, row) | used_columns(target, to)):
        copy_style(source.cell(row, column), target.cell(to, column))
    if (height := source.row_dimensions[row].height) is not None:
        target.row_dimensions[to].height = height
    return [each.coord for each in merges]


def copy_column(source: Worksheet, column: int, target: Worksheet, to: int) -> list[str]:
    """Copy style, width and merges of a column; returns the merged ranges."""
    merges = [_moved(each, 0, to - column) for each in _merges(source) if _is_column(each, column)]
    _merge(target, merges)
    for row in sorted(used_rows(source, column) | used_rows(target, to)):
        copy_style(source.cell(row, column), target.cell(row, to))
    width = width_of(source, column)
    if width is not None:
        _apart(target, to)
        target.column_dimensions[letters(to)].width = width
    return [each.coord for each in merges]


def fit_row(sheet: Worksheet, row: int) -> None:
    """Make a row as high as its texts need; it never gets lower."""
    lines = [_height(sheet, cell) for cell in sheet[row] if isinstance(cell, BookCell)]
    height = max(lines, default=DEFAULT_HEIGHT)
    if height > (sheet.row_dimensions[row].height or DEFAULT_HEIGHT):
        sheet.row_dimensions[row].height = height


def width_of(sheet: Worksheet, column: int) -> float | None:
    """Return the width of a column; None if it has the default width."""
    group = _group(sheet, column)
    return None if group is None else group.width


def _height(sheet: Worksheet, cell: BookCell) -> float:
    """Return the height that a cell's text needs."""
    if cell.value is None:
        return DEFAULT_HEIGHT
    size = cell.font.sz or _DEFAULT_SIZE
    width = (width_of(sheet, cell.column) or DEFAULT_WIDTH) * _DEFAULT_SIZE / size
    is_wrapped = bool(cell.alignment.wrap_text)
    texts = str(cell.value).split("\n")
    lines = sum(max(1, ceil(len(each) / width)) if is_wrapped else 1 for each in texts)
    return max(DEFAULT_HEIGHT, float(ceil(lines * size * _LINE)))


def _merge(sheet: Worksheet, ranges: Iterable[CellRange]) -> None:
    """Merge ranges. Raises ToolFailed if one would overlap an existing merge."""
    present = list(_merges(sheet))
    for area in ranges:
        if any(area.coord == other.coord for other in present):
            continue
        for other in present:
            if not area.isdisjoint(other):
                raise tool_failure(
                    "merge_overlap",
                    f"{area.coord} of {sheet.title!r} would overlap {other.coord}, which is merged",
                )
        sheet.merge_cells(area.coord)
        present.append(area)


def _merges(sheet: Worksheet) -> Iterator[CellRange]:
    for merged in sheet.merged_cells.ranges:
        yield CellRange(merged.coord)


def _moved(merged: CellRange, rows: int, columns: int) -> CellRange:
    merged.shift(col_shift=columns, row_shift=rows)
    return merged


def _is_row(merged: CellRange, row: int) -> bool:
    return merged.min_row == merged.max_row == row


def _is_column(merged: CellRange, column: int) -> bool:
    return merged.min_col == merged.max_col == column


def _group(sheet: Worksheet, column: int) -> ColumnDimension | None:
    """Return the dimension of a column, which it may share with its neighbours."""
    for name, group in sheet.column_dimensions.items():
        is_within = group.min and group.min <= column <= (group.max or group.min)
        if name == letters(column) or is_within:
            return group
    return None


def _apart(sheet: Worksheet, column: int) -> None:
    """Split a shared dimension, so that the column can have its own width."""
    group = _group(sheet, column)
    if group is None or not group.min or not group.max or group.min == group.max:
        return
    first, last, width = group.min, group.max, group.width
    del sheet.column_dimensions[group.index]
    for position in range(first, last + 1):
        sheet.column_dimensions[letters(position)].width = width
