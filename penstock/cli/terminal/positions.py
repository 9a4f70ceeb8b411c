"""Positions in files of a project: the lines around an error, and columns in UTF-16 units."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.app.project import Project, ProjectCheck
from penstock.core.diagnostics import Diagnostic
from penstock.core.envelope import ErrorDetail
from penstock.manifest.document import LINE_END
from penstock.manifest.tool import ToolManifest
from penstock.sandbox.compiler.load_script import INLINE

AROUND = 2
"""Lines shown before and after."""
_PLACE = re.compile(r"tool:///(.+?):(\d+):(\d+)")


class SourcePosition(Struct, frozen=True, kw_only=True):
    """A line and a column in a file of the project."""

    file: str
    line: int
    column: int


def place_of(error: ErrorDetail, tool: ToolManifest | None) -> SourcePosition | None:
    """Return the position of a tool's error: its first finding, or the top frame of its script."""
    details: Mapping[str, Any] = error.details or {}
    for diagnostic in details.get("diagnostics", ()):
        return SourcePosition(
            file=diagnostic["file"], line=diagnostic["line"], column=diagnostic["column"]
        )
    match = _PLACE.search(str(details.get("stack", "")))
    if match is None or tool is None:
        return None
    name, line, column = match[1], int(match[2]), int(match[3])
    if name == INLINE and tool.execution.script is not None:
        at = tool.execution.place_of(line, column)
        return SourcePosition(file=tool.file, line=at.line, column=at.column)
    folder = "" if tool.folder == "." else f"{tool.folder}/"
    return SourcePosition(file=folder + name, line=line, column=column)


def excerpt(project: Project, at: SourcePosition) -> str:
    """Return the position with the lines around it; only the position if the file is unreadable."""
    shown = f"{at.file}:{at.line}:{at.column}"
    try:
        lines = (project.root / at.file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return shown
    if at.line > len(lines):
        return shown
    first = max(at.line - AROUND, 1)
    last = min(at.line + AROUND, len(lines))
    width = len(str(last))
    excerpt_lines = [shown]
    for number in range(first, last + 1):
        sign = ">" if number == at.line else " "
        excerpt_lines.append(f"{sign} {number:>{width}} | {lines[number - 1]}".rstrip())
        if number == at.line:
            # Tabs stay, so that the mark is below its character at any tab width.
            before = re.sub(r"[^\t]", " ", lines[number - 1][: at.column - 1])
            excerpt_lines.append(f"  {'':>{width}} | {before}^")
    return "\n".join(excerpt_lines)


_YAML = (".yaml", ".yml", ".md")
_LINE_END = re.compile(r"\r\n|[\r\n]")
"""Line ends in all other files. YAML also ends lines at U+0085, U+2028 and U+2029."""
_LAST_OF_ONE_UNIT = "\uffff"


def in_utf16(result: ProjectCheck, root: Path) -> ProjectCheck:
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

    return replace(result, diagnostics=tuple(map(moved, result.diagnostics)))


def _units(lines: list[str], line: int, column: int) -> int:
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return column + sum(each > _LAST_OF_ONE_UNIT for each in before)
