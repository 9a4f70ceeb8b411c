"""Tools for Excel workbooks of the workspace: inspect, read, create and edit them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.builtins.sheets.cells import (
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_ROWS,
    VALUES,
    assignments_of,
    check_size,
    check_values,
    read_area,
)
from penstock.core.call import Effect
from penstock.core.call_errors import ToolNotConfigured, tool_failure
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.json_values.schema import Problem
from penstock.core.late import late
from penstock.core.scopes import FilePath
from penstock.core.stored.changes import WorkspaceChange
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import URI, builtin, fields_of, list_of, place, whole

SHEET: Json = {"type": "string", "minLength": 1, "maxLength": 31, "pattern": r"^[^\[\]:*?/\\]+$"}
CELL: Json = {"type": "string", "description": "Such as B2, or Sheet!B2."}
CELLS = list_of(CELL, most=10_000)
RANGE: Json = {"type": "string", "description": "Such as A1:C5, or 'My sheet'!A1:C5."}
ROW = whole(1, MAX_ROWS)
ROWS = list_of(ROW, most=1000)
COLUMN: Json = {"type": "string", "pattern": "^[A-Za-z]{1,3}$", "description": "Such as B."}
COLUMNS = list_of(COLUMN, most=1000)
ASSIGNMENTS = assignments_of(CELL)
SOURCE_ROW = fields_of({"row": ROW, "sheet?": SHEET})
SOURCE_COLUMN = fields_of({"column": COLUMN, "sheet?": SHEET})
OPERATION = fields_of(
    {
        "kind": {"enum": ["insert_rows", "delete_rows", "insert_columns", "delete_columns"]},
        "index": whole(1, MAX_ROWS, "The first row or column, from 1."),
        "count?": whole(1, MAX_ROWS),
    }
)
OPERATIONS = list_of(OPERATION, most=1000)
BOOK: Json = {"path": URI, "sheet?": SHEET}
CHANGES = (
    *("operations", "assignments", "row_copies", "column_copies", "style_copies"),
    "auto_fit_rows",
)
_LOST = (
    " Formulas are not computed. Pictures and shapes are not kept: not_kept says what was lost; "
    "excel_inspect says it before."
)
_EXTRA = "sheets"


@builtin(
    "List the sheets of an Excel file, each with its size and its first cells; not_kept_by_edits, "
    "if present, lists what any change of the file would lose.",
    {"path": URI},
    effect=Effect.READ,
)
async def excel_inspect(input: Json, invocation: Invocation) -> Any:
    """Return the sheets of a workbook."""
    path = _place(input, invocation)
    sheets = await _with_book("inspect", await _read(path, invocation), invocation)
    return {"format": "xlsx", "path": str(path), **sheets}


@builtin(
    "Read a range of an Excel file, such as Sheet1!A1:C5, at most 50,000 cells. Dates are ISO "
    "8601; formulas give their last value, or their text where there is none.",
    {"path": URI, "range": RANGE, "sheet?": SHEET},
    effect=Effect.READ,
)
async def excel_read(input: Json, invocation: Invocation) -> Any:
    """Return the values of a range."""
    path, area = _place(input, invocation), read_area(input["range"])
    named = input.get("sheet")
    if area.sheet is not None and named is not None and area.sheet != named:
        raise tool_failure("bad_range", f"the range is of {area.sheet!r}, and sheet is {named!r}")
    check_size(area)
    content = await _read(path, invocation)
    sheet, values = await _with_book("read", content, invocation, area, area.sheet or named)
    return {
        "format": "xlsx",
        "path": str(path),
        "range": str(area),
        "sheet": sheet,
        "rows": area.rows,
        "columns": area.columns,
        "values": values,
    }


@builtin(
    "Make an Excel file of rows of values; a text that begins with = is a formula. Fails with "
    "exists if there is one already: change that with excel_edit_cells.",
    {"path": URI, "sheet?": SHEET, "values": VALUES},
    effect=Effect.WRITE,
)
async def excel_create(input: Json, invocation: Invocation) -> Any:
    """Write a new workbook."""
    path, values = _place(input, invocation), input["values"]
    sheet = input.get("sheet", "Sheet1")
    check_values(values, max_columns=MAX_COLUMNS)
    content = await _with_book("create", b"", invocation, sheet, values)
    change = await invocation.workspace.write(path, content, replaces=False)
    invocation.change = WorkspaceChange(files=(change,))
    return {"format": "xlsx", "path": str(path), "sheet": sheet}


async def change_book(input: Json, invocation: Invocation) -> Any:
    """Change a workbook as the called tool does; a failure leaves it unchanged."""
    path = _place(input, invocation)
    if invocation.spec.tool_id == "excel_apply_changes" and not any(map(input.get, CHANGES)):
        problem = Problem("", f"at least one of {', '.join(CHANGES)} is needed")
        raise invalid(invocation.spec.tool_id, [problem])
    content = await _read(path, invocation)
    made, content = await _with_book("edit", content, invocation, invocation.spec.tool_id, input)
    change = await invocation.workspace.write(path, content)
    invocation.change = WorkspaceChange(files=(change,))
    return {**made, "format": "xlsx", "path": str(path)}


async def _with_book(verb: str, content: bytes, invocation: Invocation, *arguments: Any) -> Any:
    """Run a verb of `edits.VERBS` in a thread, where openpyxl is loaded, too."""
    return await invocation.edition.threads.run(partial(_do, verb, content, *arguments))


def _do(verb: str, content: bytes, *arguments: Any) -> Any:
    try:
        verbs: dict[str, Callable[..., Any]] = late(
            "penstock.builtins.sheets.workbook_editor:VERBS", extra=_EXTRA, what="Excel"
        )
    except ConfigError as error:
        raise ToolNotConfigured(str(error)) from None
    return verbs[verb](content, *arguments)


async def _read(path: FilePath, invocation: Invocation) -> bytes:
    return await invocation.workspace.read(path, most=MAX_BYTES)


def _place(input: Json, invocation: Invocation) -> FilePath:
    return place(input, "path", invocation, ending=".xlsx")


def _changing(tool_id: str, description: str, fields: Json) -> Any:
    make = builtin(description, {**BOOK, **fields}, effect=Effect.WRITE, tool_id=tool_id)
    return make(change_book)


TOOLS = (
    excel_inspect,
    excel_read,
    excel_create,
    _changing(
        "excel_edit_cells",
        "Change cells of an Excel file, all or none; without value, or with null, a cell is "
        "emptied. Styles stay." + _LOST,
        {"assignments": ASSIGNMENTS},
    ),
    _changing(
        "excel_copy_cell_style",
        "Copy the style of a cell of an Excel file to other cells; values stay.",
        {"source_cell": CELL, "target_cells": CELLS},
    ),
    _changing(
        "excel_clear_cell_style",
        "Reset the style of cells of an Excel file; values stay.",
        {"cells": CELLS},
    ),
    _changing(
        "excel_copy_row",
        "Give rows of an Excel file the style, height and merged cells of another row, not its "
        "values.",
        {"source_row": SOURCE_ROW, "target_rows": ROWS},
    ),
    _changing(
        "excel_copy_column",
        "Give columns of an Excel file the style, width and merged cells of another column, not "
        "its values.",
        {"source_column": SOURCE_COLUMN, "target_columns": COLUMNS},
    ),
    _changing(
        "excel_edit_structure",
        "Insert and delete rows and columns of an Excel file, in order. Formulas stay unchanged: "
        "those that refer to moved cells are listed in stale_formulas.",
        {"operations": OPERATIONS},
    ),
    _changing(
        "excel_auto_fit_row",
        "Make a row of an Excel file as high as its texts need; it never gets lower.",
        {"row": ROW},
    ),
    _changing(
        "excel_apply_changes",
        "Make many changes of an Excel file in one save, all or none, in this order: operations, "
        "assignments, row, column and style copies, auto_fit_rows." + _LOST,
        {
            "operations?": OPERATIONS,
            "assignments?": ASSIGNMENTS,
            "row_copies?": list_of(fields_of({"source_row": SOURCE_ROW, "target_rows": ROWS})),
            "column_copies?": list_of(
                fields_of({"source_column": SOURCE_COLUMN, "target_columns": COLUMNS})
            ),
            "style_copies?": list_of(fields_of({"source_cell": CELL, "target_cells": CELLS})),
            "auto_fit_rows?": ROWS,
        },
    ),
)
