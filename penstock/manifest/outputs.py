"""The declared outputs of an agent or a step."""

import re
import warnings
from typing import Any

from msgspec import Struct

from penstock.core.events.step import RESERVED, Output, ValueType
from penstock.core.json_values.schema import check_schema
from penstock.core.text import cut
from penstock.manifest.authored_kinds import AuthoredChoice, part, warn, warn_unknown
from penstock.manifest.fields import FOUND_CHARACTERS, WRONG, Invalid, Kind, Node, quoted
from penstock.manifest.kinds import Boolean, Text

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
OUTPUT_FIELDS = ("name", "description", "type", "pattern", "required")
VALUE_TYPE = AuthoredChoice(
    words=tuple(ValueType), wanted="string, number, boolean, object or array"
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

    wanted: str = "a list of names or of {name, description, type, pattern, required}"

    def read(self, node: Node) -> tuple[Output, ...] | Invalid:
        """Return the valid outputs, without duplicates."""
        if node.value is None:
            return ()
        if not isinstance(node.value, list):
            return node.wrong_type(self.wanted)
        outputs: dict[str, Output] = {}
        for number in range(len(node.value)):
            output = _output(node.at(number))
            if output is None:
                continue
            if output.name in outputs:
                said = f'output "{output.name}" is declared twice'
                _name_of(node.at(number)).refuse("duplicate-output", said)
            outputs.setdefault(output.name, output)
        return tuple(outputs.values())


def fits(value: Any, value_type: ValueType) -> bool:
    """Return whether a value has a JSON type."""
    is_other = isinstance(value, bool) and value_type is not ValueType.BOOLEAN
    return isinstance(value, _TYPES[value_type]) and not is_other


def required(node: Node, key: str, kind: Kind) -> Any:
    """Return the value of a key, or WRONG if it is missing."""
    if key in node.value:
        return kind.read(node.at(key))
    said = f'missing required field "{key}" in {node.name}'
    return node.refuse("missing-field", said, at=node.key_place)


def _output(node: Node) -> Output | None:
    if isinstance(node.value, str):
        return Output(name=node.value) if _is_name(node) else None
    if not isinstance(node.value, dict):
        node.wrong_type("a name or {name, description, type, pattern, required}")
        return None
    warn_unknown(node, OUTPUT_FIELDS, node.name)
    name = required(node, "name", Text(wanted="an identifier"))
    if name is WRONG or not _is_name(node.at("name")):
        return None
    word = part(node, "type", VALUE_TYPE, None)
    pattern = _pattern(node.at("pattern"), name)
    is_promised = word is not None or pattern is not None
    return Output(
        name=name,
        description=part(node, "description", Text(wanted="text"), ""),
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
        said = f'output "{name}" is a reserved name'
        node.refuse("reserved-output", said, suggestion=f"reserved: {', '.join(RESERVED)}")
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
    said = f"pattern of output {quoted(name)} is not a regular expression"
    warn(node, "bad-pattern", f"{said}: {_fault(node.value)}; it is ignored")
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
            return "it is too deep, or too large"
    return "it uses what not every engine knows"
