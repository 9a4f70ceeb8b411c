"""A workbook as people make them, on a desk with the tools for it."""

from io import BytesIO

from openpyxl import Workbook, load_workbook
from openpyxl.styles import Font, PatternFill

from penstock.builtins.sheets.excel import TOOLS
from tests.kit.workbench import Desk, open_desk

PATH = "task://a.xlsx"
HERE = {"format": "xlsx", "path": PATH}
BOLD = Font(bold=True, size=20)
RED = PatternFill("solid", fgColor="FFFF0000")


def saved(book: Workbook) -> bytes:
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def sales() -> bytes:
    """A workbook as people make them: styles, merged cells, widths, a formula, two sheets."""
    book = Workbook()
    sheet = book.worksheets[0]
    sheet.title = "Sales"
    for row in (
        ["Name", "Sum", None],
        ["Ann", 1.5, True],
        ["Bob", 2, False],
        ["All", "=SUM(B2:B3)"],
    ):
        sheet.append(row)
    sheet["A1"].font = BOLD
    sheet["B1"].fill = RED
    sheet.row_dimensions[1].height = 40
    sheet.column_dimensions["A"].width = 30
    sheet.merge_cells("D1:E1")
    sheet.merge_cells("F2:F3")
    notes = book.create_sheet("My notes")
    notes["B2"] = '=Sales!A4&"!A9"'
    return saved(book)


async def furnished() -> Desk:
    desk = await open_desk(*TOOLS)
    given: dict[str, bytes | str] = {
        PATH: sales(),
        "task://text.xlsx": "no workbook",
        "task://empty.xlsx": "",
        "task://d.xlsx/x": "",
    }
    for uri, content in given.items():
        await desk.put(uri, content)
    return desk


async def opened(desk: Desk) -> Workbook:
    return load_workbook(BytesIO(await desk.get(PATH)))
