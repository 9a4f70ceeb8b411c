"""Splits a Markdown file into front matter and body; reads front matter that is nearly YAML.

People write `model: @coding` and `description: a: b`, which YAML refuses. `read_loose` reads such
front matter line by line, as its author most likely meant it: the file still works, with a warning
at the position where YAML failed. Every value is then a string, a list or a mapping; the reader of
a field converts it. The parser never raises: a line that it does not understand is skipped with a
warning. It reads each line once, and ignores nesting beyond four levels, so hostile files cost no
more than others. Shown by tests/manifest/test_front_matter.py.
"""

import re
from typing import Any

from msgspec import Struct

from penstock.core.diagnostics import Severity
from penstock.core.text import cut
from penstock.manifest.document import Document, SourceMap, SourceRange, YamlPath
from penstock.manifest.yaml_document import FENCE, parse_yaml

TWICE = "yaml-duplicate-key"
_FILE_START = SourceRange(line=1, column=1)
MAX_DEPTH = 4
"""Deeper nesting is ignored."""
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_BLOCKS = {"|": "\n", "|-": "\n", "|+": "\n", ">": " ", ">-": " ", ">+": " "}
_SHOWN = 60


class FrontMatter(Struct, frozen=True, kw_only=True):
    """A Markdown file with front matter."""

    head: Document
    body: str = ""
    body_line: int = 1
    """The line of the file in which the body starts."""
    is_loose: bool = False
    """Whether it was read line by line; then every value is a string or consists of strings."""


def parse_front_matter(text: str, file: str) -> FrontMatter:
    """Split a Markdown file into front matter and body. Never raises."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"not UTF-8 at character {error.start}"
        return _without(file, text.count("\n", 0, error.start) + 1, "file-encoding", message)
    lines = text.removeprefix("\ufeff").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].rstrip() != FENCE:
        message = f'no front matter: the file must begin with a line "{FENCE}"'
        return _without(file, first + 1, "no-front-matter", message)
    end = next((n for n in range(first + 1, len(lines)) if lines[n].rstrip() == FENCE), None)
    if end is None:
        message = f'the front matter is not closed: no second line "{FENCE}"'
        return _without(file, first + 1, "front-matter-open", message)
    head, is_loose = _head("\n".join(lines[first + 1 : end]), file, first + 2)
    start = next((n for n in range(end + 1, len(lines)) if lines[n].strip()), end)
    body = "\n".join(lines[end + 1 :]).strip()
    return FrontMatter(head=head, body=body, body_line=start + 1, is_loose=is_loose)


def _head(text: str, file: str, first_line: int) -> tuple[Document, bool]:
    """Return the settings, and whether they were read line by line.

    A duplicate key does not switch to reading by line: it stays an error.
    """
    document = parse_yaml(text, file, first_line=first_line)
    if document.value is None and document.is_read and not document.problems:
        document.value = {}
    if isinstance(document.value, dict) and all(each.code == TWICE for each in document.problems):
        return document, False
    at = document.values.get((), _FILE_START)
    for problem in document.problems[:1]:
        at = SourceRange(line=problem.line, column=problem.column, end_column=problem.end_column)
    return read_loose(text, file, first_line=first_line, failed=at), True


def _without(file: str, line: int, code: str, message: str) -> FrontMatter:
    head = Document(file=file)
    head.problem(code, message, SourceRange(line=line, column=1), severity=Severity.ERROR)
    return FrontMatter(head=head)


def read_loose(text: str, file: str, *, first_line: int, failed: SourceRange) -> Document:
    """Return the mapping in the lines, with a warning at the place where YAML failed."""
    document = Document(
        file=file,
        is_read=True,
        keys=SourceMap(text, first_line),
        values=SourceMap(text, first_line),
    )
    line = failed.line - first_line
    lines = text.split("\n")
    suggestion = _quote_hint(lines[line]) if 0 <= line < len(lines) else None
    message = "front matter is not strict YAML here; it was read line by line"
    document.problem("front-matter-loose", message, failed, suggestion, severity=Severity.WARNING)
    document.values.mark((), 0, 0, len(lines[0]))
    document.value = _Lines(lines, document, first_line).mapping((), 0)
    return document


class _Line(Struct, frozen=True):
    number: int
    indent: int
    text: str


class _Lines:
    """A cursor over the lines."""

    def __init__(self, lines: list[str], document: Document, first_line: int) -> None:
        self._raw = lines
        self._document = document
        self._first_line = first_line
        self._at = 0

    def mapping(self, path: YamlPath, indent: int) -> dict[str, Any]:
        """Read lines of this indent as keys and values, until a line is indented less."""
        values: dict[str, Any] = {}
        while (line := self._peek()) is not None and line.indent >= indent:
            key = _KEY.fullmatch(line.text)
            self._at = line.number + 1
            if key is None or key["key"] in values or line.indent > indent:
                self._ignore(line)
                continue
            here = (*path, key["key"])
            column = line.indent
            self._document.keys.mark(here, line.number, column, column + len(key["key"]))
            values[key["key"]] = self._value(here, line, key["value"] or "", key.start("value"))
        return values

    def _value(self, path: YamlPath, line: _Line, text: str, start: int) -> Any:
        text = text.strip()
        column = line.indent + max(start, 0)
        self._document.values.mark(path, line.number, column, column + len(text))
        if text in _BLOCKS:
            return self._block(line.indent, _BLOCKS[text])
        if text:
            return _scalar(text)
        below = self._peek()
        if below is None or len(path) >= MAX_DEPTH:
            return None
        is_list = below.text == "-" or below.text.startswith("- ")
        if is_list and below.indent >= line.indent:
            return self._list(path, below.indent)
        if below.indent > line.indent:
            return self.mapping(path, below.indent)
        return None

    def _list(self, path: YamlPath, indent: int) -> list[Any]:
        items: list[Any] = []
        while (line := self._peek()) is not None and line.indent >= indent:
            if line.indent == indent and not line.text.startswith("-"):
                break
            self._at = line.number + 1
            if not line.text.startswith("- "):
                self._ignore(line)
                continue
            text = line.text[2:].strip()
            here = (*path, len(items))
            column = line.indent + 2
            self._document.values.mark(here, line.number, column, column + len(text))
            items.append(self._item(here, line, text))
        return items

    def _item(self, path: YamlPath, line: _Line, text: str) -> Any:
        """Return an item: a string, or a mapping that starts in the line of the dash."""
        key = _KEY.fullmatch(text)
        if key is None or text[0] in "\"'[":
            return _scalar(text)
        here = (*path, key["key"])
        self._document.keys.mark(
            here, line.number, line.indent + 2, line.indent + 2 + len(key["key"])
        )
        first = {key["key"]: _scalar((key["value"] or "").strip())}
        below = self._peek()
        if below is None or below.indent <= line.indent or below.text.startswith("- "):
            return first
        return first | self.mapping(path, below.indent)

    def _block(self, indent: int, joint: str) -> str:
        """Return the lines that are indented deeper as one string, without their common indent."""
        taken: list[str] = []
        while self._at < len(self._raw):
            raw = self._raw[self._at]
            if raw.strip() and _indent(raw) <= indent:
                break
            taken.append(raw)
            self._at += 1
        shared = min((_indent(raw) for raw in taken if raw.strip()), default=0)
        return joint.join(raw[shared:].rstrip() for raw in taken).strip()

    def _peek(self) -> _Line | None:
        """Return the next line that is neither blank nor a comment."""
        while self._at < len(self._raw):
            raw = self._raw[self._at]
            text = raw.strip()
            if text and not text.startswith("#"):
                return _Line(self._at, _indent(raw), text)
            self._at += 1
        return None

    def _ignore(self, line: _Line) -> None:
        at = SourceRange(
            line=line.number + self._first_line,
            column=line.indent + 1,
            end_column=line.indent + 1 + len(line.text),
        )
        message = "line not understood; it is ignored"
        self._document.problem("line-ignored", message, at, severity=Severity.WARNING)


def _scalar(text: str, depth: int = 0) -> Any:
    """Return a string without its pair of quotes, or a list of strings."""
    if text.startswith("[") and text.endswith("]") and depth < MAX_DEPTH:
        parts = (part.strip() for part in text[1:-1].split(","))
        return [_scalar(part, depth + 1) for part in parts if part]
    quote = text[:1]
    if len(text) > 1 and quote in {'"', "'"} and text[-1] == quote and quote not in text[1:-1]:
        return text[1:-1]
    return text


def _quote_hint(line: str) -> str | None:
    key = _KEY.fullmatch(line.strip())
    if key is None or not key["value"] or '"' in key["value"]:
        return None
    return f'quote the value: {key["key"]}: "{cut(key["value"].strip(), _SHOWN)}"'


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
