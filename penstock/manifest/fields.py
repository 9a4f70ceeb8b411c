"""The fields of a manifest as tables: each is read by its kind, and what is wrong is noted."""

import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from penstock.core.diagnostics import Severity, nearest
from penstock.core.text import cut
from penstock.manifest.files.manifest_folder import ManifestFolder
from penstock.manifest.yaml.source import Document, SourceRange, YamlPath

FOUND_CHARACTERS = 60
OWN = "x-"
"""Keys that begin so are an author's own, and ignored."""
_TOP = SourceRange(line=1, column=1)


class Invalid:
    """Stands for a value that could not be read; its problem is noted."""


WRONG: Final = Invalid()


class Node(Struct, kw_only=True):
    """One value of a manifest: what it is, where it stands, and how it is named to its author."""

    document: Document
    home: ManifestFolder
    what: str
    """The whole manifest as its author knows it: `a tool manifest`."""
    value: Any
    path: YamlPath = ()

    @property
    def name(self) -> str:
        """Return the path as authors read it: `state[0].key_prefix`."""
        parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self.path)
        return "".join(parts).removeprefix(".")

    @property
    def title(self) -> str:
        """Return what a mapping is called in messages: `a tool manifest`, `"state[0]"`."""
        return f'"{self.name}"' if self.path else self.what

    @property
    def place(self) -> SourceRange:
        """Return where the value stands."""
        return self.document.values.get(self.path, _TOP)

    @property
    def key_place(self) -> SourceRange:
        """Return where its key stands; of an item of a list, the item."""
        return self.document.keys.get(self.path, self.place)

    def line_of(self, key: str) -> int:
        """Return the line in which a value stands, or where the mapping begins that lacks it."""
        return (self.at(key) if key in self.value else self).place.line

    def at(self, *keys: str | int) -> "Node":
        """Return a value inside this one; None where there is none."""
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
        """Note an error at the value, or at the place."""
        self.document.problem(code, message, at or self.place, suggestion)
        return WRONG

    def warn(self, code: str, message: str, *, at: SourceRange | None = None) -> None:
        """Note a warning at the value, or at the place."""
        self.document.problem(code, message, at or self.place, severity=Severity.WARNING)

    def wrong_type(self, wanted: str) -> Invalid:
        """Note that the value is of another type."""
        return self._unfit("wrong-type", wanted, found(self.value))

    def bad_value(self, wanted: str, seen: str | None = None) -> Invalid:
        """Note that the value is of the right type, and wrong."""
        return self._unfit("bad-value", wanted, seen or found(self.value))

    def too_long(self, wanted: str, most: int) -> Invalid:
        """Note that the value is a list of more items than may be."""
        hint = f"it has {len(self.value)} items, the limit is {most}"
        return self._unfit("bad-value", wanted, found(self.value), hint)

    def _unfit(self, code: str, wanted: str, seen: str, suggestion: str | None = None) -> Invalid:
        said = f'"{self.name}" must be {wanted}, found {seen}'
        return self.refuse(code, said, suggestion=suggestion)


class Kind(Protocol):
    """What a value may be.

    Contract: `read` returns the value as the runtime wants it, or notes what is wrong and returns
    WRONG; it never raises, whatever the value is.
    """

    @property
    def wanted(self) -> str:
        """What it must be, as messages and pages say it."""
        ...

    def read(self, node: Node) -> Any:
        """Return the value, or WRONG."""
        ...


class Field(Struct, frozen=True, kw_only=True):
    """One row of the table of a mapping."""

    key: str
    kind: Kind
    meaning: str
    """For the page of authors."""
    required: bool = False
    default: Any = None
    """What stands for it where it is left out, or wrong."""


def read_fields(node: Node, fields: Sequence[Field]) -> dict[str, Any]:
    """Return every field of a mapping; what is wrong is noted, and its default stands for it."""
    refuse_unknown(node, [each.key for each in fields])
    return {each.key: _read_field(node, each) for each in fields}


def refuse_unknown(node: Node, known: Sequence[str]) -> None:
    """Note every key that is neither known nor the author's own, with the nearest."""
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


def found(value: Any) -> str:
    """Return a JSON type and the beginning of the value, as messages show it."""
    if value is None:
        return "null"
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array"}
    return f"{kinds.get(type(value), 'object')} {quoted(value)}"


def quoted(value: Any) -> str:
    """Return a value as JSON, cut to what fits into a message."""
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
