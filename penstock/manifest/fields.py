"""The fields of a manifest as tables of rows, each read by its kind.

Reading never stops at a mistake: a kind returns a value, or adds a diagnostic at the value's line
and returns WRONG; then the field's default is used. So one pass reports every mistake in a file. A
Node carries a value with its path, so that every diagnostic has a position and a name like
`state[0].key_prefix`. The same tables generate the reference for authors.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from penstock.core.diagnostics import Severity, nearest
from penstock.core.text import cut
from penstock.manifest.document import Document, SourceRange, YamlPath
from penstock.manifest.files import ManifestFolder

FOUND_CHARACTERS = 60
OWN = "x-"
"""Prefix of an author's own keys, which are ignored."""
_TOP = SourceRange(line=1, column=1)


class Invalid:
    """The type of WRONG: a value that could not be read; its diagnostic was added."""


WRONG: Final = Invalid()


class Node(Struct, kw_only=True):
    """One value of a manifest, with its path and position."""

    document: Document
    home: ManifestFolder
    what: str
    """The manifest's name in messages: `a tool manifest`."""
    value: Any
    path: YamlPath = ()

    @property
    def name(self) -> str:
        """Return the path as authors write it: `state[0].key_prefix`."""
        parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return "".join(parts).removeprefix(".")

    @property
    def title(self) -> str:
        """Return the name of a mapping in messages: `a tool manifest`, `"state[0]"`."""
        return f'"{self.name}"' if self.path else self.what

    @property
    def place(self) -> SourceRange:
        """Return the position of the value."""
        return self.document.values.get(self.path, _TOP)

    @property
    def key_place(self) -> SourceRange:
        """Return the position of the key; for an item of a list, of the item."""
        return self.document.keys.get(self.path, self.place)

    def line_of(self, key: str) -> int:
        """Return the line of a value, or of this mapping if the key is missing."""
        return (self.at(key) if key in self.value else self).place.line

    def at(self, *keys: str | int) -> "Node":
        """Return the node at a path below this one; its value is None if nothing is there."""
        value = self.value
        for key in keys:
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = None
        return Node(
            document=self.document,
            home=self.home,
            what=self.what,
            value=value,
            path=(*self.path, *keys),
        )

    def refuse(
        self,
        code: str,
        message: str,
        *,
        at: SourceRange | None = None,
        suggestion: str | None = None,
    ) -> Invalid:
        """Add an error at the value, or at the given position."""
        self.document.problem(code, message, at or self.place, suggestion)
        return WRONG

    def warn(self, code: str, message: str, *, at: SourceRange | None = None) -> None:
        """Add a warning at the value, or at the given position."""
        self.document.problem(code, message, at or self.place, severity=Severity.WARNING)

    def wrong_type(self, expected: str) -> Invalid:
        """Add the error that the value has the wrong type."""
        return self._unfit("wrong-type", expected, described(self.value))

    def bad_value(self, expected: str, seen: str | None = None) -> Invalid:
        """Add the error that a value of the right type is not valid."""
        return self._unfit("bad-value", expected, seen or described(self.value))

    def too_long(self, expected: str, most: int) -> Invalid:
        """Add the error that a list has more than `most` items."""
        hint = f"it has {len(self.value)} items, the limit is {most}"
        return self._unfit("bad-value", expected, described(self.value), hint)

    def _unfit(self, code: str, expected: str, seen: str, suggestion: str | None = None) -> Invalid:
        message = f'"{self.name}" must be {expected}, found {seen}'
        return self.refuse(code, message, suggestion=suggestion)


class Kind(Protocol):
    """The type of a field.

    Contract: `read` returns the value in the runtime's form, or adds a diagnostic and returns
    WRONG. It never raises, whatever the value is.
    """

    @property
    def expected(self) -> str:
        """The expected value, in the words of messages and pages."""
        ...

    def read(self, node: Node) -> Any:
        """Return the value, or WRONG."""
        ...


class Field(Struct, frozen=True, kw_only=True):
    """One row of the table of a mapping."""

    key: str
    kind: Kind
    meaning: str
    """Text for the authors' page."""
    required: bool = False
    default: Any = None
    """Used if the field is missing or invalid."""


def read_fields(node: Node, fields: Sequence[Field]) -> dict[str, Any]:
    """Return every field of a mapping; a missing or invalid one has its default."""
    refuse_unknown(node, [field.key for field in fields])
    return {field.key: _read_field(node, field) for field in fields}


def refuse_unknown(node: Node, known: Sequence[str]) -> None:
    """Add an error for every unknown key that does not start with `x-`, with a suggestion."""
    for key in node.value:
        if key in known or key.startswith(OWN):
            continue
        near = nearest(key, known)
        node.refuse(
            "unknown-key",
            f"unknown key {quoted(key)} in {node.title}",
            at=node.at(key).key_place,
            suggestion=near and f'did you mean "{near}"?',
        )


def described(value: Any) -> str:
    """Return the JSON type and the start of the value, for messages."""
    if value is None:
        return "null"
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array"}
    return f"{kinds.get(type(value), 'object')} {quoted(value)}"


def quoted(value: Any) -> str:
    """Return a value as JSON, shortened for messages."""
    shown = cut(value, FOUND_CHARACTERS) if isinstance(value, str) else value
    text = json.dumps(shown, ensure_ascii=False)
    return text if isinstance(value, str) else cut(text, FOUND_CHARACTERS)


def _read_field(node: Node, field: Field) -> Any:
    if field.key in node.value:
        value = field.kind.read(node.at(field.key))
        return field.default if value is WRONG else value
    if field.required:
        message = f'{node.title} must have "{field.key}"'
        node.refuse("missing-key", message, at=node.key_place if node.path else _TOP)
    return field.default
