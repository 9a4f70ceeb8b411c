"""No call reads or makes more cells than fit into a conversation."""

import pytest

from penstock.builtins.sheets.cells import (
    MAX_CREATED,
    VALUE,
    Area,
    Cell,
    assignments_of,
    check_size,
    check_values,
    letters,
    number,
    read_area,
    read_cell,
    read_column,
    whole_area,
)
from penstock.core.call_errors import ToolFailed


def test_a_range_of_more_cells_than_are_read_is_refused() -> None:
    check_size(read_area("A1:A50000"))
    with pytest.raises(ToolFailed, match="at most 50000 cells are read at once, A1:A50001 has"):
        check_size(read_area("A1:A50001"))


@pytest.mark.parametrize(
    ("values", "max_columns"),
    [
        ([[0]] * (MAX_CREATED + 1), None),
        ([[0] * (MAX_CREATED // 2), [0], [0]], None),
        ([[0, 0, 0]], 2),
    ],
)
def test_more_values_than_a_new_file_may_have_are_refused(
    values: list[list[int]], max_columns: int | None
) -> None:
    with pytest.raises(ToolFailed, match="a new file has at most 100000 cells, this has"):
        check_values(values, max_columns=max_columns)


@pytest.mark.parametrize("values", [[], [[]], [[0]] * MAX_CREATED, [[0, 0], [0]]])
def test_as_many_as_the_limit_are_accepted(values: list[list[int]]) -> None:
    check_values(values, max_columns=2)
    with pytest.raises(ToolFailed, match="a new file has at most"):
        check_values([*values, [0, 0, 0]], max_columns=2)


def test_an_assignment_is_a_cell_and_a_value() -> None:
    one = assignments_of({"type": "string"})["items"]
    assert one["properties"] == {"cell": {"type": "string"}, "value": VALUE}
    assert one["required"] == ["cell"]


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
def test_an_invalid_range_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        read_area(text if text != "A1\n" else "A1\nB1")
    assert refused.value.details == {"reason": "bad_range"}


def test_columns_count_on_after_z() -> None:
    names = ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA", "XFD"]
    assert [number(each) for each in names] == [1, 26, 27, 52, 53, 702, 703, 16_384]
    assert all(letters(number(each)) == each for each in names)


@pytest.mark.parametrize("text", ["", "1", "A1", "XFE", "AAAA", "Ä"])
def test_an_invalid_column_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed, match="expected a column from A to XFD"):
        read_column(text)
    assert read_column("c") == 3


def test_an_area_knows_its_size() -> None:
    area = read_area("B2:D3")
    assert (area.rows, area.columns, area.size, str(area)) == (2, 3, 6, "B2:D3")
    assert str(whole_area(2, 1)) == "A1:A2"
    assert whole_area(0, 1) is None
