"""Rewrites the schema of an output into the form that a provider enforces while a model writes.

Guarantees that what the fitted schema accepts is valid by the original, once `Fitted.restored` has
removed the nulls of optional properties that take no null. Excepted are the keywords that a
provider cannot enforce: the description states them, and the caller's validation checks them. A
schema that cannot be expressed, or is too deep or too large to be read, gives `ToolMode` with the
reason: the output becomes the input of a tool.

How it works. `definitions` checks the schema, gives all references one form and removes `allOf`,
and `_Fitting` visits the rest once. It collects reasons instead of stopping.

Proof: tests/models/structured/test_fit.py, and tests/promises/test_fitted_schemas.py.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import canonical
from penstock.core.json_values.schema import json_type, pointer
from penstock.models.structured.definitions import (
    ANNOTATIONS,
    Definitions,
    Part,
    merged,
    name_of,
    plain,
    read,
)
from penstock.models.structured.fitted import ABSENT, Dialect, Fitted, ToolMode, excess

_LOOK_AROUND = re.compile(r"(?:[^\\]|^)(?:\\\\)*\(\?(?:<?[=!])")
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "string": frozenset(
        {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}
    ),
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "array": frozenset(
        {
            "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
            "minContains", "maxContains", "unevaluatedItems",
        }
    ),
    "object": frozenset(
        {
            "properties", "required", "additionalProperties", "patternProperties",
            "propertyNames", "minProperties", "maxProperties", "dependentRequired",
            "dependentSchemas", "unevaluatedProperties",
        }
    ),
}  # fmt: skip
_ALL_TYPED = frozenset[str]().union(*_OF_TYPE.values())
_STRUCTURE = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "patternProperties",
        "unevaluatedProperties", "items", "prefixItems", "enum", "const",
        "$ref", "description",
    }
)  # fmt: skip
_CONFLICT = "combines schemas that cannot be merged"
_SINGLE_VALUES = (str, int, float, bool, type(None))


def fit(schema: Any, dialect: Dialect) -> Fitted | ToolMode:
    """Return the schema as the provider enforces it, or why it cannot.

    A schema that is too deep or too large to be rewritten goes to a tool, too: it was accepted when
    the agent or the message was made, so its request must not fail.
    """
    try:
        definitions = read(schema)
    except ConfigError as error:
        return ToolMode(str(error))
    if definitions.inner:
        return ToolMode(f"{definitions.inner!r} refers to a part that is not under $defs")
    fitting = _Fitting(definitions, dialect)
    root = fitting.root()
    if not fitting.reasons and (reason := excess(root, dialect)):
        fitting.reasons.append(reason)
    if fitting.reasons:
        return ToolMode(fitting.reasons[0])
    return Fitted(root, is_wrapped=fitting.is_wrapped)


class _Fitting:
    def __init__(self, definitions: Definitions, dialect: Dialect) -> None:
        self.reasons: list[str] = []
        self.is_wrapped = False
        self._definitions = definitions
        self._dialect = dialect
        self._wanted: list[str] = []

    def root(self) -> Part:
        """Return the whole schema: an object, with the definitions that it reaches."""
        schema: Any = plain(self._definitions.root, self._definitions)
        while isinstance(schema, dict) and "$ref" in schema:
            outer = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._definitions.target(schema["$ref"])
            schema = plain(target, self._definitions) if isinstance(target, dict) else target
            schema = {**schema, **outer} if isinstance(schema, dict) else schema
        wire = self.part(schema, "")
        if wire.get("type") != "object" and not self.reasons:
            self.is_wrapped = True
            wire = _closed({"value": wire}, ["value"])
        parts: Part = {}
        for name in self._wanted:  # grows while definitions are visited
            if name not in parts:
                parts[name] = self.part(self._definitions.parts[name], pointer(["$defs", name]))
        return {**wire, "$defs": parts} if parts else wire

    def part(self, given: Any, place: str) -> Part:
        """Return one schema in the dialect."""
        schema = plain(given, self._definitions) if isinstance(given, dict) else given
        if not isinstance(schema, dict):
            why = {True: "has no type", False: "accepts nothing"}
            return self._refuse(place, why.get(schema, _CONFLICT))
        if "$ref" in schema:
            return self._reference(schema)
        for keyword, read_as in (
            ("anyOf", self._choice),
            ("oneOf", self._choice),
            ("enum", self._values),
            ("const", self._values),
        ):
            if keyword in schema:
                return read_as(schema, place)
        return self._typed(schema, place)

    def _typed(self, schema: Part, place: str) -> Part:
        match _types(schema):
            case ["object"]:
                return self._object(schema, place)
            case ["array"]:
                return self._array(schema, place)
            case [kind]:
                return self._described({"type": kind}, schema, kind)
            case types:
                return self._several(schema, types, place)

    def _refuse(self, place: str, what: str) -> Part:
        self.reasons.append(f"{place or '/'} {what}")
        return {}

    def _reference(self, schema: Part) -> Part:
        self._wanted.append(name_of(schema["$ref"]))
        return self._described({"$ref": schema["$ref"]}, schema, "")

    def _choice(self, schema: Part, place: str) -> Part:
        keyword = "anyOf" if "anyOf" in schema else "oneOf"
        outer = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        beside = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k != keyword}
        options = [each for each in schema[keyword] if each is not False]
        branches: list[Part] = []
        for number, option in enumerate(options):
            whole = merged([beside, option], self._definitions) if beside else option
            if whole is None:
                return self._refuse(place, _CONFLICT)
            branches += _flattened(self.part(whole, f"{place}/{keyword}/{number}"))
        if keyword == "oneOf" and not self._are_disjoint(options):
            outer["oneOf"] = "exactly one alternative may fit"
        if not branches:
            return self._refuse(place, "accepts nothing")
        return self._described(_any_of(branches), outer, "")

    def _are_disjoint(self, options: Sequence[Any]) -> bool:
        """Whether types, or the values of one required property, tell all options apart."""
        whole = [merged([option], self._definitions) for option in options]
        if not all(isinstance(each, dict) for each in whole):
            return False
        kinds = [set(_types(each)) for each in whole]
        if all(kinds) and len(set().union(*kinds)) == sum(map(len, kinds)):
            return not {"integer", "number"} <= set().union(*kinds)
        shared = set.intersection(*(set(each.get("required", ())) for each in whole))
        columns = ([_constants(each, name) for each in whole] for name in sorted(shared))
        return any(map(_tells_apart, columns))

    def _values(self, schema: Part, place: str) -> Part:
        """Return the schema of a list of values: only those that all other keywords accept."""
        rules = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        is_valid = self._definitions.compiled(rules).problems
        given = schema["enum"] if "enum" in schema else [schema["const"]]
        values = [each for each in given if not is_valid(each)]
        if not values:
            return self._refuse(place, "accepts nothing")
        if not all(isinstance(each, _SINGLE_VALUES) for each in values):
            return self._refuse(place, "has an object or an array among its values")
        outer = {key: value for key, value in schema.items() if key in ANNOTATIONS}
        if not self._dialect.requires_all:
            return self._described({"enum": values}, outer, "")
        groups: dict[str, list[Any]] = {}
        for value in values:
            groups.setdefault(json_type(value), []).append(value)
        branches = [_enumeration(kind, group) for kind, group in groups.items()]
        return self._described(_any_of(branches), outer, "")

    def _several(self, schema: Part, types: list[str], place: str) -> Part:
        """Return a choice of types. Each keyword goes to the types that it is about."""
        if not types:
            return self._refuse(place, "has no type")
        general = {key: value for key, value in schema.items() if key not in {"type", *_ALL_TYPED}}
        branches = []
        for kind in types:
            own = _OF_TYPE.get(kind, frozenset())
            typed = {key: value for key, value in schema.items() if key in own}
            branches.append(self.part({"type": kind, **typed}, place))
        return self._described(_any_of(branches), general, "")

    def _object(self, schema: Part, place: str) -> Part:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        rest = schema.get("additionalProperties", True if "properties" not in schema else None)
        rest = schema.get("unevaluatedProperties") if rest is None else rest
        if schema.get("patternProperties") or (rest is not None and rest is not False):
            return self._refuse(place, "is an object with free keys")
        if not properties.keys() >= set(required):
            return self._refuse(place, "requires a property that it does not describe")
        wires: dict[str, Part] = {}
        for name, inner in properties.items():
            if inner is False and name not in required:
                continue
            wire = self.part(inner, place + pointer(["properties", name]))
            if self._dialect.requires_all and name not in required:
                wire = self._absentable(wire, inner)
            wires[name] = wire
        must = list(wires) if self._dialect.requires_all else schema.get("required")
        return self._described(_closed(wires, must), schema, "object")

    def _absentable(self, wire: Part, original: Any) -> Part:
        """Return the schema of an optional property that must be there: null means absent."""
        branches = _flattened({key: wire[key] for key in wire if key != "description"})
        if any(branch.get("type") == "null" for branch in branches):
            return wire
        null = {"type": "null"} if self._takes_null(original) else ABSENT
        outer = {key: wire[key] for key in wire if key == "description"}
        return {"anyOf": [*branches, null], **outer}

    def _takes_null(self, schema: Any) -> bool:
        if isinstance(schema, dict) and isinstance(schema.get("type"), str):
            return bool(schema["type"] == "null")
        return self._definitions.accepts(schema, None)

    def _array(self, schema: Part, place: str) -> Part:
        if "prefixItems" in schema:
            return self._tuple(schema, place)
        items = schema.get("items", True)
        if isinstance(items, bool):
            return self._refuse(place, "is an array whose items have no type")
        wire = {"type": "array", "items": self.part(items, f"{place}/items")}
        return self._described(wire, schema, "array")

    def _tuple(self, schema: Part, place: str) -> Part:
        first = schema["prefixItems"]
        rest = schema.get("items", False)
        branches = [
            branch
            for number, each in enumerate([*first, *([rest] if isinstance(rest, dict) else [])])
            for branch in _flattened(self.part(each, f"{place}/prefixItems/{number}"))
        ]
        bound = schema if isinstance(rest, dict) else {"maxItems": len(first), **schema}
        order = [_short_name(each) for each in first]
        wire = {"type": "array", "items": _any_of(branches)}
        return self._described(wire, {**bound, "order": order}, "array")

    def _described(self, wire: Part, schema: Part, kind: str) -> Part:
        """Add the keywords that the provider enforces, and the others to the description."""
        foreign = _ALL_TYPED - _OF_TYPE.get(kind, frozenset())
        moved = []
        for keyword, value in schema.items():
            if keyword in _STRUCTURE or keyword in foreign:
                continue
            if self._keeps(keyword, value):
                wire[keyword] = value
            elif not (keyword == "uniqueItems" and value is False):
                moved.append(f"{keyword}: {json.dumps(value, ensure_ascii=False)}")
        stated = [text for text in (schema.get("description"), wire.get("description")) if text]
        if moved:
            stated.append("{" + ", ".join(moved) + "}")
        if stated and "$ref" in wire:  # no provider takes a keyword beside a reference
            wire = {"anyOf": [wire]}
        if stated:
            wire["description"] = "\n\n".join(stated)
        return wire

    def _keeps(self, keyword: str, value: Any) -> bool:
        if keyword == "format":
            return value in self._dialect.formats
        if keyword not in self._dialect.kept:
            return False
        if keyword == "pattern":
            return not _LOOK_AROUND.search(value)
        most = self._dialect.max_min_items
        return most is None or keyword != "minItems" or int(value) <= most


def _closed(properties: Part, required: Any) -> Part:
    wire = {"type": "object", "properties": properties, "additionalProperties": False}
    return wire if required is None else {**wire, "required": required}


def _types(schema: Part) -> list[str]:
    """Return the types of a schema without choices; those that its keywords imply."""
    kinds = schema.get("type", [])
    if kinds:
        return list(dict.fromkeys([kinds] if isinstance(kinds, str) else kinds))
    implied = (("object", "properties"), ("array", "items"), ("array", "prefixItems"))
    return [kind for kind, keyword in implied if keyword in schema][:1]


def _flattened(wire: Part) -> list[Part]:
    """Return the branches of a schema that is only a choice, or the schema itself."""
    branches: list[Part] = wire["anyOf"] if wire.keys() == {"anyOf"} else [wire]
    return branches


def _any_of(branches: Sequence[Part]) -> Part:
    """Return a choice without repetitions; a single branch needs none."""
    unique = {canonical(each): each for each in branches}
    return {"anyOf": list(unique.values())} if len(unique) > 1 else dict(branches[0])


def _enumeration(kind: str, values: list[Any]) -> Part:
    if kind == "null":
        return {"type": "null"}
    if kind == "number" and all(float(each).is_integer() for each in values):
        kind = "integer"
    return {"type": kind, "enum": values}


def _constants(schema: Part, name: str) -> list[Any]:
    inner = schema.get("properties", {}).get(name)
    if not isinstance(inner, dict):
        return []
    found: list[Any] = [inner["const"]] if "const" in inner else inner.get("enum", [])
    return found


def _tells_apart(groups: Sequence[list[Any]]) -> bool:
    texts = [canonical(value) for group in groups for value in group]
    return all(groups) and len(set(texts)) == len(texts)


def _short_name(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "$ref" in schema:
        return name_of(schema["$ref"])
    kinds = _types(schema)
    return " or ".join(kinds) or "any"
