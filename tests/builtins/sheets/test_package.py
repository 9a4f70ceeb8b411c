"""Hostile workbooks: bombs, entities, sparse giants and links are refused quickly."""

import zipfile
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from zipfile import ZipFile

import pytest
from openpyxl import Workbook

from penstock.builtins.sheets.excel import TOOLS
from penstock.builtins.sheets.package import not_kept, take_census
from penstock.core.call_errors import ToolFailed
from tests.kit.packages import with_file, with_part
from tests.kit.workbench import open_desk
from tests.kit.workbooks import HERE, PATH, illustrated, opened, sales

SHEET = "xl/worksheets/sheet1.xml"
ENTITIES = b"".join(
    b'<!ENTITY e%d "%s">' % (each, b"&e%d;" % (each - 1) * 10) for each in range(1, 10)
)
LAUGHS = b'<!DOCTYPE x [<!ENTITY e0 "ha">' + ENTITIES + b"]>"
OUTSIDE = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
ROOM = b"<sheetData>"
END = b"</worksheet>"


def book(**cells: str) -> bytes:
    made, content = Workbook(), BytesIO()
    made.worksheets[0]["A1"] = 1
    for name, value in cells.items():
        made.worksheets[0][name] = value
    made.save(content)
    return content.getvalue()


def with_sheet(old: bytes, new: bytes) -> bytes:
    return with_part(book(), SHEET, old, new)


def packed(**parts: bytes) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        for name, part in parts.items():
            package.writestr(name, part)
    return content.getvalue()


def merged(area: str) -> bytes:
    cells = f'<mergeCells count="1"><mergeCell ref="{area}"/></mergeCells>'.encode()
    return with_sheet(b"</sheetData>", b"</sheetData>" + cells)


def linked(area: str) -> bytes:
    cells = f'<hyperlinks><hyperlink ref="{area}" location="A1"/></hyperlinks>'.encode()
    return with_sheet(b"<pageMargins", cells + b"<pageMargins")


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "no zip": (lambda: b"no zip", "bad_format"),
    "nothing": (lambda: b"", "bad_format"),
    "cut": (lambda: book()[:-100], "bad_format"),
    "another zip": (lambda: packed(a=b"<a/>"), "bad_format"),
    "empty zip": (packed, "bad_format"),
    "unpacks to much": (lambda: packed(a=bytes(128 * 2**20 + 1)), "too_large"),
    "laughs": (lambda: with_sheet(b"<worksheet", LAUGHS + b"<worksheet"), "bad_format"),
    "reads files": (lambda: with_sheet(b"<worksheet", OUTSIDE + b"<worksheet"), "bad_format"),
    "laughs in UTF-16": (
        lambda: packed(a=(LAUGHS + b"<a/>").decode().encode("utf-16")),
        "bad_format",
    ),
    "deep": (lambda: with_sheet(END, b"<a>" * 100 + b"</a>" * 100 + END), "bad_format"),
    "broken": (lambda: with_sheet(END, b"</open>"), "bad_format"),
    "many elements": (lambda: packed(a=b"<a>" + b"<b/>" * 2_000_001 + b"</a>"), "too_large"),
    "merges all": (lambda: merged("A1:XFD1048576"), "too_large"),
    "merges many": (lambda: merged("A1:J100001"), "too_large"),
    "merges nonsense": (lambda: merged("A0:B9"), "bad_format"),
    "links all": (lambda: linked("A1:XFD1048576"), "too_large"),
    "a number that is none": (lambda: with_sheet(b"<v>1</v>", b"<v>one</v>"), "bad_format"),
    "a style that is none": (lambda: with_sheet(b't="n"', b's="99" t="n"'), "bad_format"),
    "a text that is none": (lambda: with_sheet(b't="n"', b't="s"'), "bad_format"),
    "a cell that is none": (lambda: with_sheet(b'r="A1"', b'r="??"'), "bad_format"),
}


@lru_cache(maxsize=1)
def hostile(name: str) -> bytes:
    """Make a workbook once for its two tests, which follow each other."""
    return HOSTILE[name][0]()


@pytest.mark.chaos
@pytest.mark.slow("128 MiB are unpacked, two million elements counted")
@pytest.mark.parametrize("tool_id", ["excel_inspect", "excel_edit_cells"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_workbook_is_refused(name: str, tool_id: str) -> None:
    content, why = hostile(name), HOSTILE[name][1]
    desk = await open_desk(*TOOLS)
    await desk.put("task://a.xlsx", content)
    more = {"assignments": [{"cell": "A1"}]} if tool_id == "excel_edit_cells" else {}
    assert await desk.refusal(tool_id, path="task://a.xlsx", **more) == why
    assert await desk.get("task://a.xlsx") == content


SPARSE = [
    ("excel_inspect", {}),
    ("excel_read", {"range": "XFC1048575:XFD1048576"}),
    ("excel_edit_cells", {"assignments": [{"cell": "B2", "value": 1}]}),
    ("excel_copy_row", {"source_row": {"row": 1_048_576}, "target_rows": [2]}),
    ("excel_copy_column", {"source_column": {"column": "XFD"}, "target_columns": ["B"]}),
    ("excel_edit_structure", {"operations": [{"kind": "insert_rows", "index": 1_048_577}]}),
    ("excel_auto_fit_row", {"row": 1}),
]


@pytest.mark.slow("the sheet has a million rows")
@pytest.mark.parametrize(("tool_id", "more"), SPARSE)
async def test_a_cell_in_the_last_corner_costs_no_memory(
    tool_id: str, more: dict[str, object]
) -> None:
    desk = await open_desk(*TOOLS)
    await desk.put("task://a.xlsx", book(XFD1048576="last", B7="=A1"))
    envelope = await desk.call(tool_id, path="task://a.xlsx", **more)
    assert envelope.ok or tool_id == "excel_edit_structure"


async def test_a_deletion_in_a_giant_sheet_is_refused() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put("task://a.xlsx", book(XFD1048576="last"))
    for kind, count, why in (
        ("delete_columns", 16_000, "too_large"),
        ("delete_rows", 1_000_000, "too_large"),
        ("insert_rows", 1, "bad_range"),
    ):
        operations = [{"kind": kind, "index": 1, "count": count}]
        given = {"path": "task://a.xlsx", "operations": operations}
        assert await desk.refusal("excel_edit_structure", **given) == why


async def test_links_to_other_workbooks_are_kept_and_never_followed() -> None:
    desk = await open_desk(*TOOLS)
    formula = "='[https://evil.test/x.xlsx]Sheet1'!A1"
    await desk.put("task://a.xlsx", book(B1=formula))
    found = await desk.made("excel_read", path="task://a.xlsx", range="B1")
    assert found["values"] == [[formula]]


def test_formulas_are_counted() -> None:
    assert take_census(book(B1="=A1", B2="=A1", B3="A1")).formulas == 2
    with pytest.raises(ToolFailed, match="it is not an Excel file"):
        take_census(b"")


LOST = ["1 shape"]
"""The picture stays, because Pillow is installed."""


async def test_lost_parts_are_reported_before_and_after_an_edit_and_charts_stay() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, illustrated())
    assert (await desk.made("excel_inspect", path=PATH))["not_kept_by_edits"] == LOST
    change = {"assignments": [{"cell": "B2", "value": 5}]}
    made = await desk.made("excel_edit_cells", path=PATH, **change)
    assert made == {**HERE, "sheet": "Sheet", "not_kept": LOST}
    names = ZipFile(BytesIO(await desk.get(PATH))).namelist()
    assert "xl/charts/chart1.xml" in names
    assert [each for each in names if each.startswith("xl/media/")] == ["xl/media/image1.png"]
    assert (await opened(desk)).worksheets[0]["B2"].value == 5
    assert "not_kept" not in await desk.made("excel_edit_cells", path=PATH, **change)


async def test_lost_parts_are_reported_after_rows_moved() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, illustrated())
    operations = [{"kind": "insert_rows", "index": 2}]
    made = await desk.made("excel_edit_structure", path=PATH, operations=operations)
    assert made["not_kept"] == LOST


async def test_a_file_without_such_parts_reports_nothing() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, sales())
    assert set(await desk.made("excel_inspect", path=PATH)) == {"format", "path", "sheets"}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["xl/media/image1.png", "xl/media/image2.emf"], ["2 pictures"]),
        (["xl/charts/chartEx1.xml", "xl/charts/style1.xml"], ["1 chart"]),
        (
            ["xl/pivotTables/pivotTable1.xml", "xl/slicers/slicer1.xml"],
            ["1 pivot table", "1 slicer"],
        ),
        (["xl/embeddings/oleObject1.bin"], ["1 embedded object"]),
        (["xl/threadedComments/threadedComment1.xml"], ["1 threaded comment"]),
        (["docProps/custom.xml", "xl/theme/theme2.xml"], []),
    ],
)
def test_lost_parts_have_readable_names(names: list[str], told: list[str]) -> None:
    before = sales()
    for name in names:
        before = with_file(before, name, b"")
    assert not_kept(before, sales) == told
    assert not_kept(before, lambda: before) == []
