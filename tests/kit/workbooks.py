"""A workbook as people make them, and the tools for it."""

import base64
from io import BytesIO

from openpyxl import Workbook, load_workbook
from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Font, PatternFill

from penstock.builtins.sheets.excel import TOOLS
from tests.kit.packages import with_file, with_part
from tests.kit.workbench import Desk, open_desk

PATH = "task://a.xlsx"
HERE = {"format": "xlsx", "path": PATH}
BOLD = Font(bold=True, size=20)
RED = PatternFill("solid", fgColor="FFFF0000")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_ANCHOR = (
    b"<oneCellAnchor><from><col>8</col><colOff>0</colOff><row>%d</row><rowOff>0</rowOff></from>"
    b'<ext cx="9525" cy="9525"/>%s<clientData/></oneCellAnchor>'
)
_SIZED = (
    b'<spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="9525" cy="9525"/></a:xfrm>'
    b'<a:prstGeom prst="rect"><a:avLst/></a:prstGeom></spPr>'
)
PICTURE = _ANCHOR % (
    1,
    b'<pic><nvPicPr><cNvPr id="2" name="Picture 1"/><cNvPicPr/></nvPicPr><blipFill>'
    b'<a:blip r:embed="rId9"/><a:stretch><a:fillRect/></a:stretch></blipFill>' + _SIZED + b"</pic>",
)
SHAPE = _ANCHOR % (
    9,
    b'<sp macro="" textlink=""><nvSpPr><cNvPr id="3" name="Shape 1"/><cNvSpPr/></nvSpPr>'
    + _SIZED
    + b"</sp>",
)
IMAGE_RELATED = (
    b'<Relationship Id="rId9" Target="/xl/media/image1.png" '
    b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"/>'
)
PNG_TYPE = b'<Default Extension="png" ContentType="image/png"/>'


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


def illustrated() -> bytes:
    """A workbook with a chart, a picture and a shape, as Excel writes them."""
    book = Workbook()
    sheet = book.worksheets[0]
    for row in (["Name", "Sum"], ["Ann", 1], ["Bob", 2]):
        sheet.append(row)
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D2")
    content = with_part(
        saved(book), "xl/drawings/drawing1.xml", b"</wsDr>", PICTURE + SHAPE + b"</wsDr>"
    )
    related = b"</Relationships>"
    content = with_part(
        content, "xl/drawings/_rels/drawing1.xml.rels", related, IMAGE_RELATED + related
    )
    content = with_part(content, "[Content_Types].xml", b"</Types>", PNG_TYPE + b"</Types>")
    return with_file(content, "xl/media/image1.png", PNG)


async def furnished() -> Desk:
    desk = await open_desk(*TOOLS)
    parts: dict[str, bytes | str] = {
        PATH: sales(),
        "task://text.xlsx": "no workbook",
        "task://empty.xlsx": "",
        "task://d.xlsx/x": "",
    }
    for uri, content in parts.items():
        await desk.put(uri, content)
    return desk


async def opened(desk: Desk) -> Workbook:
    return load_workbook(BytesIO(await desk.get(PATH)))
