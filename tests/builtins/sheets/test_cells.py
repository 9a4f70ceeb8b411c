"""No call reads or makes more cells than fit into a conversation."""

import pytest

from penstock.builtins.sheets.a1 import read_area
from penstock.builtins.sheets.cells import (
    MOST_CREATED,
    VALUE,
    assignments_of,
    check_size,
    check_values,
)
from penstock.core.call_errors import ToolFailed


def test_a_range_of_more_cells_than_are_read_is_refused() -> None:
    check_size(read_area("A1:A50000"))
    with pytest.raises(ToolFailed, match="at most 50000 cells are read at once, A1:A50001 has"):
        check_size(read_area("A1:A50001"))


@pytest.mark.parametrize(
    ("values", "most_columns"),
    [
        ([[0]] * (MOST_CREATED + 1), None),
        ([[0] * (MOST_CREATED // 2), [0], [0]], None),
        ([[0, 0, 0]], 2),
    ],
)
def test_more_values_than_a_new_file_may_have_are_refused(
    values: list[list[int]], most_columns: int | None
) -> None:
    with pytest.raises(ToolFailed, match="a new file has at most 100000 cells, this has"):
        check_values(values, most_columns=most_columns)


@pytest.mark.parametrize("values", [[], [[]], [[0]] * MOST_CREATED, [[0, 0], [0]]])
def test_as_many_as_it_may_have_are_taken(values: list[list[int]]) -> None:
    check_values(values, most_columns=2)


def test_an_assignment_is_a_cell_and_a_value() -> None:
    one = assignments_of({"type": "string"})["items"]
    assert one["properties"] == {"cell": {"type": "string"}, "value": VALUE}
    assert one["required"] == ["cell"]
