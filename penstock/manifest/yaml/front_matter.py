"""Splits a Markdown file into front matter and body. The front matter is YAML, or nearly YAML."""

from msgspec import Struct

from penstock.core.diagnostics import Severity
from penstock.manifest.yaml.lenient_front_matter import read_loose
from penstock.manifest.yaml.source import FENCE, Document, SourceRange, parse_yaml

TWICE = "yaml-duplicate-key"
_NOWHERE = SourceRange(line=1, column=1)


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
        said = f"not UTF-8 at character {error.start}"
        return _without(file, text.count("\n", 0, error.start) + 1, "file-encoding", said)
    lines = text.removeprefix("\ufeff").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].rstrip() != FENCE:
        said = f'no front matter: the file must begin with a line "{FENCE}"'
        return _without(file, first + 1, "no-front-matter", said)
    end = next((n for n in range(first + 1, len(lines)) if lines[n].rstrip() == FENCE), None)
    if end is None:
        said = f'the front matter is not closed: no second line "{FENCE}"'
        return _without(file, first + 1, "front-matter-open", said)
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
    at = document.values.get((), _NOWHERE)
    for problem in document.problems[:1]:
        at = SourceRange(line=problem.line, column=problem.column, end_column=problem.end_column)
    return read_loose(text, file, first_line=first_line, failed=at), True


def _without(file: str, line: int, code: str, message: str) -> FrontMatter:
    head = Document(file=file)
    head.problem(code, message, SourceRange(line=line, column=1), severity=Severity.ERROR)
    return FrontMatter(head=head)
