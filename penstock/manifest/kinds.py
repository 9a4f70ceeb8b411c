"""The kinds of fields in manifests: strings, numbers, choices, lists, mappings, JSON Schemas."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.json_values.schema import check_schema, pointer, remote_refs
from penstock.core.late import late
from penstock.core.text import cut
from penstock.manifest.fields import (
    WRONG,
    Field,
    Invalid,
    Kind,
    Node,
    described,
    quoted,
    read_fields,
)

ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class Text(Struct, frozen=True, kw_only=True):
    """A string with limits on its length and form."""

    expected: str = "a string"
    least: int = 0
    most: int | None = None
    """In characters."""
    max_bytes: int | None = None
    form: re.Pattern[str] | None = None

    def read(self, node: Node) -> str | Invalid:
        """Return the string."""
        text = node.value
        if not isinstance(text, str):
            return node.wrong_type(self.expected)
        is_long = self.most is not None and len(text) > self.most
        is_large = self.max_bytes is not None and len(text.encode()) > self.max_bytes
        is_other = self.form is not None and not self.form.fullmatch(text)
        if len(text) < self.least or is_long or is_large or is_other:
            return node.bad_value(self.expected)
        return text


class NonEmptyText(Struct, frozen=True, kw_only=True):
    """A non-empty string without surrounding white space."""

    expected: str
    most: int = 128

    def read(self, node: Node) -> str | Invalid:
        """Return the string."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        if not node.value or node.value.strip() != node.value or len(node.value) > self.most:
            return node.bad_value(self.expected)
        return node.value


class Id(Struct, frozen=True, kw_only=True):
    """The id of a tool or a skill."""

    noun: str
    expected: str = "a string"

    def read(self, node: Node) -> str | Invalid:
        """Return the id."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        if not ID.fullmatch(node.value):
            rule = 'use letters, digits, "_", "." and "-", begin with a letter or "_"'
            message = f"{quoted(node.value)} is not a valid {self.noun} id"
            return node.refuse("bad-id", f"{message}: {rule}, at most 64 characters")
        return node.value


class Integer(Struct, frozen=True, kw_only=True):
    """An integer in a range, bounds included."""

    low: int
    high: int
    noun: str = "an integer"

    @property
    def expected(self) -> str:
        """The expected value."""
        return f"{self.noun} from {self.low} to {self.high}"

    def read(self, node: Node) -> int | Invalid:
        """Return the number."""
        if type(node.value) is not int:
            return node.wrong_type(self.expected)
        return node.value if self.low <= node.value <= self.high else node.bad_value(self.expected)


class Number(Struct, frozen=True, kw_only=True):
    """A number in a range, bounds included."""

    low: float
    high: float

    @property
    def expected(self) -> str:
        """The expected value."""
        return f"a number from {self.low} to {self.high}"

    def read(self, node: Node) -> float | Invalid:
        """Return the number."""
        number = node.value
        if type(number) is not int and type(number) is not float:
            return node.wrong_type(self.expected)
        return number if self.low <= number <= self.high else node.bad_value(self.expected)


class Boolean(Struct, frozen=True, kw_only=True):
    """`true` or `false`; no other spelling."""

    expected: str = "true or false"

    def read(self, node: Node) -> bool | Invalid:
        """Return the value."""
        return node.value if isinstance(node.value, bool) else node.wrong_type(self.expected)


class OneOf(Struct, frozen=True, kw_only=True):
    """One of several words."""

    words: Sequence[str]
    make: Callable[[str], Any] = str

    @property
    def expected(self) -> str:
        """The expected value."""
        if len(self.words) == 1:
            return f'"{self.words[0]}"'
        return f"one of {', '.join(self.words)}"

    def read(self, node: Node) -> Any:
        """Return the word, converted by `make`."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        return self.make(node.value) if node.value in self.words else node.bad_value(self.expected)


class ListOf(Struct, frozen=True, kw_only=True):
    """A list of values of one kind."""

    item: Kind
    expected: str
    most: int
    least: int = 0

    def read(self, node: Node) -> tuple[Any, ...] | Invalid:
        """Return the valid items."""
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        count = len(node.value)
        if count > self.most:
            return node.too_long(self.expected, self.most)
        if count < self.least:
            return node.bad_value(self.expected)
        items = [self.item.read(node.at(number)) for number in range(count)]
        return tuple(item for item in items if item is not WRONG)


class SetOf(Struct, frozen=True, kw_only=True):
    """A non-empty list of distinct words."""

    words: Sequence[str]
    expected: str

    def read(self, node: Node) -> frozenset[str] | Invalid:
        """Return the words."""
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        chosen = [word for word in node.value if isinstance(word, str) and word in self.words]
        if not chosen or len(chosen) != len(node.value) or len(set(chosen)) != len(chosen):
            return node.bad_value(self.expected)
        return frozenset(chosen)


class RecordKind(Struct, frozen=True, kw_only=True):
    """A mapping with its own table of fields."""

    fields: Sequence[Field]
    build: Callable[[Node, dict[str, Any]], Any]
    """Builds the value from the fields; may report fields that do not go together."""
    expected: str = "a mapping"

    def read(self, node: Node) -> Any:
        """Return the value that `build` returns for the fields."""
        if not isinstance(node.value, dict):
            return node.wrong_type(self.expected)
        return self.build(node, read_fields(node, self.fields))


def from_fields(make: Callable[..., Any]) -> Callable[[Node, dict[str, Any]], Any]:
    """Return a `build` that passes the fields to a constructor by name."""
    return lambda _, values: make(**values)


def refuse_doubles(node: Node, noun: str, key: str = "") -> None:
    """Report each item of a list, or string under a key of an item, that appeared before."""
    seen: set[str] = set()
    for number in range(len(node.value) if isinstance(node.value, list) else 0):
        item = node.at(number, key) if key else node.at(number)
        if not isinstance(item.value, str):
            continue
        if item.value in seen:
            message = f'{noun} {quoted(item.value)} is declared twice in "{node.name}"'
            item.refuse("declared-twice", message)
        seen.add(item.value)


def exactly_one(node: Node, one: str, other: str) -> None:
    """Report a mapping that has both of two keys, or neither."""
    count = (one in node.value) + (other in node.value)
    if count == 1:
        return
    message = f'{node.title} must have exactly one of "{one}" and "{other}"'
    at = node.at(other).key_place if count else node.place
    node.refuse("exactly-one", f"{message}; found {'both' if count else 'neither'}", at=at)


POINTER_CHARACTERS = 500
"""Characters of a JSON pointer in a message: names in a schema may have any length."""


class JsonSchema(Struct, frozen=True, kw_only=True):
    """A JSON Schema (draft 2020-12) without references outside itself.

    Remote references are refused: resolving one would make loading a project send requests.
    """

    is_object: bool = False
    """The schema must have the type `object`, as inputs of tools do."""
    expected: str = "a JSON Schema object"

    def read(self, node: Node) -> Json | Invalid:
        """Return the schema as written."""
        schema = node.value
        if not isinstance(schema, dict):
            return node.wrong_type(self.expected)
        is_valid = _is_valid(node)
        if self.is_object and schema.get("type") != "object" and is_valid:
            seen = described(schema["type"]) if "type" in schema else "nothing"
            at = node.at("type").place if "type" in schema else node.place
            message = f'"{node.name}" must have type "object", found {seen}'
            return node.refuse("schema-not-object", message, at=at)
        return schema if is_valid else WRONG


def _is_valid(node: Node) -> bool:
    """Return whether the schema is valid; report its errors."""
    faults = check_schema(node.value)
    if not faults:
        return True
    remote = {reference.path: reference.ref for reference in remote_refs(node.value)}
    for path, ref in remote.items():
        message = f'"$ref" to {quoted(ref)} is refused: only references inside the same schema'
        node.at(*path).refuse("remote-ref", message)
    for fault in faults:
        if fault.path not in remote:
            where = cut(pointer(list(fault.path)), POINTER_CHARACTERS) or "/"
            message = (
                f'"{node.name}" is not a valid JSON Schema (2020-12): {fault.message} at {where}'
            )
            node.at(*fault.path).refuse("bad-schema", message)
    return False


class CheckedText(Struct, frozen=True, kw_only=True):
    """A text with a form of its own, such as a cron line or the name of a time zone."""

    expected: str
    check: Callable[[str], str]
    """Return the reason for which a text is refused; empty for a good one."""
    code: str
    colon: str = ""
    """Separates the name of the field from the reason."""

    def read(self, node: Node) -> str | Invalid:
        """Return the text."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        if reason := self.check(node.value):
            return node.refuse(self.code, f'"{node.name}"{self.colon} {reason}')
        return node.value


TIME_ZONE = CheckedText(
    expected="an IANA time zone, such as Europe/Berlin",
    check=lambda text: str(late("penstock.manifest.schedules.cron:check_zone")(text)),
    code="bad-timezone",
)
