"""Schemas without references: each is replaced by its definition, because models read that best.

Only recursive definitions stay in `$defs`. Titles are left out: pydantic makes them from names.
"""

from typing import Any

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LOCAL = "#/$defs/"


def inlined(schema: dict[str, Any], *, formats: bool) -> dict[str, Any]:
    """Return the schema without titles and references. Recursive definitions stay in `$defs`.

    Without `formats`, they are left out: an output is checked by its shape alone.
    """
    return _Inliner(schema.get("$defs", {}), formats=formats).inline(schema)


class _Inliner:
    """Replaces references by their definitions."""

    def __init__(self, definitions: dict[str, Any], *, formats: bool) -> None:
        self._definitions = definitions
        self._left_out = {"$defs", "title", "discriminator", *([] if formats else ["format"])}
        self._kept: dict[str, Any] = {}

    def inline(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the whole schema."""
        whole: dict[str, Any] = self._schema(schema, ())
        return whole | ({"$defs": self._kept} if self._kept else {})

    def _schema(self, schema: Any, inside: tuple[str, ...]) -> Any:
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref", "")
        if not reference.startswith(_LOCAL):
            return self._keywords(schema, inside)
        name = reference.removeprefix(_LOCAL)
        if name in inside:  # recursive: replaced by its definition, it would never end
            self._keep(name)
            return schema
        # Keywords next to a `$ref`, such as a description, win over those of the definition.
        beside = {key: each for key, each in schema.items() if key != "$ref"}
        return self._schema(self._definitions[name], (*inside, name)) | self._keywords(
            beside, inside
        )

    def _keywords(self, schema: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key in self._left_out:
                continue
            if key in _MAPS:
                made[key] = {name: self._schema(one, inside) for name, one in value.items()}
            elif key in _LISTS:
                made[key] = [self._schema(one, inside) for one in value]
            else:
                made[key] = self._schema(value, inside) if key in _SINGLE else value
        return made

    def _keep(self, name: str) -> None:
        if name not in self._kept:
            self._kept[name] = {}  # present before it is built: it may refer to itself
            self._kept[name] = self._schema(self._definitions[name], (name,))
