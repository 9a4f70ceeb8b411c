"""Where findings in a source end."""

import pytest

from penstock.core.diagnostics import Diagnostic
from penstock.sandbox.reading.scan import Lines
from penstock.sandbox.reading.spans import spanned


@pytest.mark.parametrize(
    ("text", "line", "column", "end"),
    [
        ('import "lodash";', 1, 8, (1, 16)),
        ("1;\nimport 'a😀b';", 2, 8, (2, 13)),
        ("import { near } from './a.mjs';", 1, 10, (1, 14)),
        ("import(`a`)", 1, 1, (1, 7)),
        ("@a class B {}", 1, 1, (1, 3)),
        ("const a = ;  \nlet b;", 1, 11, (1, 12)),
        ("const a = ) + 1;\r\n", 1, 11, (1, 17)),
        ("let 'a;\n'", 1, 5, (1, 8)),
        ("", 1, 1, (0, 0)),
        ("a\n", 2, 1, (0, 0)),
    ],
)
def test_a_range_ends_behind_what_the_finding_is_about(
    text: str, line: int, column: int, end: tuple[int, int]
) -> None:
    """Wider §14: "A range never is empty and never leaves the line of a scalar"."""
    problem = Diagnostic(code="import-bare", message="no", line=line, column=column)
    found = spanned(problem, text, Lines(text))
    assert (found.end_line, found.end_column) == end


def test_what_has_no_place_in_its_file_has_no_range() -> None:
    problem = Diagnostic(code="entrypoint-missing", message="no")
    assert spanned(problem, "export {}", Lines("export {}")) == problem
