"""How cells, rows and columns of a workbook look: styles, sizes, merges."""

from collections.abc import Iterable, Iterator
from copy import copy
from math import ceil

from openpyxl.cell.cell import Cell as BookCell
from openpyxl.cell.cell import MergedCell
from openpyxl.styles import DEFAULT_FONT, Alignment, Border, PatternFill, Protection
from openpyxl.worksheet.cell_range import CellRange
from openpyxl.worksheet.dimensions import ColumnDimension
from openpyxl.worksheet.worksheet import Worksheet

from penstock.builtins.sheets.a1 import letters
from penstock.builtins.sheets.workbook import used_columns, used_rows
from penstock.core.call_errors import tool_failure

USUAL_HEIGHT = 15.0
USUAL_WIDTH = 8.43
_USUAL_SIZE = 11.0
_LINE = 1.25
"""Height of a line, for the size of its letters."""
_GENERAL = "General"
_LOOKS = ("font", "fill", "border", "alignment", "protection", "number_format")

Styled = BookCell | MergedCell


def copy_style(source: Styled, target: Styled) -> None:
    """Give a cell the looks of another, not its value."""
    for name in _LOOKS:
        setattr(target, name, copy(getattr(source, name)))


def clear_style(cell: Styled) -> None:
    """Give a cell the looks of a new one."""
    cell.font = copy(DEFAULT_FONT)
    cell.fill = PatternFill()
    cell.border = Border()
    cell.alignment = Alignment()
    cell.protection = Protection()
    cell.number_format = _GENERAL


def copy_row(source: Worksheet, row: int, target: Worksheet, to: int) -> list[str]:
    """Give a row the looks of another; returns the ranges that are merged in it."""
    merges = [_moved(each, to - row, 0) for each in _merges(source) if _is_row(each, row)]
    _merge(target, merges)
    for column in sorted(used_columns(source, row) | used_columns(target, to)):
        copy_style(source.cell(row, column), target.cell(to, column))
    if (height := source.row_dimensions[row].height) is not None:
        target.row_dimensions[to].height = height
    return [each.coord for each in merges]


def copy_column(source: Worksheet, column: int, target: Worksheet, to: int) -> list[str]:
    """Give a column the looks of another; returns the ranges that are merged in it."""
    merges = [_moved(each, 0, to - column) for each in _merges(source) if _is_column(each, column)]
    _merge(target, merges)
    for row in sorted(used_rows(source, column) | used_rows(target, to)):
        copy_style(source.cell(row, column), target.cell(row, to))
    found = width_of(source, column)
    if found is not None:
        _apart(target, to)
        target.column_dimensions[letters(to)].width = found
    return [each.coord for each in merges]


def fit_row(sheet: Worksheet, row: int) -> None:
    """Make a row as high as its texts want; it never gets lower."""
    lines = [_height(sheet, cell) for cell in sheet[row] if isinstance(cell, BookCell)]
    wanted = max(lines, default=USUAL_HEIGHT)
    if wanted > (sheet.row_dimensions[row].height or USUAL_HEIGHT):
        sheet.row_dimensions[row].height = wanted


def width_of(sheet: Worksheet, column: int) -> float | None:
    """Return how wide a column is; None if nobody said."""
    group = _group(sheet, column)
    return None if group is None else group.width


def _height(sheet: Worksheet, cell: BookCell) -> float:
    """Return how high a cell's text stands."""
    if cell.value is None:
        return USUAL_HEIGHT
    size = cell.font.sz or _USUAL_SIZE
    width = (width_of(sheet, cell.column) or USUAL_WIDTH) * _USUAL_SIZE / size
    is_wrapped = bool(cell.alignment.wrap_text)
    texts = str(cell.value).split("\n")
    lines = sum(max(1, ceil(len(each) / width)) if is_wrapped else 1 for each in texts)
    return max(USUAL_HEIGHT, float(ceil(lines * size * _LINE)))


def _merge(sheet: Worksheet, wanted: Iterable[CellRange]) -> None:
    """Merge ranges. Raises ToolFailed when one would overlap another that is merged."""
    there = list(_merges(sheet))
    for each in wanted:
        if any(each.coord == other.coord for other in there):
            continue
        for other in there:
            if not each.isdisjoint(other):
                raise tool_failure(
                    "merge_overlap",
                    f"{each.coord} of {sheet.title!r} would overlap {other.coord}, which is merged",
                )
        sheet.merge_cells(each.coord)
        there.append(each)


def _merges(sheet: Worksheet) -> Iterator[CellRange]:
    for each in sheet.merged_cells.ranges:
        yield CellRange(each.coord)


def _moved(merged: CellRange, rows: int, columns: int) -> CellRange:
    merged.shift(col_shift=columns, row_shift=rows)
    return merged


def _is_row(merged: CellRange, row: int) -> bool:
    return merged.min_row == merged.max_row == row


def _is_column(merged: CellRange, column: int) -> bool:
    return merged.min_col == merged.max_col == column


def _group(sheet: Worksheet, column: int) -> ColumnDimension | None:
    """Return what is said about a column, perhaps together with its neighbours."""
    for name, each in sheet.column_dimensions.items():
        if name == letters(column) or (each.min and each.min <= column <= (each.max or each.min)):
            return each
    return None


def _apart(sheet: Worksheet, column: int) -> None:
    """Let a column have a width of its own."""
    group = _group(sheet, column)
    if group is None or not group.min or not group.max or group.min == group.max:
        return
    first, last, width = group.min, group.max, group.width
    del sheet.column_dimensions[group.index]
    for each in range(first, last + 1):
        sheet.column_dimensions[letters(each)].width = width
