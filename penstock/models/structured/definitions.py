"""Reads an output schema: references in one form, `#/$defs/NAME`, and no `allOf`.

Guarantees that a schema which is not one, refers to another document or refers to itself without
end is a ConfigError that names the place; that nothing here takes long for a hostile schema; and
that after `read` every reference has a target. `merged` gives one schema that accepts exactly what
all given ones accept, or None where no such schema can be written down. Properties keep their
references, so a recursive type stays recursive. Proof: tests/models/structured/test_definitions.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct

from penstock.core.errors import ConfigError
from penstock.core.json_values.json_text import canonical
from penstock.core.json_values.schema import Schema, pointer, remote_refs

MAX_PARTS = 50_000
"""Most values in a schema."""
MAX_LEVELS = 100
"""Most levels of nesting in a schema: the functions of this package recurse."""
PREFIX = "#/$defs/"
_HOMES = ("$defs", "definitions")
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_SINGLE = frozenset(
    {
        "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
        "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_IN_PLACE_SINGLE = ("not", "if", "then", "else")

ANNOTATIONS = frozenset({"default", "deprecated", "description", "readOnly", "writeOnly"})
"""Keywords that say nothing about which values are valid."""
DROPPED = frozenset(
    {
        "$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary",
        "definitions", "discriminator", "examples", "title",
    }
)  # fmt: skip
"""Annotations that no provider is sent."""
_MAX_MERGED = 30
"""Most levels of merged properties. Two recursive types would be merged without end."""
_GROUPS = ({"if", "then", "else"}, {"contains", "minContains", "maxContains"})
"""Keywords that are read together."""
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

Part = dict[str, Any]


class Definitions(Struct, frozen=True):
    """A schema without its definitions, and the definitions."""

    root: Part
    parts: Mapping[str, Any]
    inner: str = ""
    """A reference to a part outside of the definitions; empty if there is none."""

    def target(self, ref: str) -> Any:
        """Return the definition that a reference names."""
        return self.parts[name_of(ref)]

    def accepts(self, schema: Any, value: Any) -> bool:
        """Whether a value is valid by a part of this schema."""
        return not self.compiled(schema).problems(value)

    def compiled(self, schema: Any) -> Schema:
        """Return the validator of a part."""
        return Schema(
            {**(schema if isinstance(schema, dict) else {"allOf": [schema]}), "$defs": self.parts}
        )


def read(schema: Any) -> Definitions:
    """Return the schema in the form of this module. Raises ConfigError for a broken schema."""
    if not isinstance(schema, dict):
        raise _refused(f"must be an object, found {type(schema).__name__}")
    _check_size(schema)
    for remote in remote_refs(schema):
        place = pointer(list(remote.path))
        raise _refused(
            f"refers to another document at {place}: {remote.ref!r}. Put that schema under $defs"
        )
    try:
        Schema(schema)
    except ValueError as error:
        raise _refused(f"is not a JSON Schema: {error}") from error
    definitions = _renamed(schema)
    if not definitions.inner:
        _check_cycles(definitions)
    return definitions


def name_of(ref: str) -> str:
    """Return the name of the definition that a reference of the form of this module names."""
    return ref.removeprefix(PREFIX).replace("~1", "/").replace("~0", "~")


def ref_to(name: str) -> str:
    """Return the reference to a definition."""
    return f"#{pointer(['$defs', name])}"


def subschemas(part: Any) -> Iterator[Any]:
    """Yield the schemas directly inside a schema."""
    if not isinstance(part, dict):
        return
    for keyword, value in part.items():
        if keyword in _SINGLE:
            yield value
        elif keyword in _LISTS:
            yield from value
        elif keyword in _MAPS:
            yield from value.values()


def _refused(what: str) -> ConfigError:
    return ConfigError(f"the schema of an output {what}")


def _check_size(schema: Part) -> None:
    """Refuse a schema that is too deep or too large, also one that contains itself."""
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    count = 0
    while waiting:
        part, level = waiting.pop()
        count += 1
        if level > MAX_LEVELS:
            raise _refused(f"has more than {MAX_LEVELS} levels: define types of their own")
        if count > MAX_PARTS:
            raise _refused(f"has more than {MAX_PARTS:,} values: use a smaller type")
        if isinstance(part, dict):
            waiting += ((each, level + 1) for each in part.values())
        elif isinstance(part, (list, tuple)):
            waiting += ((each, level + 1) for each in part)


def _renamed(schema: Part) -> Definitions:
    """Collect the definitions and rewrite the references."""
    names: dict[str, str] = {}
    found: dict[str, Any] = {}
    for home in _HOMES:
        for name, part in schema.get(home, {}).items():
            names[f"#{pointer([home, name])}"] = new = _free_name(name, found)
            found[new] = part
    root = {key: value for key, value in schema.items() if key not in _HOMES}
    renaming = _Renaming(names, _free_name("root", found))
    parts = {name: renaming.part(part) for name, part in found.items()}
    root = renaming.part(root)
    if renaming.reaches_root:
        parts[renaming.root_name] = root
    return Definitions(root, parts, renaming.inner)


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


class _Renaming:
    """Copies schemas with their references rewritten. Values of `enum` stay as they are."""

    def __init__(self, names: Mapping[str, str], root_name: str) -> None:
        self.root_name = root_name
        self.reaches_root = False
        self.inner = ""
        self._names = names

    def part(self, part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        return {key: self._value(key, value) for key, value in part.items()}

    def _value(self, keyword: str, value: Any) -> Any:
        if keyword == "$ref":
            return self._ref(value)
        if keyword == "$dynamicRef":
            self.inner = self.inner or value
        if keyword in _SINGLE:
            return self.part(value)
        if keyword in _LISTS:
            return [self.part(each) for each in value]
        if keyword in _MAPS:
            return {name: self.part(each) for name, each in value.items()}
        return value

    def _ref(self, ref: str) -> str:
        if ref == "#":
            self.reaches_root = True
            return ref_to(self.root_name)
        if ref not in self._names:
            self.inner = self.inner or ref
            return ref
        return ref_to(self._names[ref])


def _check_cycles(definitions: Definitions) -> None:
    """Refuse a reference that leads back to itself without any value in between."""
    done: set[str] = set()
    for start in definitions.parts:
        path = [(start, _leads_to(definitions.parts[start]))]
        open_names = {start}
        while path:
            name, remaining = path[-1]
            if name in done or not remaining:
                done.add(name)
                open_names.discard(name)
                path.pop()
                continue
            following = remaining.pop()
            if following in open_names:
                raise _refused(
                    f"defines {following!r} only by itself: give it a type or properties"
                )
            open_names.add(following)
            path.append((following, _leads_to(definitions.parts[following])))


def _leads_to(part: Any) -> list[str]:
    """Return the names of the definitions that apply to the same value as a schema."""
    names, waiting = [], [part]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        if "$ref" in each:
            names.append(name_of(each["$ref"]))
        waiting += [one for keyword in _IN_PLACE for one in each.get(keyword, ())]
        waiting += [each[keyword] for keyword in _IN_PLACE_SINGLE if keyword in each]
    return names


def plain(schema: Part, definitions: Definitions) -> Any:
    """Return the schema without `allOf`, and with no more than annotations beside a `$ref`."""
    own = {key: value for key, value in schema.items() if key not in DROPPED}
    rules = own.keys() - ANNOTATIONS
    if rules == {"allOf"} and len(own["allOf"]) == 1 and _is_reference(own["allOf"][0]):
        outer = {key: value for key, value in own.items() if key != "allOf"}
        return {**own["allOf"][0], **outer}
    if "allOf" not in rules and ("$ref" not in rules or rules == {"$ref"}):
        return own
    if own.get("unevaluatedProperties") is False:  # sees the properties of all parts
        own = {key: value for key, value in own.items() if key != "unevaluatedProperties"}
        own["additionalProperties"] = own.get("additionalProperties", True)
        whole = merged([own], definitions)
        return {**whole, "additionalProperties": False} if isinstance(whole, dict) else whole
    return merged([own], definitions)


def merged(schemas: Iterable[Any], definitions: Definitions, level: int = 0) -> Any:
    """Return one schema for all; None if they contradict each other or cannot be merged."""
    flat = list(chain.from_iterable(_flat(each, definitions) for each in schemas))
    if level > _MAX_MERGED:
        return None
    whole: Part = {}
    for part in flat:
        if part is False:
            return False
        if part is True:
            continue
        joined = _joined(whole, part, definitions, level)
        if joined is None:
            return None
        whole = joined
    return whole


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; unlike in Python, 1 is not true."""
    return one is other or canonical(one) == canonical(other)


def _is_reference(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.keys() - DROPPED == {"$ref"}


def _flat(schema: Any, definitions: Definitions) -> Iterator[Any]:
    """Yield schemas without `$ref` and `allOf` that together say the same."""
    if not isinstance(schema, dict):
        yield schema
        return
    yield {k: v for k, v in schema.items() if k not in DROPPED and k not in {"$ref", "allOf"}}
    if "$ref" in schema:
        yield from _flat(definitions.target(schema["$ref"]), definitions)
    for each in schema.get("allOf", ()):
        yield from _flat(each, definitions)


def _joined(one: Part, other: Part, definitions: Definitions, level: int) -> Part | None:
    if _forbids(one, other) or _forbids(other, one):
        return None
    whole = dict(one)
    for keyword, value in other.items():
        if keyword not in whole:
            whole[keyword] = value
        elif keyword in ANNOTATIONS or same(whole[keyword], value):
            continue
        elif keyword in {"properties", "patternProperties"}:
            names = _members(whole[keyword], value, definitions, level)
            if names is None:
                return None
            whole[keyword] = names
        elif keyword in {"items", "additionalProperties"}:
            whole[keyword] = merged([whole[keyword], value], definitions, level + 1)
            if whole[keyword] is None:
                return None
        elif keyword in _JOINS:
            whole[keyword] = _JOINS[keyword](whole[keyword], value)
        else:
            return None
    return None if whole.get("type") == [] else whole


def _forbids(one: Part, other: Part) -> bool:
    """Whether a keyword of one means something else once the other's keywords stand beside it."""
    if any(group & one.keys() and group & other.keys() for group in _GROUPS):
        return True
    if "prefixItems" in one and not {"prefixItems", "items"}.isdisjoint(other):
        return True
    if one.get("unevaluatedItems", True) is not True and "items" in other:
        return True
    rests = (one.get("additionalProperties", True), one.get("unevaluatedProperties", True))
    added = other.get("properties", {}).keys() - one.get("properties", {}).keys()
    return bool(added) and any(rest is not True for rest in rests)


def _members(
    one: Mapping[str, Any], other: Mapping[str, Any], definitions: Definitions, level: int
) -> Part | None:
    whole = dict(one)
    for name, schema in other.items():
        if name in whole and not same(whole[name], schema):
            if (both := merged([whole[name], schema], definitions, level + 1)) is None:
                return None
            whole[name] = both
        else:
            whole[name] = schema
    return whole


def _common_types(one: Any, other: Any) -> Any:
    """Return the types that both allow; an empty list if there is none."""
    left, right = (set(each) if isinstance(each, list) else {each} for each in (one, other))
    for mine, theirs in ((left, right), (right, left)):
        if "number" in mine and "integer" in theirs and "number" not in theirs:
            mine.add("integer")
    both = [name for name in _TYPES if name in left & right]
    if "number" in both and "integer" in both:
        both.remove("integer")
    return both[0] if len(both) == 1 else both


def _common_values(one: list[Any], other: list[Any]) -> list[Any]:
    allowed = {canonical(each) for each in other}
    return [each for each in one if canonical(each) in allowed]


def _union(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


_JOINS: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _common_types,
    "enum": _common_values,
    "required": _union,
    "uniqueItems": lambda one, other: one or other,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
