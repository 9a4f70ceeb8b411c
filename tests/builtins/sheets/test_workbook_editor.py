"""Changes in one save: which sheets they touched, and in which order they come."""

import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest
from openpyxl import load_workbook

from penstock.builtins.sheets.workbook import new_book
from penstock.builtins.sheets.workbook_editor import VERBS, WorkbookEditor, edit
from tests.kit.workbooks import HERE, PATH, furnished, opened


def test_sheets_are_named_in_the_order_of_their_first_change() -> None:
    editor = WorkbookEditor(new_book("One", [["a"]]), None)
    assert (editor.usual, editor.touched) == ("One", [])
    editor.copy_style("A1", ["B1"])
    editor.assign([{"cell": "One!C1", "value": 1}])
    assert editor.touched == ["One"]


def test_rows_move_before_values_are_written() -> None:
    operations = [{"kind": "insert_rows", "index": 1}]
    changes = {"assignments": [{"cell": "A1", "value": "new"}], "operations": operations}
    _, content = edit(new_book("One", [["old"]]), "excel_apply_changes", changes)
    sheet = load_workbook(BytesIO(content)).worksheets[0]
    assert [each.value for each in sheet["A"]] == ["new", "old"]


ALL: dict[str, Any] = {
    "operations": [{"kind": "insert_rows", "index": 1}],
    "assignments": [{"cell": "A1", "value": "Top\ntwo"}],
    "row_copies": [{"source_row": {"row": 2}, "target_rows": [1]}],
    "column_copies": [{"source_column": {"column": "A"}, "target_columns": ["C"]}],
    "style_copies": [{"source_cell": "B2", "target_cells": ["A3"]}],
    "auto_fit_rows": [1, 5],
}


@pytest.mark.slow("a workbook is opened and saved four times")
async def test_many_changes_are_one() -> None:
    desk = await furnished()
    made = await desk.made("excel_apply_changes", path=PATH, **ALL)
    assert made == {
        **HERE,
        "applied_count": 1,
        "applied_operations": [{"kind": "insert_rows", "index": 1, "count": 1, "sheet": "Sales"}],
        "stale_formulas": ["Sales!B5", "'My notes'!B2"],
        "cell_assignment_count": 1,
        "applied_row_copy_count": 1,
        "applied_row_copies": [
            {
                "source_row": {"row": 2, "sheet": "Sales"},
                "targets": [{"row": 1, "sheet": "Sales", "merge_ranges": ["D1:E1"]}],
            }
        ],
        "applied_column_copy_count": 1,
        "applied_column_copies": [
            {
                "source_column": {"column": "A", "sheet": "Sales"},
                "targets": [{"column": "C", "sheet": "Sales", "merge_ranges": []}],
            }
        ],
        "applied_style_copy_count": 1,
        "applied_style_copies": [
            {"source_cell": "B2", "targets": [{"cell": "A3", "sheet": "Sales"}]}
        ],
        "applied_auto_fit_count": 2,
        "applied_auto_fit_rows": [{"row": 1, "sheet": "Sales"}, {"row": 5, "sheet": "Sales"}],
        "sheets_touched": ["Sales"],
    }
    sheet = (await opened(desk))["Sales"]
    assert (sheet["A1"].value, sheet["A1"].font.sz) == ("Top\ntwo", 20)
    assert sheet.row_dimensions[1].height == 50
    assert sheet["A3"].fill.fgColor.rgb == "FFFF0000"


LATE_FAILURES = [
    (
        {"auto_fit_rows": [1], "style_copies": [{"source_cell": "?", "target_cells": ["A1"]}]},
        "bad_range",
    ),
    (
        {
            **ALL,
            "row_copies": [
                {"source_row": {"row": 2}, "target_rows": [3]},
                {"source_row": {"row": 2, "sheet": "None"}, "target_rows": [4]},
            ],
        },
        "no_such_sheet",
    ),
    (
        {**ALL, "assignments": [{"cell": "A1", "value": "x"}, {"cell": "E2", "value": "x"}]},
        "merge_overlap",
    ),
]


@pytest.mark.parametrize(("changes", "why"), LATE_FAILURES)
async def test_a_change_that_fails_leaves_the_file(changes: dict[str, Any], why: str) -> None:
    desk = await furnished()
    before = await desk.get(PATH)
    assert await desk.refusal("excel_apply_changes", path=PATH, **changes) == why
    assert await desk.get(PATH) == before


PROGRAM = """
import sys
import penstock.builtins
print("openpyxl" in sys.modules)
"""


@pytest.mark.programs
@pytest.mark.slow("another Python is started")
def test_listing_the_tools_loads_no_openpyxl() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
    content = VERBS["create"](b"", "One", [[1]])
    assert VERBS["inspect"](content)["sheets"][0]["preview"] == [[1]]
