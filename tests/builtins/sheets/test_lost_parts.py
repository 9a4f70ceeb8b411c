"""What a workbook loses with a save."""

from io import BytesIO
from zipfile import ZipFile

import pytest

from penstock.builtins.sheets.excel import TOOLS
from penstock.builtins.sheets.lost_parts import not_kept
from tests.kit.packages import with_file
from tests.kit.workbench import open_desk
from tests.kit.workbooks import HERE, PATH, illustrated, opened, sales

LOST = ["1 picture", "1 shape"]


async def test_what_an_edit_loses_is_told_before_and_after_and_charts_stay() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, illustrated())
    assert (await desk.made("excel_inspect", path=PATH))["not_kept_by_edits"] == LOST
    change = {"assignments": [{"cell": "B2", "value": 5}]}
    made = await desk.made("excel_edit_cells", path=PATH, **change)
    assert made == {**HERE, "sheet": "Sheet", "not_kept": LOST}
    names = ZipFile(BytesIO(await desk.get(PATH))).namelist()
    assert "xl/charts/chart1.xml" in names
    assert not [each for each in names if each.startswith("xl/media/")]
    assert (await opened(desk)).worksheets[0]["B2"].value == 5
    assert "not_kept" not in await desk.made("excel_edit_cells", path=PATH, **change)


async def test_it_is_told_although_rows_were_moved_in_between() -> None:
    desk = await open_desk(*TOOLS)
    await desk.put(PATH, illustrated())
    operations = [{"kind": "insert_rows", "index": 2}]
    made = await desk.made("excel_edit_structure", path=PATH, operations=operations)
    assert made["not_kept"] == LOST


async def test_nothing_is_told_of_a_file_that_has_no_such_parts() -> None:
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
def test_parts_are_told_as_people_call_them(names: list[str], told: list[str]) -> None:
    before = sales()
    for name in names:
        before = with_file(before, name, b"")
    assert not_kept(before, sales) == told
    assert not_kept(before, lambda: before) == []
