"""Looks of rows and columns, where they are kept for several at once."""

from openpyxl import Workbook
from openpyxl.styles import Font

from penstock.builtins.sheets.formatting import copy_column, fit_row, width_of


def test_a_column_leaves_the_group_that_had_one_width() -> None:
    sheet = Workbook().worksheets[0]
    group = sheet.column_dimensions["B"]
    group.min, group.max, group.width = 2, 4, 40
    sheet.column_dimensions["A"].width = 7
    copy_column(sheet, 1, sheet, 3)
    assert [width_of(sheet, each) for each in range(1, 6)] == [7, 40, 7, 40, None]
    copy_column(sheet, 2, sheet, 5)
    assert width_of(sheet, 5) == 40


def test_larger_letters_want_a_higher_row() -> None:
    sheet = Workbook().worksheets[0]
    sheet["A1"] = "x"
    fit_row(sheet, 1)
    assert sheet.row_dimensions[1].height is None
    sheet["A1"].font = Font(size=40)
    fit_row(sheet, 1)
    assert sheet.row_dimensions[1].height == 50
