"""Where a finding in a source ends: behind what it is about."""

import re

from msgspec.structs import replace

from penstock.core.diagnostics import Diagnostic
from penstock.sandbox.reading.scan import Lines

_THING = re.compile(
    r"""'[^'\r\n]*'|"[^"\r\n]*"|`[^`\r\n]*`|[@#]?[\w$]+|[^\r\n]*[^\s]""",
)
"""A text in quotes, a name, or whatever stands there to the end of the line."""
_OF_FILES = frozenset({"entrypoint-missing", "file-encoding", "file-missing", "graph-too-large"})
"""Codes of what has no place in its file."""


def spanned(problem: Diagnostic, text: str, lines: Lines) -> Diagnostic:
    """Return the finding with the end of its range, in the source that it is about."""
    if problem.code in _OF_FILES or problem.end_column:
        return problem
    found = _THING.match(text, lines.offset(problem.line, problem.column))
    if found is None:
        return problem
    line, column = lines.place(found.end())
    return replace(problem, end_line=line, end_column=column)
