"""Kinds of fields in flows and agents: lists as people write them, declared outputs, warnings."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Severity, nearest
from penstock.core.events.flow_events import RESERVED, Output, ValueType
from penstock.core.json_values.schema import check_schema
from penstock.core.text import cut
from penstock.manifest import kinds
from penstock.manifest.document import SourceRange
from penstock.manifest.fields import FOUND_CHARACTERS, OWN, WRONG, Invalid, Kind, Node, quoted
from penstock.manifest.kinds import Boolean, Text

MAX_UNKNOWN = 100
"""Unknown keys of one mapping that are named; the others are counted."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
OUTPUT_FIELDS = ("name", "description", "type", "pattern", "required")
Item = tuple[str, SourceRange]
"""A string of a list, with its position."""


class AuthoredInteger(kinds.Integer, frozen=True, kw_only=True):
    """An integer in a range, with the wording of flows and agents."""

    noun: str = "a whole number"


class Names(Struct, frozen=True, kw_only=True):
    """A list of strings, or one string that is split at commas."""

    expected: str
    item_expected: str = "text"
    is_split: bool = True

    def read(self, node: Node) -> tuple[str, ...] | Invalid:
        """Return the valid strings; null means none."""
        if node.value is None or (self.is_split and isinstance(node.value, str)):
            return tuple(text for text, _ in named_items(node))
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        for number, item in enumerate(node.value):
            if not isinstance(item, str):
                node.at(number).wrong_type(self.item_expected)
        return tuple(text for text, _ in named_items(node))


class AuthoredChoice(Struct, frozen=True, kw_only=True):
    """One of several words; messages list them as a sentence."""

    words: Sequence[str]
    expected: str = field(default="text")

    def read(self, node: Node) -> str | Invalid:
        """Return the word."""
        if not isinstance(node.value, str):
            return node.wrong_type(self.expected)
        return node.value if node.value in self.words else node.bad_value(self.expected)


VALUE_TYPE = AuthoredChoice(
    words=tuple(ValueType), expected="string, number, boolean, object or array"
)
_TYPES: dict[ValueType, tuple[type, ...]] = {
    ValueType.STRING: (str,),
    ValueType.NUMBER: (int, float),
    ValueType.BOOLEAN: (bool,),
    ValueType.OBJECT: (dict,),
    ValueType.ARRAY: (list,),
}


class Outputs(Struct, frozen=True, kw_only=True):
    """The outputs of a step: names, or mappings with more details."""

    expected: str = "a list of names or of {name, description, type, pattern, required}"

    def read(self, node: Node) -> tuple[Output, ...] | Invalid:
        """Return the valid outputs, without duplicates."""
        if node.value is None:
            return ()
        if not isinstance(node.value, list):
            return node.wrong_type(self.expected)
        outputs: dict[str, Output] = {}
        for number in range(len(node.value)):
            output = _output(node.at(number))
            if output is None:
                continue
            if output.name in outputs:
                message = f'output "{output.name}" is declared twice'
                _name_of(node.at(number)).refuse("duplicate-output", message)
            outputs.setdefault(output.name, output)
        return tuple(outputs.values())


def named_items(node: Node) -> list[Item]:
    """Return the strings of a list, or of one string split at commas, with their positions."""
    if isinstance(node.value, str):
        texts = (each.strip() for each in node.value.split(","))
        return [(text, node.key_place) for text in texts if text]
    items = node.value if isinstance(node.value, list) else []
    return [(each, node.at(n).place) for n, each in enumerate(items) if isinstance(each, str)]


def part(node: Node, key: str, kind: Kind, default: Any) -> Any:
    """Return the value of a key; its default if it is missing or invalid."""
    if key not in node.value:
        return default
    value = kind.read(node.at(key))
    return default if value is WRONG else value


def warn_unknown(node: Node, known: Sequence[str], title: str) -> None:
    """Warn of unknown keys of a mapping, each with the nearest known one."""
    unknown = [key for key in node.value if key not in known and not key.startswith(OWN)]
    for key in unknown[:MAX_UNKNOWN]:
        message = f"unknown field {quoted(key)} in {title}"
        warn(node.at(key), "unknown-field", message, meant(nearest(key, known)))
    if more := unknown[MAX_UNKNOWN:]:
        message = f"there are {len(more)} more unknown fields in {title}"
        warn(node.at(more[0]), "unknown-field", message)


def warn(node: Node, code: str, message: str, suggestion: str | None = None) -> None:
    """Add a warning at the key of a value."""
    severity = Severity.WARNING
    node.document.problem(code, message, node.key_place, suggestion, severity=severity)


def meant(near: str | None) -> str | None:
    """Return the suggestion of the nearest name."""
    return None if near is None else f'did you mean "{near}"?'


def fits(value: Any, value_type: ValueType) -> bool:
    """Return whether a value has a JSON type."""
    is_other = isinstance(value, bool) and value_type is not ValueType.BOOLEAN
    return isinstance(value, _TYPES[value_type]) and not is_other


def required(node: Node, key: str, kind: Kind) -> Any:
    """Return the value of a key, or WRONG if it is missing."""
    if key in node.value:
        return kind.read(node.at(key))
    message = f'missing required field "{key}" in {node.name}'
    return node.refuse("missing-field", message, at=node.key_place)


def _output(node: Node) -> Output | None:
    if isinstance(node.value, str):
        return Output(name=node.value) if _is_name(node) else None
    if not isinstance(node.value, dict):
        node.wrong_type("a name or {name, description, type, pattern, required}")
        return None
    warn_unknown(node, OUTPUT_FIELDS, node.name)
    name = required(node, "name", Text(expected="an identifier"))
    if name is WRONG or not _is_name(node.at("name")):
        return None
    word = part(node, "type", VALUE_TYPE, None)
    pattern = _pattern(node.at("pattern"), name)
    is_promised = word is not None or pattern is not None
    return Output(
        name=name,
        description=part(node, "description", Text(expected="text"), ""),
        value_type=None if word is None else ValueType(word),
        pattern=pattern,
        is_required=part(node, "required", Boolean(), is_promised),
    )


def _name_of(node: Node) -> Node:
    return node.at("name") if isinstance(node.value, dict) else node


def _is_name(node: Node) -> bool:
    """Return whether a name is valid; warn if templates cannot use it."""
    name = node.value
    if name in RESERVED:
        message = f'output "{name}" is a reserved name'
        node.refuse("reserved-output", message, suggestion=f"reserved: {', '.join(RESERVED)}")
        return False
    if not IDENTIFIER.fullmatch(name):
        warn(node, "bad-output-name", f"output {quoted(name)} is not an identifier")
    return bool(name)


def _pattern(node: Node, name: str) -> str | None:
    if node.value is None:
        return None
    if not isinstance(node.value, str):
        node.wrong_type("text")
        return None
    if not check_schema({"type": "string", "pattern": node.value}):
        return node.value
    message = f"pattern of output {quoted(name)} is not a regular expression"
    warn(node, "bad-pattern", f"{message}: {_fault(node.value)}; it is ignored")
    return None


def _fault(pattern: str) -> str:
    """Return the error of a pattern, as precisely as possible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except re.error as error:
            return cut(str(error), FOUND_CHARACTERS)
        except (RecursionError, OverflowError):
            return "it is nested too deeply, or too large"
    return "it uses syntax that not every engine supports"
