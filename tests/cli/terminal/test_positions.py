"""The lines around a position in a file, and columns in UTF-16 units."""

from pathlib import Path

import pytest

from penstock.app.project import Project, ProjectCheck
from penstock.cli.terminal.positions import SourcePosition, excerpt, in_utf16, place_of
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import ErrorDetail
from tests.kit.manifests import load, tool, write

STACK = "at run (tool:///lib/a.mts:3:9)\nat tool:///b.mts:1:1"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((1, 3), "a.mts:1:3\n> 1 | one\n    |   ^\n  2 | \ttwo\n  3 | three"),
        ((2, 3), "a.mts:2:3\n  1 | one\n> 2 | \ttwo\n    | \t ^\n  3 | three\n  4 |"),
        ((5, 1), "a.mts:5:1\n  3 | three\n  4 |\n> 5 | five\n    | ^"),
        ((6, 1), "a.mts:6:1"),
    ],
)
def test_a_position_has_the_lines_around_it(
    tmp_path: Path, place: tuple[int, int], expected: str
) -> None:
    project = Project(root=write(tmp_path, {"a.mts": "one\n\ttwo\nthree\n\nfive\n"}))
    assert (
        excerpt(project, SourcePosition(file="a.mts", line=place[0], column=place[1])) == expected
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert (
        excerpt(Project(root=tmp_path), SourcePosition(file="x.mts", line=1, column=2))
        == "x.mts:1:2"
    )


def test_a_position_is_that_of_the_script_or_of_the_first_finding(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"d/a.tool.yaml": tool()})
    manifest = bundle.tools["a"]
    thrown = ErrorDetail(code="SCRIPT_ERROR", message="no", details={"stack": STACK})
    assert place_of(thrown, manifest) == SourcePosition(file="d/lib/a.mts", line=3, column=9)
    assert place_of(thrown, None) is None
    inline = ErrorDetail(code="X", message="no", details={"stack": "at tool:///inline.mts:1:8"})
    assert place_of(inline, manifest) == SourcePosition(file="d/a.tool.yaml", line=4, column=43)
    finding = {"file": "y.mts", "line": 4, "column": 2}
    broken = ErrorDetail(code="SCRIPT_LOAD_ERROR", message="no", details={"diagnostics": [finding]})
    assert place_of(broken, None) == SourcePosition(file="y.mts", line=4, column=2)
    assert place_of(ErrorDetail(code="X", message="no"), manifest) is None


LINE = "a: 😀😀 'x'\n"
COLUMNS = [((1, 4), (1, 4)), ((5, 6), (6, 8)), ((7, 10), (9, 12)), ((7, 0), (9, 10))]


def moved(root: Path, finding: Diagnostic) -> tuple[int, int, int]:
    """Return the converted position of a finding."""
    check = ProjectCheck(diagnostics=(finding,), tools=0, skills=0)
    (after,) = in_utf16(check, root).diagnostics
    return after.column, after.end_line, after.end_column


@pytest.mark.parametrize(("points", "units"), COLUMNS)
def test_a_character_beyond_the_first_plane_counts_twice(
    tmp_path: Path, points: tuple[int, int], units: tuple[int, int]
) -> None:
    """Spec: "columns count code points; `--utf16` for editors that count units"."""
    (tmp_path / "a.yaml").write_text(f"\n{LINE}", encoding="utf-8")
    diagnostic = Diagnostic(
        code="x", message="x", file="a.yaml", line=2, column=points[0], end_column=points[1]
    )
    assert moved(tmp_path, diagnostic) == (units[0], 2, units[1])


@pytest.mark.parametrize(("file", "line"), [("a.yaml", 3), ("a.mts", 2)])
def test_lines_are_counted_as_the_reader_of_the_file_counts_them(
    tmp_path: Path, file: str, line: int
) -> None:
    """U+2028 ends a line of YAML, and none of a script."""
    (tmp_path / file).write_text("// \u2028\n😀😀 x\n", encoding="utf-8")
    diagnostic = Diagnostic(code="x", message="x", file=file, line=line, column=4, end_column=5)
    assert moved(tmp_path, diagnostic) == (6, line, 7)


@pytest.mark.parametrize("file", ["", "gone.yaml", "bytes.yaml", "a.yaml"])
def test_a_position_in_an_unreadable_file_is_kept(tmp_path: Path, file: str) -> None:
    (tmp_path / "a.yaml").write_text(LINE, encoding="utf-8")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    diagnostic = Diagnostic(code="x", message="x", file=file, line=9, column=5)
    assert moved(tmp_path, diagnostic) == (5, 9, 6)
