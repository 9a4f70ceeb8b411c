"""Tools for csv files of the workspace: inspect, read, create and edit them.

An edit changes the rows it names and nothing else: the text of every other row, with its quotes and
line end, is written back as it was (`CsvText`). The `csv` module alone would rewrite them all.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any

from penstock.builtins.sheets.cells import (
    PREVIEW_COLUMNS,
    PREVIEW_ROWS,
    VALUES,
    Area,
    Cell,
    assignments_of,
    check_size,
    check_values,
    read_area,
    read_cell,
    whole_area,
)
from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed, tool_failure
from penstock.core.envelope import Json
from penstock.core.json_values.json_text import compact
from penstock.core.scopes import FilePath
from penstock.core.stored.changes import WorkspaceChange
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import URI, builtin, place

MAX_BYTES = 16 * 1024 * 1024
_ENDS = ("\r\n", "\n", "\r")
SHEET = "Sheet1"
CELL: Json = {"type": "string", "description": "Such as B2."}
RANGE: Json = {"type": "string", "description": "Such as A1:C5."}
ASSIGNMENTS = assignments_of(CELL)


class CsvText:
    """The rows of a csv file (RFC 4180, comma, UTF-8); unchanged rows keep their text."""

    __slots__ = ("_changed", "_end", "_raw", "rows")

    def __init__(self, content: bytes) -> None:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise tool_failure(
                "not_text", f"the file is not UTF-8: byte {error.start} is invalid"
            ) from None
        lines = StringIO(text, newline="").readlines()
        self._end = (_end_of(lines[0]) if lines else "") or "\r\n"
        """The line end of new rows."""
        self.rows: list[list[str]] = []
        """The texts of the cells."""
        self._raw: list[str] = []
        """The rows as text, with their line ends."""
        self._changed: set[int] = set()
        """The numbers of the changed rows."""
        self._read(lines)

    @property
    def columns(self) -> int:
        """The number of cells in the longest row."""
        return max(map(len, self.rows), default=0)

    def values(self, area: Area) -> list[list[str | None]]:
        """Return the texts in an area; None where the file has no cell."""
        return [
            [self._text(row, column) for column in range(area.first.column, area.last.column + 1)]
            for row in range(area.first.row, area.last.row + 1)
        ]

    def edit(self, assignments: Mapping[Cell, str]) -> bytes:
        """Return the file with other texts in some cells; it grows for those outside."""
        filled = [cell for cell, text in assignments.items() if text]
        self._grow(max((cell.row for cell in filled), default=0))
        for cell, text in assignments.items():
            if cell.row <= len(self.rows) and (text or cell.column <= len(self.rows[cell.row - 1])):
                self._set(cell, text)
        return encoded("".join(self._written()))

    def _read(self, lines: list[str]) -> None:
        reader, begin = csv.reader(lines, strict=True), 0
        try:
            for row in reader:
                self.rows.append(row)
                self._raw.append("".join(lines[begin : reader.line_num]))
                begin = reader.line_num
        except csv.Error as error:
            line = reader.line_num
            raise tool_failure(
                "bad_format", f"the file is not a csv: line {line}: {error}"
            ) from None

    def _text(self, row: int, column: int) -> str | None:
        if row > len(self.rows) or column > len(self.rows[row - 1]):
            return None
        return self.rows[row - 1][column - 1]

    def _grow(self, rows: int) -> None:
        columns = max(self.columns, 1)
        added = rows - len(self.rows)
        if added * columns > MAX_BYTES:
            raise too_large()
        for _ in range(added):
            self._changed.add(len(self.rows))
            self.rows.append([""] * columns)
            self._raw.append(self._end)

    def _set(self, cell: Cell, text: str) -> None:
        row = self.rows[cell.row - 1]
        row.extend([""] * (cell.column - len(row)))
        row[cell.column - 1] = text
        self._changed.add(cell.row - 1)

    def _written(self) -> Iterator[str]:
        last = len(self.rows) - 1
        for number, (row, raw) in enumerate(zip(self.rows, self._raw, strict=True)):
            end = _end_of(raw)
            yield line_of(row) + end if number in self._changed else raw
            if not end and number < last:
                yield self._end


@builtin(
    "Say how many rows and columns a csv file has, and show its beginning.",
    {"path": URI},
    effect=Effect.READ,
)
async def csv_inspect(input: Json, invocation: Invocation) -> Any:
    """Return the size and a preview of a csv file."""
    path = _place(input, invocation)
    text = await _read(path, invocation)
    shown = whole_area(min(len(text.rows), PREVIEW_ROWS), min(text.columns, PREVIEW_COLUMNS))
    sheet = {
        "name": SHEET,
        "rows": len(text.rows),
        "columns": text.columns,
        "preview": [[each or "" for each in row] for row in text.values(shown)] if shown else [],
        "preview_range": str(shown or ""),
    }
    return {"format": "csv", "path": str(path), "sheets": [sheet]}


@builtin(
    "Read a range of a csv file, such as A1:C5, at most 50,000 cells: their texts, and null where "
    "there is no cell.",
    {"path": URI, "range": RANGE},
    effect=Effect.READ,
)
async def csv_read(input: Json, invocation: Invocation) -> Any:
    """Return the texts of a range."""
    path, area = _place(input, invocation), read_area(input["range"])
    if area.sheet is not None:
        raise tool_failure(
            "bad_range", f"a csv file has no sheets, so name none: {input['range']!r:.100}"
        )
    check_size(area)
    text = await _read(path, invocation)
    return {
        "format": "csv",
        "path": str(path),
        "range": str(area),
        "sheet": SHEET,
        "rows": area.rows,
        "columns": area.columns,
        "values": text.values(area),
    }


@builtin(
    "Make a csv file of rows of values. Fails with exists if there is one already: change that "
    "with csv_edit_cells.",
    {"path": URI, "values": VALUES},
    effect=Effect.WRITE,
)
async def csv_create(input: Json, invocation: Invocation) -> Any:
    """Write a new csv file."""
    path, values = _place(input, invocation), input["values"]
    check_values(values)
    content: bytes = await invocation.edition.threads.run(partial(written, values))
    return await _write(path, content, invocation, replaces=False)


@builtin(
    "Change cells of a csv file, all or none; without value, or with null, a cell is emptied. The "
    "file grows as needed.",
    {"path": URI, "assignments": ASSIGNMENTS},
    effect=Effect.WRITE,
)
async def csv_edit_cells(input: Json, invocation: Invocation) -> Any:
    """Write cells of a csv file."""
    path = _place(input, invocation)
    assignments: dict[Cell, str] = {
        read_cell(each["cell"]): text_of(each.get("value")) for each in input["assignments"]
    }
    text = await _read(path, invocation)
    content: bytes = await invocation.edition.threads.run(partial(text.edit, assignments))
    return await _write(path, content, invocation, replaces=True)


async def _read(path: FilePath, invocation: Invocation) -> CsvText:
    content = await invocation.workspace.read(path, most=MAX_BYTES)
    text: CsvText = await invocation.edition.threads.run(partial(CsvText, content))
    return text


async def _write(
    path: FilePath, content: bytes, invocation: Invocation, *, replaces: bool
) -> dict[str, Any]:
    change = await invocation.workspace.write(path, content, replaces=replaces)
    invocation.change = WorkspaceChange(files=(change,))
    return {"format": "csv", "path": str(path), "sheet": SHEET}


def _place(input: Json, invocation: Invocation) -> FilePath:
    return place(input, "path", invocation, ending=".csv")


def written(values: Sequence[Sequence[Any]]) -> bytes:
    """Return a new file with these values; short rows are padded."""
    columns = max(map(len, values), default=0)
    texts = [[*map(text_of, row), *[""] * (columns - len(row))] for row in values]
    return encoded("".join(f"{line_of(row)}\r\n" for row in texts))


def line_of(row: Sequence[str]) -> str:
    """Return the text of a row, without its line end."""
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(row)
    return line.getvalue().removesuffix("\r\n")


def text_of(value: Any) -> str:
    """Return the text of a value in a cell."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else compact(value)
    if len(text) > (most := csv.field_size_limit()):
        raise tool_failure(
            "too_large", f"a cell has at most {most} characters, one would have more"
        )
    return text


def encoded(text: str) -> bytes:
    """Return the bytes of a file. Raises ToolFailed if they are too many."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise tool_failure(
            "not_text", "a cell would hold a lone surrogate, which is not text"
        ) from None
    if len(content) > MAX_BYTES:
        raise too_large()
    return content


def too_large() -> ToolFailed:
    """Return the error for a file that is too large."""
    return tool_failure(
        "too_large", f"a csv file has at most {MAX_BYTES} bytes, this would have more"
    )


def _end_of(raw: str) -> str:
    return next((each for each in _ENDS if raw.endswith(each)), "")


TOOLS = (csv_inspect, csv_read, csv_create, csv_edit_cells)
