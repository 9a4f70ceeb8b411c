"""The operations of the Excel tools on a workbook: inspect, read, create, and every edit.

Loaded late, with openpyxl, when the first workbook is used (`VERBS`). openpyxl drops the parts of a
package that it does not know, such as charts it cannot read: the output of `edit` names the kinds
of parts that the saved file has lost, and `inspect` names them before an edit.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import asdict
from openpyxl.worksheet.worksheet import Worksheet

from penstock.builtins.sheets.cells import (
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    Area,
    Cell,
    letters,
    read_area,
    read_column,
)
from penstock.builtins.sheets.package import not_kept
from penstock.builtins.sheets.workbook import ExcelFile, at, new_book, put, sizes_of
from penstock.builtins.sheets.worksheet import (
    Operation,
    apply,
    clear_style,
    copy_column,
    copy_row,
    copy_style,
    fit_row,
    stale_formulas,
)
from penstock.core.call_errors import tool_failure
from penstock.core.envelope import Json

MAX_STALE = 100
WorkbookEdit = Callable[["WorkbookEditor", Json], dict[str, Any]]


class WorkbookEditor:
    """Changes one workbook, and records which sheets it changed."""

    def __init__(self, content: bytes, sheet: str | None) -> None:
        self.book = ExcelFile(content)
        self.usual = self.book.sheet(sheet).title
        """The default sheet."""
        self.touched: list[str] = []
        """The changed sheets, in the order of their first change."""

    def touch(self, name: str | None = None) -> Worksheet:
        """Return a sheet that is about to change."""
        sheet = self.find(name)
        if sheet.title not in self.touched:
            self.touched.append(sheet.title)
        return sheet

    def find(self, name: str | None = None) -> Worksheet:
        """Return a sheet. Raises ToolFailed `no_such_sheet`."""
        return self.book.sheet(name or self.usual)

    def operate(self, operations: Sequence[Json]) -> dict[str, Any]:
        """Insert and delete rows and columns, in order."""
        parsed = [Operation(**operation) for operation in operations]
        sheet = self.touch()
        for operation in parsed:
            apply(sheet, operation)
        stale = [*stale_formulas(self.book.sheets, self.usual, parsed)][:MAX_STALE]
        self.book = self.book.reopened()
        made = {
            "applied_count": len(parsed),
            "applied_operations": [self._shown(each) for each in parsed],
        }
        return {**made, "stale_formulas": stale} if stale else made

    def assign(self, assignments: Iterable[Json]) -> int:
        """Write values into cells; returns how many."""
        count = 0
        for assignment in assignments:
            sheet, cell = self._cell(assignment["cell"])
            put(self.touch(sheet), cell, assignment.get("value"))
            count += 1
        return count

    def copy_style(self, source: str, targets: Iterable[str]) -> list[dict[str, Any]]:
        """Copy the style of a cell to other cells."""
        name, cell = self._cell(source)
        model = at(self.find(name), cell)
        return [self._styled(each, lambda target: copy_style(model, target)) for each in targets]

    def clear_style(self, targets: Iterable[str]) -> list[dict[str, Any]]:
        """Reset the style of cells."""
        return [self._styled(each, clear_style) for each in targets]

    def copy_row(self, source: Json, targets: Iterable[int]) -> list[dict[str, Any]]:
        """Copy style, height and merges of a row to other rows."""
        sheet, copied = self.touch(), []
        for row in targets:
            merged = copy_row(self.find(source.get("sheet")), source["row"], sheet, row)
            copied.append({"row": row, "sheet": sheet.title, "merge_ranges": merged})
        return copied

    def copy_column(self, source: Json, targets: Iterable[str]) -> list[dict[str, Any]]:
        """Copy style, width and merges of a column to other columns."""
        sheet, copied = self.touch(), []
        column = read_column(source["column"])
        for name in targets:
            to = read_column(name)
            merged = copy_column(self.find(source.get("sheet")), column, sheet, to)
            copied.append({"column": letters(to), "sheet": sheet.title, "merge_ranges": merged})
        return copied

    def fit(self, rows: Iterable[int]) -> list[dict[str, Any]]:
        """Make rows as high as their texts need."""
        sheet, fitted = self.touch(), []
        for row in rows:
            fit_row(sheet, row)
            fitted.append({"row": row, "sheet": sheet.title})
        return fitted

    def named(self, source: Json, place: str) -> dict[str, Any]:
        """Return the row or column that was copied, with its sheet."""
        return {place: source[place], "sheet": self.find(source.get("sheet")).title}

    def _cell(self, text: str) -> tuple[str, Cell]:
        area: Area = read_area(text)
        if area.size > 1:
            raise tool_failure("bad_range", f"expected one cell, found {text!r:.100}")
        return area.sheet or self.usual, area.first

    def _styled(self, text: str, style: Callable[[Any], None]) -> dict[str, Any]:
        sheet, cell = self._cell(text)
        style(at(self.touch(sheet), cell))
        return {"cell": str(cell), "sheet": sheet}

    def _shown(self, operation: Operation) -> dict[str, Any]:
        shown = {**asdict(operation), "sheet": self.usual}
        return shown if operation.is_rows else {**shown, "column": letters(operation.index)}


def edit(content: bytes, tool_id: str, input: Json) -> tuple[dict[str, Any], bytes]:
    """Change a workbook as a tool does; returns its output and the new file.

    The output lists what the new file has lost, whatever was changed.
    """
    editor = WorkbookEditor(content, input.get("sheet"))
    made = _EDITS[tool_id](editor, input)
    saved = editor.book.save()
    lost = not_kept(content, lambda: saved)
    return (made | {"not_kept": lost} if lost else made), saved


def _edit_cells(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    editor.assign(input["assignments"])
    return {"sheet": editor.usual}


def _copy_cell_style(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    copied = editor.copy_style(input["source_cell"], input["target_cells"])
    return {**_copied(editor, copied), "source_cell": input["source_cell"]}


def _clear_cell_style(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    cleared = editor.clear_style(input["cells"])
    return {
        "cleared_count": len(cleared),
        "cleared_targets": cleared,
        "sheets_touched": editor.touched,
    }


def _copy_row(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    source = input["source_row"]
    copied = editor.copy_row(source, input["target_rows"])
    return {**_copied(editor, copied), "source_row": editor.named(source, "row")}


def _copy_column(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    source = input["source_column"]
    copied = editor.copy_column(source, input["target_columns"])
    return {**_copied(editor, copied), "source_column": editor.named(source, "column")}


def _edit_structure(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    return {**editor.operate(input["operations"]), "sheet": editor.usual}


def _auto_fit_row(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    return editor.fit([input["row"]])[0]


def _apply_changes(editor: WorkbookEditor, input: Json) -> dict[str, Any]:
    """Make all changes of an input, in a fixed order."""
    nothing: dict[str, Any] = {"applied_count": 0, "applied_operations": []}
    operations = input.get("operations")
    structure = editor.operate(operations) if operations else nothing
    assigned = editor.assign(input.get("assignments", ()))
    rows = [
        {
            "source_row": editor.named(each["source_row"], "row"),
            "targets": editor.copy_row(each["source_row"], each["target_rows"]),
        }
        for each in input.get("row_copies", ())
    ]
    columns = [
        {
            "source_column": editor.named(each["source_column"], "column"),
            "targets": editor.copy_column(each["source_column"], each["target_columns"]),
        }
        for each in input.get("column_copies", ())
    ]
    styles = [
        {
            "source_cell": each["source_cell"],
            "targets": editor.copy_style(each["source_cell"], each["target_cells"]),
        }
        for each in input.get("style_copies", ())
    ]
    fitted = editor.fit(input["auto_fit_rows"]) if input.get("auto_fit_rows") else []
    return {
        **structure,
        "cell_assignment_count": assigned,
        "applied_row_copy_count": len(rows),
        "applied_row_copies": rows,
        "applied_column_copy_count": len(columns),
        "applied_column_copies": columns,
        "applied_style_copy_count": len(styles),
        "applied_style_copies": styles,
        "applied_auto_fit_count": len(fitted),
        "applied_auto_fit_rows": fitted,
        "sheets_touched": editor.touched,
    }


def _copied(editor: WorkbookEditor, copied: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "applied_targets": copied,
        "copied_count": len(copied),
        "sheets_touched": editor.touched,
    }


_EDITS: dict[str, WorkbookEdit] = {
    "excel_edit_cells": _edit_cells,
    "excel_copy_cell_style": _copy_cell_style,
    "excel_clear_cell_style": _clear_cell_style,
    "excel_copy_row": _copy_row,
    "excel_copy_column": _copy_column,
    "excel_edit_structure": _edit_structure,
    "excel_auto_fit_row": _auto_fit_row,
    "excel_apply_changes": _apply_changes,
}


def inspect(content: bytes) -> dict[str, Any]:
    """Return the sheets, each with its size and its first cells.

    Also what any edit would lose, so that a person can be asked before.
    """
    book = ExcelFile(content)
    lost = not_kept(content, book.save)
    sheets = _sheets(book)
    return {"sheets": sheets, "not_kept_by_edits": lost} if lost else {"sheets": sheets}


def _sheets(book: ExcelFile) -> list[dict[str, Any]]:
    shown = {each.title: book.shown(each, PREVIEW_ROWS, PREVIEW_COLUMNS) for each in book.sheets}
    areas = [(title, area) for title, area in shown.items() if area]
    previews = dict(zip([title for title, _ in areas], book.values(areas), strict=True))
    listed = []
    for sheet in book.sheets:
        columns, rows = sizes_of(sheet)
        listed.append(
            {
                "name": sheet.title,
                "rows": rows,
                "columns": columns,
                "preview": previews.get(sheet.title, []),
                "preview_range": str(shown[sheet.title] or ""),
            }
        )
    return listed


def read(content: bytes, area: Area, sheet: str | None) -> tuple[str, list[list[Any]]]:
    """Return the values of a range, and the name of its sheet."""
    book = ExcelFile(content)
    name = book.sheet(sheet).title
    return name, book.values([(name, area)])[0]


def create(content: bytes, sheet: str, values: list[list[Any]]) -> bytes:
    """Return a new workbook; there is no content before."""
    return content + new_book(sheet, values)


VERBS: dict[str, Callable[..., Any]] = {
    "inspect": inspect,
    "read": read,
    "create": create,
    "edit": edit,
}
