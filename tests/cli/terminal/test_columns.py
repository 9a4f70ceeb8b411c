"""Columns in UTF-16 units."""

from pathlib import Path

import pytest

from penstock.app.project import ProjectCheck
from penstock.cli.terminal.columns import in_utf16
from penstock.core.diagnostics import Diagnostic

LINE = "a: 😀😀 'x'\n"
COLUMNS = [((1, 4), (1, 4)), ((5, 6), (6, 8)), ((7, 10), (9, 12)), ((7, 0), (9, 10))]


def moved(root: Path, found: Diagnostic) -> tuple[int, int, int]:
    """Return the converted position of a finding."""
    check = ProjectCheck(diagnostics=(found,), tools=0, skills=0)
    (after,) = in_utf16(check, root).diagnostics
    return after.column, after.end_line, after.end_column


@pytest.mark.parametrize(("points", "units"), COLUMNS)
def test_a_character_beyond_the_first_plane_counts_twice(
    tmp_path: Path, points: tuple[int, int], units: tuple[int, int]
) -> None:
    """Spec: "columns count code points; `--utf16` for editors that count units"."""
    (tmp_path / "a.yaml").write_text(f"\n{LINE}", encoding="utf-8")
    found = Diagnostic(
        code="x", message="x", file="a.yaml", line=2, column=points[0], end_column=points[1]
    )
    assert moved(tmp_path, found) == (units[0], 2, units[1])


@pytest.mark.parametrize(("file", "line"), [("a.yaml", 3), ("a.mts", 2)])
def test_lines_are_counted_as_the_reader_of_the_file_counts_them(
    tmp_path: Path, file: str, line: int
) -> None:
    """U+2028 ends a line of YAML, and none of a script."""
    (tmp_path / file).write_text("// \u2028\n😀😀 x\n", encoding="utf-8")
    found = Diagnostic(code="x", message="x", file=file, line=line, column=4, end_column=5)
    assert moved(tmp_path, found) == (6, line, 7)


@pytest.mark.parametrize("file", ["", "gone.yaml", "bytes.yaml", "a.yaml"])
def test_a_place_that_cannot_be_looked_at_stays(tmp_path: Path, file: str) -> None:
    (tmp_path / "a.yaml").write_text(LINE, encoding="utf-8")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    found = Diagnostic(code="x", message="x", file=file, line=9, column=5)
    assert moved(tmp_path, found) == (5, 9, 6)
