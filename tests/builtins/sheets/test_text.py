"""A csv file as text: read by RFC 4180, and what is not changed stays as it is."""

import pytest

from penstock.builtins.sheets.a1 import read_area, read_cell
from penstock.builtins.sheets.text import CsvText, text_of, written
from penstock.core.call_errors import ToolFailed


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
def test_what_is_no_csv(content: bytes, reason: str) -> None:
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
