"""csv files through built-in tools.

N43: "delegating format-specific work to a built-in tool".
"""

from typing import Any

import pytest

from penstock.builtins.sheets.cells import read_area, read_cell
from penstock.builtins.sheets.csv import TOOLS, CsvText, text_of, written
from penstock.core.call_errors import ToolFailed
from tests.kit.workbench import Desk, open_desk

HERE = {"format": "csv", "path": "task://a.csv"}


async def furnished() -> Desk:
    desk = await open_desk(*TOOLS)
    given: dict[str, bytes | str] = {
        "task://a.csv": "name,n\r\nAnn,1\r\nBob\r\n",
        "task://empty.csv": "",
        "task://latin.csv": "é".encode("latin-1"),
        "task://broken.csv": '"open',
        "task://d.csv/x": "",
        "task://a.txt": "",
    }
    for uri, content in given.items():
        await desk.put(uri, content)
    return desk


async def test_a_file_is_looked_at() -> None:
    desk = await furnished()
    sheet = {
        "name": "Sheet1",
        "rows": 3,
        "columns": 2,
        "preview": [["name", "n"], ["Ann", "1"], ["Bob", ""]],
        "preview_range": "A1:B3",
    }
    assert await desk.made("csv_inspect", path="task://a.csv") == {**HERE, "sheets": [sheet]}
    empty = (await desk.made("csv_inspect", path="task://empty.csv"))["sheets"][0]
    assert (empty["rows"], empty["columns"], empty["preview"], empty["preview_range"]) == (
        *(0, 0),
        *([], ""),
    )


async def test_a_preview_has_ten_rows_of_twenty() -> None:
    desk = await furnished()
    await desk.put("task://wide.csv", "\n".join([",".join(map(str, range(30)))] * 20))
    sheet = (await desk.made("csv_inspect", path="task://wide.csv"))["sheets"][0]
    assert (sheet["rows"], sheet["columns"], sheet["preview_range"]) == (20, 30, "A1:T10")
    assert sheet["preview"] == [list(map(str, range(20)))] * 10


async def test_a_range_is_read() -> None:
    desk = await furnished()
    size = {"sheet": "Sheet1", "rows": 2, "columns": 3}
    values = [["Ann", "1", None], ["Bob", None, None]]
    found = await desk.made("csv_read", path="task://a.csv", range="C3:A2")
    assert found == {**HERE, "range": "A2:C3", **size, "values": values}


async def test_a_created_file_is_read_and_edited() -> None:
    desk = await furnished()
    made = await desk.made("csv_create", path="session://x.csv", values=[["a", 1.5], [True, None]])
    assert made == {"format": "csv", "path": "session://x.csv", "sheet": "Sheet1"}
    assignments = [{"cell": "A1"}, {"cell": "B2", "value": "=x"}, {"cell": "C3", "value": 7}]
    edited = await desk.made("csv_edit_cells", path="session://x.csv", assignments=assignments)
    assert edited == made
    found = await desk.made("csv_read", path="session://x.csv", range="A1:C3")
    assert found["values"] == [["", "1.5", None], ["true", "=x", None], ["", "", "7"]]
    assert await desk.get("session://x.csv") == b",1.5\r\ntrue,=x\r\n,,7\r\n"


CELL = {"cell": "A1", "value": "x"}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("csv_inspect", {"path": "task://none.csv"}, "not_found"),
    ("csv_inspect", {"path": "task://d.csv"}, "is_directory"),
    ("csv_inspect", {"path": "task://latin.csv"}, "not_text"),
    ("csv_inspect", {"path": "task://broken.csv"}, "bad_format"),
    ("csv_inspect", {"path": "task://a.txt"}, "invalid"),
    ("csv_inspect", {"path": "a.csv"}, "invalid"),
    ("csv_read", {"path": "task://none.csv", "range": "A1"}, "not_found"),
    ("csv_read", {"path": "task://a.csv", "range": "A"}, "bad_range"),
    ("csv_read", {"path": "task://a.csv", "range": ""}, "bad_range"),
    ("csv_read", {"path": "task://a.csv", "range": "Sheet1!A1"}, "bad_range"),
    ("csv_read", {"path": "task://a.csv", "range": "A1:A50001"}, "too_large"),
    ("csv_read", {"path": "task://a.csv", "range": "A1:XFD1048576"}, "too_large"),
    ("csv_read", {"path": "task://a.csv"}, "invalid"),
    ("csv_create", {"path": "task://a.csv", "values": []}, "exists"),
    ("csv_create", {"path": "task://d.csv", "values": []}, "is_directory"),
    ("csv_create", {"path": "task://x.csv", "values": [[[]]]}, "invalid"),
    ("csv_create", {"path": "task://x.csv", "values": ["a"]}, "invalid"),
    ("csv_create", {"path": "task://x.csv", "values": [[1] * 100, *[[]] * 1000]}, "too_large"),
    ("csv_create", {"path": "task://x.csv", "values": [["x" * 131_073]]}, "too_large"),
    ("csv_create", {"path": "task://x.csv", "values": [["\ud800"]]}, "not_text"),
    ("csv_edit_cells", {"path": "task://none.csv", "assignments": [CELL]}, "not_found"),
    ("csv_edit_cells", {"path": "task://a.csv", "assignments": []}, "invalid"),
    ("csv_edit_cells", {"path": "task://a.csv", "assignments": [CELL] * 10_001}, "invalid"),
    ("csv_edit_cells", {"path": "task://a.csv", "assignments": [{"value": 1}]}, "invalid"),
    (
        "csv_edit_cells",
        {"path": "task://a.csv", "assignments": [CELL, {"cell": "A0", "value": "x"}]},
        "bad_range",
    ),
    (
        "csv_edit_cells",
        {"path": "task://a.csv", "assignments": [CELL, {"cell": "A1:B2", "value": "x"}]},
        "bad_range",
    ),
]


@pytest.mark.parametrize(("tool_id", "input", "why"), REFUSED)
async def test_a_refused_call_changes_nothing(
    tool_id: str, input: dict[str, Any], why: str
) -> None:
    desk = await furnished()
    before = await desk.get("task://a.csv")
    assert await desk.refusal(tool_id, **input) == why
    assert await desk.get("task://a.csv") == before
    assert await desk.refusal("csv_inspect", path="task://x.csv") == "not_found"


async def test_a_file_over_sixteen_mebibytes_is_not_read() -> None:
    desk = await furnished()
    await desk.put("task://large.csv", b"a\n" * (8 * 2**20 + 1))
    assert await desk.refusal("csv_read", path="task://large.csv", range="A1") == "too_large"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", []),
        (b"a,b\r\nc,d\r\n", [["a", "b"], ["c", "d"]]),
        (b"a,b\nc,d", [["a", "b"], ["c", "d"]]),
        (b"a\rb\r", [["a"], ["b"]]),
        (b"\xef\xbb\xbfa,b", [["a", "b"]]),
        (b'"a,b","c""d"\n', [["a,b", 'c"d']]),
        (b'"two\r\nlines",x\n', [["two\r\nlines", "x"]]),
        (b" a , 007 ,=1+1\n", [[" a ", " 007 ", "=1+1"]]),
        (b"a\n\nb\n", [["a"], [], ["b"]]),
        (b"a,\n,b\n", [["a", ""], ["", "b"]]),
        ("é,😀\n".encode(), [["é", "😀"]]),
    ],
)
def test_rows(content: bytes, rows: list[list[str]]) -> None:
    assert CsvText(content).rows == rows


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfea", "not_text"),
        (b'"open', "bad_format"),
        (b'"a"b,c', "bad_format"),
        (b'"' + b"x" * 200_000 + b'"', "bad_format"),
    ],
)
def test_a_malformed_csv_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        CsvText(content)
    assert refused.value.details == {"reason": reason}


@pytest.mark.parametrize(
    ("before", "cell", "text", "after"),
    [
        ('"a",b\r\nc,d\r\n', "B2", "x", '"a",b\r\nc,x\r\n'),
        ("a,b\nc,d", "A2", "x", "a,b\nx,d"),
        ("a,b\nc,d", "A4", "x", "a,b\nc,d\n,\nx,\n"),
        ("a\rb\r", "A3", "x", "a\rb\rx\r"),
        ("a\r\nb\nc\n", "A2", "x", "a\r\nx\nc\n"),
        ("a,b\n", "D1", "x", "a,b,,x\n"),
        ("a,b\n", "A1", "", ",b\n"),
        ("a,b\n", "C9", "", "a,b\n"),
        ("a,b\n", "A1", 'x,"y"', '"x,""y""",b\n'),
        ("a\n", "A1", "two\nlines", '"two\nlines"\n'),
        ("a\n", "A1", "", '""\n'),
        ("", "B1", "x", ",x\r\n"),
        ("\ufeffa,b\n", "A1", "x", "x,b\n"),
        ('"two\nlines",b\nc,d\n', "B2", "x", '"two\nlines",b\nc,x\n'),
    ],
)
def test_a_change_leaves_the_rest(before: str, cell: str, text: str, after: str) -> None:
    assert CsvText(before.encode()).edit({read_cell(cell): text}).decode() == after


def test_a_value_outside_the_rows_is_none() -> None:
    text = CsvText(b"a,b\nc\n")
    assert text.values(read_area("B1:C3")) == [["b", None], [None, None], [None, None]]


@pytest.mark.parametrize("cell", ["XFD1048576", "A1048576"])
def test_a_file_does_not_grow_without_bound(cell: str) -> None:
    wide = ",".join(["a"] * 100).encode()
    with pytest.raises(ToolFailed) as refused:
        CsvText(wide).edit({read_cell(cell): "x"})
    assert refused.value.details == {"reason": "too_large"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), ("=1+1", "=1+1"), (1, "1"), (1.5, "1.5"), (True, "true"), (False, "false")],
)
def test_a_value_as_text(value: object, text: str) -> None:
    assert text_of(value) == text


def test_a_new_file_has_rows_of_one_length() -> None:
    assert written([["a", None, 1], [True], []]) == b"a,,1\r\ntrue,,\r\n,,\r\n"
    assert written([]) == b""
