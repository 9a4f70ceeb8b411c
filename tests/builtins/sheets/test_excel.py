"""Excel workbooks through built-in tools: what is read, made, changed, and refused."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from openpyxl import Workbook
from openpyxl.styles import Alignment

from penstock.builtins.sheets.excel import TOOLS
from tests.kit.packages import with_part
from tests.kit.workbench import Desk, open_desk
from tests.kit.workbooks import HERE, PATH, furnished, opened, sales, saved


async def values(desk: Desk, area: str, **more: Any) -> Any:
    return (await desk.made("excel_read", path=PATH, range=area, **more))["values"]


async def test_the_sheets_are_listed_with_their_beginnings() -> None:
    desk = await furnished()
    found = await desk.made("excel_inspect", path=PATH)
    sales, notes = found.pop("sheets")
    assert found == HERE
    assert (sales["name"], sales["rows"], sales["columns"]) == ("Sales", 4, 6)
    assert sales["preview_range"] == "A1:F4"
    assert sales["preview"][1][:4] == ["Ann", 1.5, True, None]
    assert (notes["name"], notes["preview_range"]) == ("My notes", "A1:B2")
    await desk.put(PATH, saved(Workbook()))
    empty = (await desk.made("excel_inspect", path=PATH))["sheets"][0]
    assert (empty["rows"], empty["columns"], empty["preview"]) == (0, 0, [])


RANGES: list[tuple[dict[str, Any], str, str, list[list[Any]]]] = [
    ({"range": "B3:A2"}, "A2:B3", "Sales", [["Ann", 1.5], ["Bob", 2]]),
    ({"range": "Sales!C3"}, "C3", "Sales", [[False]]),
    ({"range": "B4"}, "B4", "Sales", [["=SUM(B2:B3)"]]),
    ({"range": "'My notes'!B2:C2"}, "B2:C2", "My notes", [['=Sales!A4&"!A9"', None]]),
    ({"range": "B2", "sheet": "My notes"}, "B2", "My notes", [['=Sales!A4&"!A9"']]),
    ({"range": "XFD1048576"}, "XFD1048576", "Sales", [[None]]),
]


@pytest.mark.parametrize(("given", "area", "sheet", "read"), RANGES)
async def test_a_range_is_read(
    given: dict[str, Any], area: str, sheet: str, read: list[list[Any]]
) -> None:
    desk = await furnished()
    found = await desk.made("excel_read", path=PATH, **given)
    size = {"rows": len(read), "columns": len(read[0]), "values": read}
    assert found == {**HERE, "range": area, "sheet": sheet, **size}


async def test_values_of_all_kinds() -> None:
    book = Workbook()
    given = [
        datetime(2026, 11, 21, 9, 30, tzinfo=UTC).replace(tzinfo=None),
        date(2026, 11, 21),
        time(9, 30),
        timedelta(hours=26, minutes=3, seconds=1.5),
        10**20,
        "#DIV/0!",
        1e-7,
    ]
    book.worksheets[0].append(given)
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, saved(book))
    assert await values(desk, "A1:G1") == [
        [
            "2026-11-21T09:30:00",
            "2026-11-21T00:00:00",
            "09:30:00",
            "PT26H3M1.5S",
            1e20,
            "#DIV/0!",
            1e-07,
        ]
    ]


async def test_a_formula_has_its_last_value() -> None:
    desk = await open_desk(*TOOLS)
    cached = with_part(sales(), "xl/worksheets/sheet1.xml", b"<v />", b"<v>3.5</v>")
    await desk.put(PATH, cached)
    assert await values(desk, "B4") == [[3.5]]


async def test_a_created_workbook_is_read_and_edited() -> None:
    desk = await open_desk(*TOOLS)
    given = [["a", 1.5, True], [None, "=A1"]]
    made = await desk.made("excel_create", path=PATH, values=given)
    assert made == {**HERE, "sheet": "Sheet1"}
    assignments = [{"cell": "A1"}, {"cell": "D9", "value": "é"}, {"cell": "Sheet1!B1", "value": 2}]
    assert await desk.made("excel_edit_cells", path=PATH, assignments=assignments) == made
    assert await values(desk, "A1:C2") == [[None, 2, True], [None, "=A1", None]]
    assert await values(desk, "D9") == [["é"]]


async def test_styles_stay_when_values_change() -> None:
    desk = await furnished()
    assignments = [{"cell": "A1", "value": "New"}, {"cell": "B1"}]
    await desk.made("excel_edit_cells", path=PATH, assignments=assignments)
    sheet = (await opened(desk))["Sales"]
    assert (sheet["A1"].value, sheet["A1"].font.b) == ("New", True)
    assert (sheet["B1"].value, sheet["B1"].fill.fgColor.rgb) == (None, "FFFF0000")
    assert {each.coord for each in sheet.merged_cells.ranges} == {"D1:E1", "F2:F3"}


async def test_the_looks_of_a_cell_are_copied_and_cleared() -> None:
    desk = await furnished()
    targets = ["A2", "'My notes'!B2"]
    made = await desk.made(
        "excel_copy_cell_style", path=PATH, source_cell="A1", target_cells=targets
    )
    assert made == {
        **HERE,
        "applied_targets": [{"cell": "A2", "sheet": "Sales"}, {"cell": "B2", "sheet": "My notes"}],
        "copied_count": 2,
        "sheets_touched": ["Sales", "My notes"],
        "source_cell": "A1",
    }
    book = await opened(desk)
    assert (book["Sales"]["A2"].value, book["Sales"]["A2"].font.sz) == ("Ann", 20)
    assert book["My notes"]["B2"].font.b
    made = await desk.made("excel_clear_cell_style", path=PATH, cells=["A1"])
    assert made == {
        **HERE,
        "cleared_count": 1,
        "cleared_targets": [{"cell": "A1", "sheet": "Sales"}],
        "sheets_touched": ["Sales"],
    }
    sheet = (await opened(desk))["Sales"]
    assert (sheet["A1"].value, sheet["A1"].font.b) == ("Name", False)


async def test_a_row_gives_style_height_and_merges_but_no_values() -> None:
    desk = await furnished()
    made = await desk.made("excel_copy_row", path=PATH, source_row={"row": 1}, target_rows=[4, 9])
    assert made == {
        **HERE,
        "applied_targets": [
            {"row": 4, "sheet": "Sales", "merge_ranges": ["D4:E4"]},
            {"row": 9, "sheet": "Sales", "merge_ranges": ["D9:E9"]},
        ],
        "copied_count": 2,
        "sheets_touched": ["Sales"],
        "source_row": {"row": 1, "sheet": "Sales"},
    }
    sheet = (await opened(desk))["Sales"]
    assert (sheet["A4"].value, sheet["A4"].font.b, sheet["A9"].value) == ("All", True, None)
    assert (sheet.row_dimensions[4].height, sheet.row_dimensions[9].height) == (40, 40)


async def test_a_column_gives_style_width_and_merges_to_another_sheet_too() -> None:
    desk = await furnished()
    source = {"column": "F", "sheet": "Sales"}
    made = await desk.made(
        *("excel_copy_column",),
        path=PATH,
        sheet="My notes",
        source_column=source,
        target_columns=["c"],
    )
    assert made["applied_targets"] == [
        {"column": "C", "sheet": "My notes", "merge_ranges": ["C2:C3"]}
    ]
    assert (made["source_column"], made["sheets_touched"]) == (source, ["My notes"])
    source = {"column": "A"}
    await desk.made("excel_copy_column", path=PATH, source_column=source, target_columns=["B"])
    sheet = (await opened(desk))["Sales"]
    assert sheet.column_dimensions["B"].width == 30
    assert (sheet["B1"].font.b, sheet["B1"].value) == (True, "Sum")


async def test_rows_go_in_with_sizes_and_merges_and_stale_formulas_are_listed() -> None:
    desk = await furnished()
    operations = [{"kind": "insert_rows", "index": 2, "count": 2}]
    made = await desk.made("excel_edit_structure", path=PATH, operations=operations)
    assert made == {
        **HERE,
        "applied_count": 1,
        "applied_operations": [{**operations[0], "sheet": "Sales"}],
        "sheet": "Sales",
        "stale_formulas": ["Sales!B6", "'My notes'!B2"],
    }
    sheet = (await opened(desk))["Sales"]
    assert (sheet["A4"].value, sheet["B6"].value) == ("Ann", "=SUM(B2:B3)")
    assert {each.coord for each in sheet.merged_cells.ranges} == {"D1:E1", "F4:F5"}


async def test_deleted_columns_and_rows_take_their_cells_along() -> None:
    desk = await furnished()
    operations = [
        {"kind": "delete_columns", "index": 1},
        {"kind": "delete_rows", "index": 1, "count": 2},
    ]
    made = await desk.made("excel_edit_structure", path=PATH, operations=operations)
    assert made["applied_operations"] == [
        {"kind": "delete_columns", "index": 1, "count": 1, "sheet": "Sales", "column": "A"},
        {"kind": "delete_rows", "index": 1, "count": 2, "sheet": "Sales"},
    ]
    sheet = (await opened(desk))["Sales"]
    assert [each.value for each in sheet["A"]] == [2, "=SUM(B2:B3)"]
    assert not sheet.merged_cells.ranges


async def test_a_row_grows_with_its_text_and_never_shrinks() -> None:
    book = Workbook()
    sheet = book.worksheets[0]
    sheet["A1"] = "word " * 40
    sheet["A1"].alignment = Alignment(wrap_text=True)
    sheet["A2"] = "two\nlines"
    sheet["A3"] = "low"
    sheet.row_dimensions[3].height = 99
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, saved(book))
    for row in (1, 2, 3, 9):
        made = await desk.made("excel_auto_fit_row", path=PATH, row=row)
        assert made == {**HERE, "row": row, "sheet": "Sheet"}
    found = (await opened(desk))["Sheet"]
    heights = [found.row_dimensions[each].height for each in (1, 2, 3, 9)]
    assert heights[0] > 15 * 10
    assert heights[1:] == [28, 99, None]


CELL = {"cell": "A1", "value": "x"}
ROWS = {"source_row": {"row": 1}}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("excel_inspect", {"path": "task://none.xlsx"}, "not_found"),
    ("excel_inspect", {"path": "task://d.xlsx"}, "is_directory"),
    ("excel_inspect", {"path": "task://text.xlsx"}, "bad_format"),
    ("excel_inspect", {"path": "task://empty.xlsx"}, "bad_format"),
    ("excel_inspect", {"path": "task://a.csv"}, "invalid"),
    ("excel_inspect", {"path": "a.xlsx"}, "invalid"),
    ("excel_read", {"range": "A"}, "bad_range"),
    ("excel_read", {"range": "A1:XFD1048576"}, "too_large"),
    ("excel_read", {"range": "A1:A50001"}, "too_large"),
    ("excel_read", {"range": "Sales!A1", "sheet": "My notes"}, "bad_range"),
    ("excel_read", {"range": "None!A1"}, "no_such_sheet"),
    ("excel_read", {"range": "A1", "sheet": "sales"}, "no_such_sheet"),
    ("excel_read", {"range": "A1", "sheet": ""}, "invalid"),
    ("excel_create", {"values": []}, "exists"),
    ("excel_create", {"path": "task://x.xlsx", "values": [["x" * 32_768]]}, "too_large"),
    ("excel_create", {"path": "task://x.xlsx", "values": [["\x01"]]}, "not_text"),
    ("excel_create", {"path": "task://x.xlsx", "values": [[1] * 100, *[[]] * 1000]}, "too_large"),
    ("excel_create", {"path": "task://x.xlsx", "values": [[{}]]}, "invalid"),
    ("excel_create", {"path": "task://x.xlsx", "values": [], "sheet": "a/b"}, "invalid"),
    ("excel_create", {"path": "task://x.xlsx", "values": [], "sheet": "x" * 32}, "invalid"),
    ("excel_edit_cells", {"path": "task://none.xlsx", "assignments": [CELL]}, "not_found"),
    ("excel_edit_cells", {"assignments": [CELL], "sheet": "None"}, "no_such_sheet"),
    ("excel_edit_cells", {"assignments": [CELL, {"cell": "A1:B2"}]}, "bad_range"),
    ("excel_edit_cells", {"assignments": [CELL, {"cell": "None!A1"}]}, "no_such_sheet"),
    ("excel_edit_cells", {"assignments": [CELL, {"cell": "E1", "value": 1}]}, "merge_overlap"),
    ("excel_edit_cells", {"assignments": []}, "invalid"),
    ("excel_copy_cell_style", {"source_cell": "A1:B2", "target_cells": ["A1"]}, "bad_range"),
    ("excel_copy_cell_style", {"source_cell": "A1", "target_cells": []}, "invalid"),
    ("excel_clear_cell_style", {"cells": ["A0"]}, "bad_range"),
    ("excel_copy_row", {**ROWS, "target_rows": [0]}, "invalid"),
    ("excel_copy_row", {**ROWS, "target_rows": [1_048_577]}, "invalid"),
    (
        "excel_copy_row",
        {"source_row": {"row": 1, "sheet": "No"}, "target_rows": [2]},
        "no_such_sheet",
    ),
    (
        "excel_copy_column",
        {"source_column": {"column": "XFE"}, "target_columns": ["A"]},
        "bad_range",
    ),
    ("excel_copy_column", {"source_column": {"column": "F"}, "target_columns": ["1"]}, "invalid"),
    ("excel_edit_structure", {"operations": [{"kind": "insert", "index": 1}]}, "invalid"),
    ("excel_edit_structure", {"operations": [{"kind": "insert_rows", "index": 0}]}, "invalid"),
    ("excel_auto_fit_row", {"row": 0}, "invalid"),
    ("excel_apply_changes", {}, "invalid"),
    ("excel_apply_changes", {"auto_fit_rows": []}, "invalid"),
    ("excel_apply_changes", {"auto_fit_rows": [1], "sheet": "None"}, "no_such_sheet"),
]


@pytest.mark.parametrize(("tool_id", "input", "why"), REFUSED)
async def test_a_refused_call_changes_nothing(
    tool_id: str, input: dict[str, Any], why: str
) -> None:
    desk = await furnished()
    before = await desk.get(PATH)
    assert await desk.refusal(tool_id, **{"path": PATH, **input}) == why
    assert await desk.get(PATH) == before
    assert await desk.refusal("excel_inspect", path="task://x.xlsx") == "not_found"


async def test_merged_cells_that_would_overlap_are_refused() -> None:
    desk = await furnished()
    await desk.made("excel_copy_row", path=PATH, **ROWS, target_rows=[9])
    for tool_id, more in (
        ("excel_copy_row", {**ROWS, "target_rows": [8]}),
        ("excel_copy_column", {"source_column": {"column": "F"}, "target_columns": ["D"]}),
    ):
        book = await opened(desk)
        book["Sales"].merge_cells("D7:D8" if tool_id.endswith("row") else "C2:D3")
        await desk.put(PATH, saved(book))
        assert await desk.refusal(tool_id, path=PATH, **more) == "merge_overlap"
