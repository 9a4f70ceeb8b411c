"""Parses tool inputs that people type: `key=value` pairs, or one JSON object."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from penstock.core.envelope import Json
from penstock.core.json_values.json_text import parse_json, parse_json_at
from penstock.core.json_values.schema import Problem
from penstock.core.text import cut

Read = tuple[dict[str, Any], list[Problem]]
"""An input, and the problems in its notation."""

_TYPE_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_SCALARS = {"string", "integer", "number", "boolean", "null"}
_NUMBER = re.compile(r"-?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?")
_INTEGER = re.compile(r"-?\d{1,300}")
_SHOWN_CHARACTERS = 100
_MAX_DEPTH = 20
"""References are followed at most this many times."""


def read_input(schema: Json, text: str) -> Read:
    """Return the typed input, with values of the schema's types, and every problem."""
    text = text.strip()
    if text.startswith("{"):
        return _read_object(schema, text)
    typed, problems = read_pairs(schema, _pairs(text))
    return typed, problems + _missing(schema, typed, problems)


def read_pairs(schema: Json, pairs: Iterable[tuple[str, str]]) -> Read:
    """Return the input in these pairs, and their problems; members may be missing."""
    reading = _Reading(schema)
    try:
        for key, value in pairs:
            reading.take(key, value)
    except ValueError as error:
        reading.problems.append(Problem("", str(error)))
    return reading.input, reading.problems


def usage(tool_id: str, schema: Json) -> str:
    """Return the usage line of a tool; optional parts are in brackets."""
    needed = needs(schema)
    properties: Mapping[str, Any] = schema.get("properties", {})
    optional = [each for each in properties if each not in needed]
    parts = [f"{each}={_shape(schema, each)}" for each in needed]
    parts += [f"[{each}={_shape(schema, each)}]" for each in optional]
    return " ".join([f"/call {tool_id}", *parts])


def needs(schema: Json) -> list[str]:
    """Return the required members of an input."""
    return [str(each) for each in schema.get("required", ())]


def _read_object(schema: Json, text: str) -> Read:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError) as error:
        return {}, [Problem("", f"is not JSON: {error}")]
    return value, _missing(schema, value, [])


class _Reading:
    """Builds an input from pairs."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self.input: dict[str, Any] = {}
        self.problems: list[Problem] = []

    def take(self, key: str, text: str) -> None:
        """Set a value; only a list can be set more than once."""
        member = _member(self._schema, key)
        types = _types(member, self._schema)
        if (items := self._items(member, types, text)) is not None:
            self.input.setdefault(key, []).append(self._value(key, items, text))
        elif key in self.input:
            self.problems.append(Problem(_pointer(key), "is given twice"))
        else:
            self.input[key] = self._value(key, types, text)

    def _items(self, member: Mapping[str, Any], types: set[str], text: str) -> set[str] | None:
        """Return the types of the items, if the text is one item of a list of scalars."""
        if "array" not in types or "string" in types or text.startswith("["):
            return None
        items = member.get("items", {})
        types_of_items = _types(items, self._schema) if isinstance(items, Mapping) else set[str]()
        return types_of_items if types_of_items <= _SCALARS else None

    def _value(self, key: str, types: set[str], text: str) -> Any:
        """Convert a text to one of these types; without types, parse it as JSON if it is JSON."""
        for name, read in _READ.items() if types else [("", _any)]:
            if name in types or not types:
                with suppress(ValueError, RecursionError):
                    return read(text)
        if not types or "string" in types:
            return text
        expected = " or ".join(_TYPE_NAMES[each] for each in _TYPE_NAMES if each in types)
        quoted = json.dumps(cut(text, _SHOWN_CHARACTERS), ensure_ascii=False)
        self.problems.append(Problem(_pointer(key), f"{quoted} is not {expected}"))
        return None


def _any(text: str) -> Any:
    return parse_json(text)


def _null(text: str) -> None:
    if text != "null":
        raise ValueError(text)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in {"true", "false"} else _refuse(text)


def _integer(text: str) -> int:
    return int(text) if _INTEGER.fullmatch(text) else _refuse(text)


def _number(text: str) -> float:
    number: float = parse_json(text) if _NUMBER.fullmatch(text) else _refuse(text)
    return number


def _array(text: str) -> list[Any]:
    value = parse_json(text)
    return value if isinstance(value, list) else _refuse(text)


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text)
    return value if isinstance(value, dict) else _refuse(text)


_READ: dict[str, Callable[[str], Any]] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "array": _array,
    "object": _object,
}


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _missing(schema: Json, input: Mapping[str, Any], problems: list[Problem]) -> list[Problem]:
    known = {each.path for each in problems}
    paths = {_pointer(each): each for each in needs(schema) if each not in input}
    return [Problem(path, "is required") for path in paths if path not in known]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield keys and values. Quotes keep blanks, and a backslash keeps the next character.

    Raises ValueError for any other text.
    """
    index = 0
    while index < len(text):
        if text[index].isspace():
            index += 1
            continue
        key, equals, _ = text[index:].partition("=")
        if not equals or not key or any(each.isspace() or each == '"' for each in key):
            word = text[index:].split(maxsplit=1)[0]
            raise ValueError(f"{cut(word, _SHOWN_CHARACTERS)!r} is not key=value")
        value, index = _quoted(text, index + len(key) + 1)
        yield key, value


def _quoted(text: str, index: int) -> tuple[str, int]:
    """Return the value that starts here, and its end."""
    if text[index : index + 1] in {"[", "{"} and (end := _end_of_json(text, index)) is not None:
        return text[index:end], end
    value: list[str] = []
    is_open = False
    while index < len(text) and (is_open or not text[index].isspace()):
        if text[index] == '"':
            is_open = not is_open
        else:
            index += text[index] == "\\" and index + 1 < len(text)
            value.append(text[index])
        index += 1
    if is_open:
        raise ValueError("a quote is not closed")
    return "".join(value), index


def _end_of_json(text: str, index: int) -> int | None:
    try:
        _, end = parse_json_at(text, index)
    except (ValueError, RecursionError):
        return None
    return end if end == len(text) or text[end].isspace() else None


def _member(schema: Json, key: str) -> Mapping[str, Any]:
    member = schema.get("properties", {}).get(key, {})
    return member if isinstance(member, Mapping) else {}


def _types(schema: Mapping[str, Any], root: Json, depth: int = 0) -> set[str]:
    """Return the types in a schema, including its references and branches."""
    ref, named = schema.get("$ref"), schema.get("type")
    if named is not None:
        return {named} if isinstance(named, str) else set(named)
    if depth > _MAX_DEPTH:
        return set()
    if isinstance(ref, str):
        return _types(_at(root, ref), root, depth + 1)
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    types = [_types(each, root, depth + 1) for each in branches if isinstance(each, Mapping)]
    if types:
        return set().union(*types) if all(types) else set()
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return {_TYPE_OF[type(each)] for each in values}


_TYPE_OF = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _at(root: Json, ref: str) -> Mapping[str, Any]:
    """Resolve a reference within the schema."""
    value: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _shape(schema: Json, key: str) -> str:
    member = _member(schema, key)
    if values := member.get("enum"):
        return f"<{'|'.join(str(each) for each in values)}>"
    types = _types(member, schema)
    return f"<{'|'.join(each for each in _TYPE_NAMES if each in types) or 'json'}>"


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")
