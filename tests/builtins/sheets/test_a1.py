"""The names of cells and ranges; what is none of these is refused."""

import pytest

from penstock.builtins.sheets.a1 import (
    Area,
    Cell,
    letters,
    number,
    read_area,
    read_cell,
    read_column,
    whole_area,
)
from penstock.core.call_errors import ToolFailed


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("A1", Cell(1, 1)),
        ("b2", Cell(2, 2)),
        ("$AB$10", Cell(10, 28)),
        ("XFD1048576", Cell(1_048_576, 16_384)),
    ],
)
def test_a_cell(text: str, cell: Cell) -> None:
    assert read_cell(text) == cell
    assert str(cell) == text.replace("$", "").upper()


@pytest.mark.parametrize(
    ("text", "area"),
    [
        ("B2", Area(Cell(2, 2), Cell(2, 2))),
        ("A1:C5", Area(Cell(1, 1), Cell(5, 3))),
        ("C5:A1", Area(Cell(1, 1), Cell(5, 3))),
        ("A5:C1", Area(Cell(1, 1), Cell(5, 3))),
        (" A1:C5 ", Area(Cell(1, 1), Cell(5, 3))),
        ("Sheet!A1:B2", Area(Cell(1, 1), Cell(2, 2), "Sheet")),
        ("'My sheet'!A1", Area(Cell(1, 1), Cell(1, 1), "My sheet")),
        ("'It''s!'!A1:A2", Area(Cell(1, 1), Cell(2, 1), "It's!")),
        ("Täfel!A1", Area(Cell(1, 1), Cell(1, 1), "Täfel")),
    ],
)
def test_a_range(text: str, area: Area) -> None:
    assert read_area(text) == area


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "A",
            "1",
            "A0",
            "A01",
            "1A",
            "A1:",
            ":A1",
            "A1:B2:C3",
            "A1-B2",
            "A1,B2",
            "A:C",
            "1:5",
        ),
        *("XFE1", "A1048577", "AAAA1", "A99999999", "Ä1", "A\u0661", "A1\n", "A 1"),
        *("!A1", "''!A1", "My sheet!A1", "'My sheet!A1", "A!B!C1", "Sheet!", "Sheet!A1:Sheet!B2"),
    ],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        read_area(text if text != "A1\n" else "A1\nB1")
    assert refused.value.details == {"reason": "bad_range"}


def test_columns_count_on_after_z() -> None:
    names = ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA", "XFD"]
    assert [number(each) for each in names] == [1, 26, 27, 52, 53, 702, 703, 16_384]
    assert all(letters(number(each)) == each for each in names)


@pytest.mark.parametrize("text", ["", "1", "A1", "XFE", "AAAA", "Ä"])
def test_what_is_no_column(text: str) -> None:
    with pytest.raises(ToolFailed, match="wanted a column from A to XFD"):
        read_column(text)
    assert read_column("c") == 3


def test_an_area_knows_its_size() -> None:
    area = read_area("B2:D3")
    assert (area.rows, area.columns, area.size, str(area)) == (2, 3, 6, "B2:D3")
    assert str(whole_area(2, 1)) == "A1:A2"
    assert whole_area(0, 1) is None
