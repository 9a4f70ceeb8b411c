"""Shows the lines of a file around an error, with a mark below its column."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from penstock.app.project import Project
from penstock.core.envelope import ErrorDetail
from penstock.manifest.tool import ToolManifest
from penstock.sandbox.reading.modules import INLINE

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
    for each in details.get("diagnostics", ()):
        return SourcePosition(file=each["file"], line=each["line"], column=each["column"])
    found = _PLACE.search(str(details.get("stack", "")))
    if found is None or tool is None:
        return None
    name, line, column = found[1], int(found[2]), int(found[3])
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
