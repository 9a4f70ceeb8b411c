"""csv files of the workspace: looked at, read, made and changed."""

from functools import partial
from typing import Any

from penstock.builtins.sheets.a1 import Cell, read_area, read_cell, whole_area
from penstock.builtins.sheets.cells import (
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    VALUES,
    assignments_of,
    check_size,
    check_values,
)
from penstock.builtins.sheets.text import MOST_BYTES, CsvText, text_of, written
from penstock.core.call import Effect
from penstock.core.call_errors import tool_failure
from penstock.core.envelope import Json
from penstock.core.state import FileChanges, FilePath
from penstock.tools.builtin import URI, builtin, place
from penstock.tools.invocation import Invocation

SHEET = "Sheet1"
CELL: Json = {"type": "string", "description": "Such as B2."}
RANGE: Json = {"type": "string", "description": "Such as A1:C5."}
ASSIGNMENTS = assignments_of(CELL)


@builtin(
    "Say how many rows and columns a csv file has, and show its beginning.",
    {"path": URI},
    effect=Effect.READ,
)
async def csv_inspect(input: Json, invocation: Invocation) -> Any:
    """Return the size and a preview of a csv file."""
    path = _place(input, invocation)
    text = await _read(path, invocation)
    shown = whole_area(min(len(text.rows), PREVIEW_ROWS), min(text.columns, PREVIEW_COLUMNS))
    sheet = {
        "name": SHEET,
        "rows": len(text.rows),
        "columns": text.columns,
        "preview": [[each or "" for each in row] for row in text.values(shown)] if shown else [],
        "preview_range": str(shown or ""),
    }
    return {"format": "csv", "path": str(path), "sheets": [sheet]}


@builtin(
    "Read a range of a csv file, such as A1:C5, at most 50,000 cells: the texts as they stand, "
    "null where there is no cell.",
    {"path": URI, "range": RANGE},
    effect=Effect.READ,
)
async def csv_read(input: Json, invocation: Invocation) -> Any:
    """Return the texts of a range."""
    path, area = _place(input, invocation), read_area(input["range"])
    if area.sheet is not None:
        raise tool_failure(
            "bad_range", f"a csv file has no sheets, so name none: {input['range']!r:.100}"
        )
    check_size(area)
    text = await _read(path, invocation)
    return {
        "format": "csv",
        "path": str(path),
        "range": str(area),
        "sheet": SHEET,
        "rows": area.rows,
        "columns": area.columns,
        "values": text.values(area),
    }


@builtin(
    "Make a csv file of rows of values. Fails with exists if there is one already: change that "
    "with csv_edit_cells.",
    {"path": URI, "values": VALUES},
    effect=Effect.WRITE,
)
async def csv_create(input: Json, invocation: Invocation) -> Any:
    """Write a new csv file."""
    path, values = _place(input, invocation), input["values"]
    check_values(values)
    content: bytes = await invocation.inside.threads.run(partial(written, values))
    return await _write(path, content, invocation, replaces=False)


@builtin(
    "Change cells of a csv file, all or none; without value, or with null, a cell is emptied. The "
    "file grows as needed.",
    {"path": URI, "assignments": ASSIGNMENTS},
    effect=Effect.WRITE,
)
async def csv_edit_cells(input: Json, invocation: Invocation) -> Any:
    """Write cells of a csv file."""
    path = _place(input, invocation)
    assignments: dict[Cell, str] = {
        read_cell(each["cell"]): text_of(each.get("value")) for each in input["assignments"]
    }
    text = await _read(path, invocation)
    content: bytes = await invocation.inside.threads.run(partial(text.edit, assignments))
    return await _write(path, content, invocation, replaces=True)


async def _read(path: FilePath, invocation: Invocation) -> CsvText:
    content = await invocation.workspace.read(path, most=MOST_BYTES)
    text: CsvText = await invocation.inside.threads.run(partial(CsvText, content))
    return text


async def _write(
    path: FilePath, content: bytes, invocation: Invocation, *, replaces: bool
) -> dict[str, Any]:
    change = await invocation.workspace.write(path, content, replaces=replaces)
    invocation.change = FileChanges(files=(change,))
    return {"format": "csv", "path": str(path), "sheet": SHEET}


def _place(input: Json, invocation: Invocation) -> FilePath:
    return place(input, "path", invocation, ending=".csv")


TOOLS = (csv_inspect, csv_read, csv_create, csv_edit_cells)
