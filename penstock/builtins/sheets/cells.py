"""What may stand in cells, and how many of them one call reads, shows or makes."""

from typing import Any

from penstock.builtins.sheets.a1 import Area
from penstock.core.call_errors import tool_failure
from penstock.core.envelope import Json
from penstock.tools.builtin import fields_of, list_of

MOST_BYTES = 16 * 1024 * 1024
"""Of a workbook that is read or looked at."""
PREVIEW_ROWS, PREVIEW_COLUMNS = 10, 20
MOST_READ = 50_000
MOST_CREATED = 100_000
VALUE: Json = {"type": ["string", "number", "boolean", "null"]}
VALUES: Json = {"type": "array", "items": {"type": "array", "items": VALUE}}


def assignments_of(cell: Json) -> Json:
    """Return the schema of a list of values, each with the cell that it goes into."""
    return list_of(fields_of({"cell": cell, "value?": VALUE}), most=10_000)


def check_size(area: Area) -> None:
    """Raise ToolFailed for more cells than are read at once."""
    if area.size > MOST_READ:
        raise tool_failure(
            "too_large", f"at most {MOST_READ} cells are read at once, {area} has {area.size}"
        )


def check_values(values: list[list[Any]], *, most_columns: int | None = None) -> None:
    """Raise ToolFailed for more cells than a new file may have."""
    columns = max(map(len, values), default=0)
    cells = len(values) * columns
    if cells > MOST_CREATED or columns > (most_columns or columns):
        raise tool_failure(
            "too_large", f"a new file has at most {MOST_CREATED} cells, this has {cells}"
        )
