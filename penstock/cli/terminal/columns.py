"""Converts the columns of findings to UTF-16 units, which some editors count."""

import re
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from penstock.app.project import ProjectCheck
from penstock.core.diagnostics import Diagnostic
from penstock.manifest.yaml_document import LINE_END

_YAML = (".yaml", ".yml", ".md")
_LINE_END = re.compile(r"\r\n|[\r\n]")
"""Line ends in all other files. YAML also ends lines at U+0085, U+2028 and U+2029."""
_LAST_OF_ONE_UNIT = "\uffff"


def in_utf16(found: ProjectCheck, root: Path) -> ProjectCheck:
    """Return the findings with columns in UTF-16 units. Unreadable files keep their columns."""

    @cache
    def lines(file: str) -> list[str]:
        try:
            text = (root / file).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return []
        return (LINE_END if file.endswith(_YAML) else _LINE_END).split(text)

    def moved(each: Diagnostic) -> Diagnostic:
        of_file = lines(each.file) if each.file else []
        end_line, end = each.end_line or each.line, each.end_column or each.column + 1
        return replace(
            each,
            column=_units(of_file, each.line, each.column),
            end_line=end_line,
            end_column=_units(of_file, end_line, end),
        )

    return replace(found, diagnostics=tuple(map(moved, found.diagnostics)))


def _units(lines: list[str], line: int, column: int) -> int:
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return column + sum(each > _LAST_OF_ONE_UNIT for each in before)
