"""A schema in the form that a provider enforces: its dialect, its size, and values written by it.

Sources of the dialects: the guides of both providers on structured output, and their SDKs. As the
providers count, a schema and each of its definitions is measured on its own.

Where a provider requires every property, null means that an optional one is absent. Whether a
null means that is known from the fitted schema alone: the branch `ABSENT` marks such a property.
Proof: tests/models/structured/test_fitted.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from penstock.core.json_values.schema import Schema, json_type
from penstock.models.model import ModelCard
from penstock.models.structured.definitions import Part, name_of, subschemas

SCHEMA_REFUSED = "schema_refused"
"""In the details of a ModelRefused: the provider does not enforce the schema of the output."""
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ITEMS = frozenset({"minItems", "maxItems"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class Dialect(Struct, frozen=True, kw_only=True):
    """The keywords that a provider enforces, and its bounds; None means no bound."""

    name: str
    kept: frozenset[str]
    """Keywords that it enforces, in addition to those of structure. Others become description."""
    formats: frozenset[str]
    """Values of `format` that it enforces."""
    requires_all: bool
    """Every property is required, so an optional one accepts null."""
    allows_recursion: bool
    max_min_items: int | None = None
    """The largest `minItems` that it enforces."""
    max_levels: int | None = None
    """Objects inside each other, in the schema and in each of its definitions."""
    max_properties: int | None = None
    max_enum_values: int | None = None
    max_optional: int | None = None
    """Optional properties outside of definitions."""
    max_unions: int | None = None
    """Properties with several types, outside of definitions."""


_AT_OPENAI = ("openai", "openai-responses")
_OPENAI_SIZES = {"max_levels": 10, "max_properties": 5000, "max_enum_values": 1000}
OPENAI = Dialect(
    name="openai",
    kept=_BOUNDS | _ITEMS | _LENGTHS | {"pattern"},
    formats=_FORMATS,
    requires_all=True,
    allows_recursion=True,
    **_OPENAI_SIZES,
)
"""Strict mode at api.openai.com."""
COMPATIBLE = Dialect(
    name="openai-compatible",
    kept=_BOUNDS | _ITEMS | {"pattern"},
    formats=_FORMATS,
    requires_all=True,
    allows_recursion=True,
    **_OPENAI_SIZES,
)
"""Strict mode of other servers: some refuse the length of a text."""
ANTHROPIC = Dialect(
    name="anthropic",
    kept=frozenset({"minItems"}),
    formats=_FORMATS | {"uri"},
    requires_all=False,
    allows_recursion=False,
    max_min_items=1,
    max_optional=24,
    max_unions=16,
)
"""`output_config.format` of Anthropic's messages."""

_AT_GOOGLE = ("google", "google-cloud")
GOOGLE = Dialect(
    name="google",
    kept=_ITEMS | {"minimum", "maximum"},
    formats=frozenset({"date-time", "date", "time"}),
    requires_all=False,
    allows_recursion=False,
)
"""`responseJsonSchema` of the Gemini API. Pydantic AI writes what is left in Google's words."""


def dialect_of(card: ModelCard) -> Dialect | None:
    """Return what the wire of a model enforces; None if its provider cannot hold to a schema."""
    if not card.json_schema:
        return None
    if card.api == "anthropic":
        return ANTHROPIC
    if card.provider in _AT_GOOGLE:
        return GOOGLE
    return OPENAI if card.provider in _AT_OPENAI else COMPATIBLE


ABSENT: Mapping[str, Any] = {"type": "null"}
"""The branch for a property that is absent. Compared by identity: other nulls are values."""


class ToolMode(Struct, frozen=True):
    """The output has to be requested as the input of a tool."""

    reason: str


class Fitted:
    """A schema in the form that a provider enforces."""

    def __init__(self, schema: dict[str, Any], *, is_wrapped: bool) -> None:
        self.schema = schema
        """Of type object."""
        self.is_wrapped = is_wrapped
        """The original accepts more than objects, so the value is the member `value`."""
        self._compiled: dict[int, Schema] = {}

    def restored(self, value: Any) -> Any:
        """Return the value without added nulls and wrapper. A value that does not fit stays."""
        whole = self._part(self.schema, value)
        if self.is_wrapped and isinstance(whole, dict) and "value" in whole:
            return whole["value"]
        return whole

    def _part(self, schema: Mapping[str, Any], value: Any) -> Any:
        if "$ref" in schema:
            return self._part(self.schema["$defs"][name_of(schema["$ref"])], value)
        if "anyOf" in schema:
            branch = next(self._fitting(schema["anyOf"], value), None)
            return value if branch is None else self._part(branch, value)
        if isinstance(value, dict) and "properties" in schema:
            known = schema["properties"]
            return {
                name: self._part(known[name], each) if name in known else each
                for name, each in value.items()
                if not (each is None and name in known and _may_be_absent(known[name]))
            }
        if isinstance(value, list) and "items" in schema:
            return [self._part(schema["items"], each) for each in value]
        return value

    def _fitting(self, branches: list[Mapping[str, Any]], value: Any) -> Iterator[Any]:
        """Yield the branches that accept the value; without a look at it if only one can."""
        kind = json_type(value)
        able = [branch for branch in branches if branch.get("type", kind) == kind]
        if len(able) == 1:
            yield able[0]
            return
        for branch in able:
            if (compiled := self._compiled.get(id(branch))) is None:
                definitions = {"$defs": self.schema.get("$defs", {})}
                compiled = self._compiled[id(branch)] = Schema({**branch, **definitions})
            if not compiled.problems(value):
                yield branch


def _may_be_absent(schema: Mapping[str, Any]) -> bool:
    return any(branch is ABSENT for branch in schema.get("anyOf", ()))


def excess(schema: Part, dialect: Dialect) -> str:
    """Return which bound of the dialect a fitted schema exceeds; an empty text if none."""
    definitions = schema.get("$defs", {})
    if not dialect.allows_recursion and is_recursive(definitions):
        return "the type contains itself"
    groups = [list(_objects(part, 1)) for part in (schema, *definitions.values())]
    root = [part for part, _ in groups[0]]
    enums = _every(schema, "enum") + sum(_every(part, "enum") for part in definitions.values())
    measured = (
        (
            "levels of objects",
            dialect.max_levels,
            max((n for g in groups for _, n in g), default=0),
        ),
        (
            "properties",
            dialect.max_properties,
            sum(len(p["properties"]) for g in groups for p, _ in g),
        ),
        ("values in enumerations", dialect.max_enum_values, enums),
        ("optional properties", dialect.max_optional, sum(map(_optional, root))),
        ("properties of several types", dialect.max_unions, sum(map(_unions, root))),
    )
    for what, most, count in measured:
        if most is not None and count > most:
            return f"the type has {count} {what}, the provider takes {most}"
    return ""


def is_recursive(definitions: Mapping[str, Any]) -> bool:
    """Whether one of the definitions leads back to itself."""
    waiting = {name: {*_references(part)} for name, part in definitions.items()}
    while free := [name for name, needed in waiting.items() if not needed & waiting.keys()]:
        for name in free:
            del waiting[name]
    return bool(waiting)


def _objects(schema: Any, level: int) -> Iterator[tuple[Part, int]]:
    """Yield the objects of a schema with their level, without following references."""
    if isinstance(schema, dict):
        is_object = "properties" in schema
        if is_object:
            yield schema, level
        for inner in subschemas(schema):
            yield from _objects(inner, level + is_object)


def _every(schema: Any, keyword: str) -> int:
    own = len(schema.get(keyword, ())) if isinstance(schema, dict) else 0
    return own + sum(_every(inner, keyword) for inner in subschemas(schema))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict) and "$ref" in schema:
        yield name_of(schema["$ref"])
    for inner in subschemas(schema):
        yield from _references(inner)


def _optional(schema: Part) -> int:
    return len(schema["properties"].keys() - set(schema.get("required", ())))


def _unions(schema: Part) -> int:
    return sum("anyOf" in inner for inner in schema["properties"].values())
