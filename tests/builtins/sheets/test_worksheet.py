"""The effect of inserted and deleted rows and columns on merges, sizes and formulas."""

import pytest
from openpyxl import Workbook
from openpyxl.styles import Font

from penstock.builtins.sheets.worksheet import (
    Kind,
    Operation,
    apply,
    copy_column,
    fit_row,
    stale_formulas,
    width_of,
)


@pytest.mark.parametrize(
    ("kind", "index", "count", "before", "after"),
    [
        ("insert_rows", 1, 2, "B2:C4", "B4:C6"),
        ("insert_rows", 2, 1, "B2:C4", "B3:C5"),
        ("insert_rows", 3, 2, "B2:C4", "B2:C6"),
        ("insert_rows", 5, 2, "B2:C4", "B2:C4"),
        ("delete_rows", 1, 1, "B2:C4", "B1:C3"),
        ("delete_rows", 1, 2, "B2:C4", "B1:C2"),
        ("delete_rows", 3, 1, "B2:C4", "B2:C3"),
        ("delete_rows", 4, 9, "B2:C4", "B2:C3"),
        ("delete_rows", 2, 3, "B2:C4", None),
        ("delete_rows", 1, 9, "B2:C4", None),
        ("insert_columns", 3, 1, "B2:C4", "B2:D4"),
        ("delete_columns", 1, 1, "B2:C4", "A2:B4"),
        ("delete_columns", 2, 1, "B2:C2", None),
    ],
)
def test_merged_cells_move_grow_and_shrink(
    kind: Kind, index: int, count: int, before: str, after: str | None
) -> None:
    sheet = Workbook().worksheets[0]
    sheet["F9"] = "last"
    sheet.merge_cells(before)
    apply(sheet, Operation(kind=kind, index=index, count=count))
    assert [each.coord for each in sheet.merged_cells.ranges] == ([after] if after else [])


def test_sizes_go_with_their_rows_and_columns() -> None:
    sheet = Workbook().worksheets[0]
    sheet["C3"] = "last"
    sheet.row_dimensions[2].height = 40
    sheet.column_dimensions["B"].width = 50
    apply(sheet, Operation(kind="insert_rows", index=2, count=3))
    apply(sheet, Operation(kind="delete_columns", index=1))
    assert (sheet.row_dimensions[2].height, sheet.row_dimensions[5].height) == (None, 40)
    assert sheet.column_dimensions["A"].width == 50
    assert sheet["B6"].value == "last"


FORMULAS = [
    ("=A1", False),
    ("=A5", True),
    ("=$A$5+1", True),
    ("=SUM(A1:B9)", True),
    ("=SUM(A:A)", False),
    ("=SUM(1:9)", True),
    ("=Data!A9", True),
    ("='Data'!A9", True),
    ("=data!A9", True),
    ("=Other!A9", False),
    ("='My ''own'' Data'!A9", False),
    ('="A9"&A1', False),
    ("=LOG10(A1)", False),
    ("=A1+99", False),
    ("=[1]Data!A9", False),
    ("=Name9_x", False),
]


@pytest.mark.parametrize(("formula", "is_stale"), FORMULAS)
def test_a_formula_is_stale_if_it_points_at_what_moved(formula: str, is_stale: bool) -> None:
    book = Workbook()
    sheet = book.worksheets[0]
    sheet.title = "Data"
    sheet["A1"] = formula
    operation = Operation(kind="insert_rows", index=5)
    found = list(stale_formulas([sheet], "Data", [operation]))
    assert found == (["Data!A1"] if is_stale else [])


def test_columns_are_looked_at_for_operations_on_columns() -> None:
    sheet = Workbook().worksheets[0]
    for row, formula in enumerate(("=A99", "=C1", "=SUM(B:D)", "=SUM(1:2)"), start=1):
        sheet.cell(row, 1, formula)
    operation = Operation(kind="delete_columns", index=3)
    assert list(stale_formulas([sheet], "Sheet", [operation])) == ["Sheet!A2", "Sheet!A3"]


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
