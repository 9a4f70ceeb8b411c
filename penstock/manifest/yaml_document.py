"""Parses YAML 1.2 into documents: JSON-like values with the position of every part.

Guarantees: `parse_yaml` never raises for what is in a file; each problem is a diagnostic at its
line. Reading costs linear time and memory: anchors, aliases, merge keys and tags end the parse
(an alias may expand exponentially, a tag may construct any object), and nesting stops at 64 levels.
Only `true` and `false` are booleans, numbers are those that JSON has, and a key that appears twice
is an error instead of a silent replacement.

How: values are built from the parser's events and not from PyYAML's constructors, which implement
YAML 1.1 and lose positions.

Relies on: the events of PyYAML, with or without libyaml; the two word their errors differently.
Shown by tests/manifest/test_yaml_document.py.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import DeclarationError
from penstock.core.text import cut
from penstock.manifest.document import LINE_END, Document, SourceMap, SourceRange, YamlPath

MAX_DEPTH = 64
FENCE = "---"
KEY_CHARACTERS = 60
"""Characters of a key that a diagnostic shows."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _finite(text: str) -> float | str:
    """Return the number, or the text if JSON has no such number (infinity)."""
    number = float(text)
    return number if math.isfinite(number) else text


_SCALARS = (
    (re.compile(r"null|Null|NULL|~|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,18}"), int),
    (re.compile(r"0o[0-7]{1,20}"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]{1,16}"), lambda text: int(text, 0)),
    (
        re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
        _finite,
    ),
)
_FIRST = frozenset("nN~tTfF-+.0123456789")
_Event = Any
"""An event of PyYAML, whose type stubs lack the attributes of events."""


def parse_yaml(text: str, file: str, *, first_line: int = 1) -> Document:
    """Read one document. Never raises; errors are in `problems`."""
    text = text.removeprefix("\ufeff")
    document = Document(
        file=file, keys=SourceMap(text, first_line), values=SourceMap(text, first_line)
    )
    try:
        _Builder(document, first_line).build(iter(_LOADER(text).get_event, None))
    except yaml.MarkedYAMLError as error:
        message, mark = _explain(error, document.values)
        at = document.values.within(mark.line, mark.column) if mark else document.values.within()
        document.problem("yaml-syntax", f"not valid YAML: {message}", at)
    except yaml.YAMLError as error:
        before = text.encode()[: getattr(error, "position", 0)].decode(errors="replace")
        lines = LINE_END.split(before)
        at = SourceRange(line=first_line + len(lines) - 1, column=len(lines[-1]) + 1)
        message = str(error).splitlines()[0]
        document.problem("yaml-syntax", f"not valid YAML: {message}", at)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + first_line
        message = f"not UTF-8 at character {error.start}"
        document.problem("file-encoding", message, SourceRange(line=line, column=1))
    except DeclarationError as refused:
        document.problems += refused.diagnostics
    return document


def _explain(error: yaml.MarkedYAMLError, places: SourceMap) -> tuple[str, Any]:
    """Return a helpful message for common errors (the parser's own otherwise), and its mark."""
    mark, message = error.problem_mark or error.context_mark, str(error.problem)
    if error.context == "while scanning a quoted scalar" and "end of stream" in message:
        return "a quote is opened here, and never closed", error.context_mark
    sign = places.line(mark.line)[mark.column : mark.column + 1] if mark else ""
    if sign == "\t":
        return "a tab indents this line; use spaces", mark
    if sign and "cannot start any token" in message:
        return f'a value may not begin with "{sign}"; put it in quotes', mark
    return message, mark


class _Builder:
    """Builds values from parser events."""

    def __init__(self, document: Document, first_line: int) -> None:
        self._document = document
        self._first_line = first_line

    def build(self, stream: Iterator[_Event]) -> None:
        """Read the first document; report the number of documents if there are more."""
        starts: list[_Event] = []
        for event in stream:
            if isinstance(event, yaml.DocumentStartEvent):
                starts.append(event)
                if len(starts) == 1:
                    self._document.value = self._value(next(stream), stream, ())
        self._document.is_read = True
        if len(starts) > 1:
            message = f"one manifest per file; found {len(starts)} documents"
            self._document.problem("yaml-many-documents", message, self._place(starts[1]))

    def _value(self, event: _Event, stream: Iterator[_Event], path: YamlPath) -> Any:
        if event.anchor or event.tag is not None:
            raise self._special(event)
        kind = type(event)
        is_scalar = kind is yaml.ScalarEvent
        self._document.values.note(path, event, (event.style or "") if is_scalar else None)
        if is_scalar:
            return _scalar(event.value) if event.implicit[0] else event.value
        if len(path) > MAX_DEPTH:
            message = f"not valid YAML: nested more than {MAX_DEPTH} levels deep"
            raise self._refusal("yaml-syntax", message, event)
        if kind is yaml.SequenceStartEvent:
            return self._sequence(stream, path)
        return self._mapping(stream, path)

    def _sequence(self, stream: Iterator[_Event], path: YamlPath) -> list[Any]:
        items: list[Any] = []
        while type(event := next(stream)) is not yaml.SequenceEndEvent:
            items.append(self._value(event, stream, (*path, len(items))))
        return items

    def _mapping(self, stream: Iterator[_Event], path: YamlPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while type(event := next(stream)) is not yaml.MappingEndEvent:
            if event.anchor or event.tag is not None:
                raise self._special(event)
            if type(event) is not yaml.ScalarEvent:
                raise self._refusal("yaml-syntax", "not valid YAML: a key must be a text", event)
            key, here = event.value, (*path, event.value)
            if key in mapping:
                first = self._document.keys[here].line
                shown = json.dumps(cut(key, KEY_CHARACTERS), ensure_ascii=False)
                message = f"key {shown} appears twice; first at line {first}"
                self._document.problem("yaml-duplicate-key", message, self._place(event))
            elif key == "<<" and event.implicit[0]:
                raise self._special(event)
            else:
                self._document.keys.note(here, event, event.style or "")
            mapping[key] = self._value(next(stream), stream, here)
        return mapping

    def _special(self, event: _Event) -> DeclarationError:
        """Return the error that ends the parse: resolving such an event has no cost limit."""
        message = "anchors, aliases, merge keys and tags are not allowed in a manifest"
        return self._refusal("yaml-alias", message, event)

    def _refusal(self, code: str, message: str, event: _Event) -> DeclarationError:
        file, at = self._document.file, self._place(event)
        finding = Diagnostic(code=code, message=message, file=file, line=at.line, column=at.column)
        return DeclarationError([finding])

    def _place(self, event: _Event) -> SourceRange:
        start, end = event.start_mark, event.end_mark
        is_within = isinstance(event, yaml.ScalarEvent) and start.line == end.line
        return SourceRange(
            line=start.line + self._first_line,
            column=start.column + 1,
            end_column=end.column + 1 if is_within else start.column + 2,
        )


def _scalar(text: str) -> Any:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2."""
    if text and text[0] not in _FIRST:
        return text
    for pattern, read in _SCALARS:
        if pattern.fullmatch(text):
            return read(text)
    return text
