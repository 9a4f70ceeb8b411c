"""A document that was read from a file: its value, and the position of every part.

A position is kept as plain numbers; a SourceRange is made only when it is needed, because large
files have thousands of parts and few problems. Checks need this file and not the parser, which
takes 10 ms to import. Proof: tests/manifest/test_document.py.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Diagnostic, Severity

LINE_END = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
"""The line breaks of YAML."""

YamlPath = tuple[str | int, ...]
_Span = tuple[int, int, int, int, str | None]
"""Line and column from 0, twice, and the style of a scalar ("" is plain); None for others."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """A position in a file: line and columns from 1, the end exclusive and in the same line."""

    line: int
    column: int
    end_column: int = dataclasses.field(default=0, compare=False)


class SourceMap(Mapping[YamlPath, SourceRange]):
    """The positions of the parts of a document, by path."""

    def __init__(self, text: str = "", first_line: int = 1) -> None:
        self._text = text
        self._first_line = first_line
        self._lines: list[str] | None = None
        self._spans: dict[YamlPath, _Span] = {}

    def note(self, path: YamlPath, event: Any, style: str | None) -> None:
        """Record the position of a part, from a parser event, and the style of a scalar."""
        start, end = event.start_mark, event.end_mark
        self._spans[path] = (start.line, start.column, end.line, end.column, style)

    def mark(self, path: YamlPath, line: int, column: int, end: int) -> None:
        """Record the position of a part within one line; all numbers count from 0."""
        self._spans[path] = (line, column, line, end, "")

    def __getitem__(self, path: YamlPath) -> SourceRange:
        """Return the start of the part and its end in that line."""
        line, column, end_line, end_column, style = self._spans[path]
        is_within = style is not None and line == end_line
        last = end_column if is_within else len(self.line(line))
        return SourceRange(
            line=line + self._first_line,
            column=column + 1,
            end_column=max(last, column + 1) + 1,
        )

    def __contains__(self, path: object) -> bool:
        """Return whether there is such a part."""
        return path in self._spans

    def __iter__(self) -> Iterator[YamlPath]:
        """Yield the paths."""
        return iter(self._spans)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._spans)

    def line(self, number: int) -> str:
        """Return a line of the text, counted from 0, without trailing white space."""
        if self._lines is None:
            self._lines = LINE_END.split(self._text)
        return self._lines[number].rstrip() if number < len(self._lines) else ""

    def within(self, line: int = 0, column: int = 0) -> SourceRange:
        """Return a position counted from 0, at most the end of the text."""
        last = len(LINE_END.split(self._text)) - 1
        if line > last:
            line, column = last, len(self.line(last))
        return SourceRange(line=line + self._first_line, column=column + 1)

    def is_verbatim(self, path: YamlPath, text: str) -> bool:
        """Return whether the lines of a text are lines of the file, unchanged."""
        line, style = self._spans[path][0], self._spans[path][-1]
        begins = self.content(path, text).column - 1
        return style == "|" or self.line(line)[begins:].startswith(text)

    def content(self, path: YamlPath, text: str) -> SourceRange:
        """Return the position of the first character of a text, after its quote or `|`."""
        line, _, end_line, _, style = self._spans[path]
        place = self[path]
        if style not in {"|", ">"}:
            return dataclasses.replace(place, column=place.column + (style in {"'", '"'}))
        number = line + 1
        while number < end_line and not self.line(number):
            number += 1
        indent = _indent(self.line(number)) - _indent(text.lstrip("\n"))
        return SourceRange(line=line + 1 + self._first_line, column=indent + 1)


class Document(Struct, kw_only=True):
    """One YAML document: its value, the positions of its parts, and its problems."""

    file: str
    value: Any = None
    is_read: bool = False
    """The document was read to its end; the value may still be null."""
    keys: SourceMap = field(default_factory=SourceMap)
    """Positions of keys; items of a list have none."""
    values: SourceMap = field(default_factory=SourceMap)
    problems: list[Diagnostic] = field(default_factory=list)

    def problem(
        self,
        code: str,
        message: str,
        at: SourceRange,
        suggestion: str | None = None,
        *,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Add a diagnostic."""
        self.problems.append(
            Diagnostic(
                code=code,
                message=message,
                file=self.file,
                line=at.line,
                column=at.column,
                severity=severity,
                suggestion=suggestion,
                end_line=at.line,
                end_column=at.end_column,
            )
        )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
