"""What authors write, with a line for every value: YAML 1.2 without surprises, and front matter."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import DeclarationError

DEEPEST = 64
FENCE = "---"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAG = "tag:yaml.org,2002:str"
_SCALARS = (
    (re.compile(r"null|Null|NULL|~|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,18}"), int),
    (re.compile(r"0o[0-7]{1,20}"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]{1,16}"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
)

YamlPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands, from 1."""

    line: int
    column: int


@dataclass(slots=True, kw_only=True)
class Document:
    """One YAML document: its value, and where each part of it stands."""

    file: str
    value: Any = None
    keys: dict[YamlPath, Place] = field(default_factory=dict)
    """Where the key of a value stands; of a list item, the item."""
    values: dict[YamlPath, Place] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def problem(self, code: str, message: str, at: Place, suggestion: str | None = None) -> None:
        """Note a finding."""
        self.problems.append(
            Diagnostic(
                code=code,
                message=message,
                file=self.file,
                line=at.line,
                column=at.column,
                suggestion=suggestion,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """A Markdown file with settings on top."""

    head: Document
    body: str


def parse_yaml(text: str, file: str, *, first_line: int = 1) -> Document:
    """Read one document; what is wrong stands in `problems`, and never raises.

    Anchors, aliases and tags are refused, a key twice is an error, and only `true` and `false` are
    booleans.
    """
    document = Document(file=file)
    try:
        document.value = _Builder(document, first_line).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line, mark.column) if mark else (0, 0)
        at = Place(line=line + first_line, column=column + 1)
        document.problem("yaml-syntax", f"not valid YAML: {error.problem}", at)
    except yaml.YAMLError as error:
        said = str(error).splitlines()[0]
        document.problem("yaml-syntax", f"not valid YAML: {said}", Place(line=first_line, column=1))
    except DeclarationError as refused:
        document.problems += refused.diagnostics
    return document


def parse_front_matter(text: str, file: str) -> FrontMatter:
    """Part a Markdown file into the settings between two lines `---` and the rest."""
    lines = text.removeprefix("\ufeff").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].rstrip() != FENCE:
        return _without(file, first + 1, "no-front-matter", 'the file must begin with a line "---"')
    end = next((n for n in range(first + 1, len(lines)) if lines[n].rstrip() == FENCE), None)
    if end is None:
        return _without(
            file, first + 1, "front-matter-open", 'a second line "---" must end the front matter'
        )
    head = parse_yaml("\n".join(lines[first + 1 : end]), file, first_line=first + 2)
    return FrontMatter(head=head, body="\n".join(lines[end + 1 :]).strip())


def _without(file: str, line: int, code: str, message: str) -> FrontMatter:
    head = Document(file=file)
    head.problem(code, message, Place(line=line, column=1))
    return FrontMatter(head=head, body="")


class _Builder:
    """Makes values of the events of a parser."""

    def __init__(self, document: Document, first_line: int) -> None:
        self._document = document
        self._first_line = first_line

    def build(self, events: Iterable[yaml.Event]) -> Any:
        """Return the value of the first document; a second one is refused."""
        value, count = None, 0
        stream = iter(events)
        for event in stream:
            if isinstance(event, yaml.DocumentStartEvent):
                count += 1
                if count > 1:
                    message = "one document is wanted; found another one"
                    raise self._refusal("yaml-many-documents", message, self._place(event))
                value = self._value(next(stream), stream, ())
        return value

    def _value(self, event: yaml.Event, stream: Iterator[yaml.Event], path: YamlPath) -> Any:
        at = self._place(event)
        self._refuse(event, at, path)
        self._document.values[path] = at
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(stream, path)
        return self._mapping(stream, path)

    def _sequence(self, stream: Iterator[yaml.Event], path: YamlPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(stream), yaml.SequenceEndEvent):
            here = (*path, len(items))
            self._document.keys[here] = self._place(event)
            items.append(self._value(event, stream, here))
        return items

    def _mapping(self, stream: Iterator[yaml.Event], path: YamlPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(stream), yaml.MappingEndEvent):
            at = self._place(event)
            self._refuse(event, at, path)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refusal("yaml-syntax", "not valid YAML: a key must be a text", at)
            key = event.value
            if key in mapping:
                first = self._document.keys[*path, key].line
                message = f'key "{key}" appears twice; first at line {first}'
                self._document.problem("yaml-duplicate-key", message, at)
            else:
                self._document.keys[*path, key] = at
            mapping[key] = self._value(next(stream), stream, (*path, key))
        return mapping

    def _refuse(self, event: yaml.Event, at: Place, path: YamlPath) -> None:
        """Raise if the document uses what is not allowed; reading stops there."""
        tag = getattr(event, "tag", None)
        is_plain = isinstance(event, yaml.ScalarEvent) and event.implicit[0]
        is_merge = is_plain and getattr(event, "value", "") == "<<"
        is_tagged = tag is not None and tag not in {_TEXT_TAG, "!"}
        if is_merge or is_tagged or getattr(event, "anchor", None):
            message = "anchors, aliases, merge keys and tags are not allowed"
            raise self._refusal("yaml-alias", message, at)
        if len(path) > DEEPEST:
            message = f"nested more than {DEEPEST} levels deep"
            raise self._refusal("yaml-syntax", message, at)

    def _refusal(self, code: str, message: str, at: Place) -> DeclarationError:
        file = self._document.file
        finding = Diagnostic(code=code, message=message, file=file, line=at.line, column=at.column)
        return DeclarationError([finding])

    def _place(self, event: yaml.Event) -> Place:
        mark: Any = event.start_mark
        return Place(line=mark.line + self._first_line, column=mark.column + 1)


def _scalar(text: str) -> Any:
    """Return the value of an unquoted scalar, by the core schema of YAML 1.2."""
    for pattern, read in _SCALARS:
        if pattern.fullmatch(text):
            return read(text)
    return text
