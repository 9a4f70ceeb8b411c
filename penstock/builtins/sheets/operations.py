"""What is done with a workbook, by name: the one file that is loaded late."""

from collections.abc import Callable
from typing import Any

from penstock.builtins.sheets.a1 import Area
from penstock.builtins.sheets.cells import PREVIEW_COLUMNS, PREVIEW_ROWS
from penstock.builtins.sheets.edits import edit
from penstock.builtins.sheets.lost_parts import not_kept
from penstock.builtins.sheets.workbook import ExcelFile, new_book, sizes_of
from penstock.core.envelope import Json


def inspect(content: bytes) -> dict[str, Any]:
    """Return what sheets there are, each with its size and its beginning.

    And what any edit would lose, so that people can be asked before.
    """
    book = ExcelFile(content)
    lost = not_kept(content, book.save)
    sheets = _sheets(book)
    return {"sheets": sheets, "not_kept_by_edits": lost} if lost else {"sheets": sheets}


def _sheets(book: ExcelFile) -> list[dict[str, Any]]:
    shown = {each.title: book.shown(each, PREVIEW_ROWS, PREVIEW_COLUMNS) for each in book.sheets}
    areas = [(title, area) for title, area in shown.items() if area]
    previews = dict(zip([title for title, _ in areas], book.values(areas), strict=True))
    found = []
    for sheet in book.sheets:
        columns, rows = sizes_of(sheet)
        found.append(
            {
                "name": sheet.title,
                "rows": rows,
                "columns": columns,
                "preview": previews.get(sheet.title, []),
                "preview_range": str(shown[sheet.title] or ""),
            }
        )
    return found


def read(content: bytes, area: Area, sheet: str | None) -> tuple[str, list[list[Any]]]:
    """Return the values of a range, and the name of its sheet."""
    book = ExcelFile(content)
    name = book.sheet(sheet).title
    return name, book.values([(name, area)])[0]


def create(content: bytes, sheet: str, values: list[list[Any]]) -> bytes:
    """Return a new workbook; there is no content before."""
    return content + new_book(sheet, values)


def change(content: bytes, tool_id: str, input: Json) -> tuple[dict[str, Any], bytes]:
    """Return what a tool says of its change, and the new file."""
    return edit(tool_id, content, input)


VERBS: dict[str, Callable[..., Any]] = {
    "inspect": inspect,
    "read": read,
    "create": create,
    "edit": change,
}
