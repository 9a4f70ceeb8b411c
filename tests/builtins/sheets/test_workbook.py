"""Values of a workbook as JSON."""

from datetime import timedelta
from typing import Any

import pytest
from openpyxl import Workbook
from openpyxl.worksheet.formula import ArrayFormula

from penstock.builtins.sheets.workbook import cells_of, sizes_of, value_of


@pytest.mark.parametrize(
    ("last", "text", "value"),
    [
        (None, None, None),
        (None, "=A1", "=A1"),
        (3, "=A1", 3),
        (True, True, True),
        (2**53, None, float(2**53)),
        (10**400, None, str(10**400)),
        (float("inf"), None, "inf"),
        (float("nan"), None, "nan"),
        (timedelta(minutes=-90), None, "-PT1H30M0S"),
        (None, ArrayFormula("A1:A2", "=B1:B2"), "=B1:B2"),
    ],
)
def test_a_value(last: Any, text: Any, value: Any) -> None:
    assert value_of(last, text) == value


def test_looking_at_a_sheet_makes_no_cells() -> None:
    sheet = Workbook().worksheets[0]
    assert sizes_of(sheet) == (0, 0)
    sheet["XFD1048576"] = 1
    assert sizes_of(sheet) == (16_384, 1_048_576)
    assert len(cells_of(sheet)) <= 2
