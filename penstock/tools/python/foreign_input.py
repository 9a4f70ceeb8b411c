"""Inputs of a JSON Schema that comes from elsewhere: `@tool(input_schema={…})`.

The schema reaches models as it is, and inputs are checked by it alone. The function gets JSON: the
whole input as one dict, or its properties as keyword arguments. Its hints make no schema, and no
value is converted. All differences between the schema and the parameters are reported when the tool
is loaded, so that no input that fits the schema fails at the call. Only names that the schema
allows without listing them cannot be known before: a call with one is refused.
Proof: tests/tools/python/test_foreign_input.py.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_origin

from msgspec import Struct

from penstock.core.call_errors import InvalidInput
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem, pointer
from penstock.tools.failures import invalid
from penstock.tools.outputs import own_copy

_EMPTY = inspect.Parameter.empty
_REST = inspect.Parameter.VAR_KEYWORD
_BY_PLACE: Mapping[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only; remove the /",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; the input has names",
}
_WHOLE = (Mapping, dict, Any, _EMPTY)
"""Hints of a parameter that gets the whole input."""


class ForeignInput(Struct, frozen=True, kw_only=True):
    """How a function gets an input of a foreign schema."""

    schema: Json
    whole: str = ""
    """The parameter that gets the whole input; empty if each property is an argument."""
    names: frozenset[str] | None = None
    """The properties that are arguments; None means any."""

    def values(self, tool_id: str, input: Json) -> dict[str, Any]:
        """Return the arguments, as a copy. Raises InvalidInput for names that are no parameters."""
        given = own_copy(input)
        if self.whole:
            return {self.whole: given}
        if self.names is not None and (unknown := sorted(given.keys() - self.names)):
            raise self._unknown(tool_id, unknown)
        return dict(given)

    def _unknown(self, tool_id: str, names: Sequence[str]) -> InvalidInput:
        problems = [Problem(pointer([name]), "is not a parameter of the tool") for name in names]
        return invalid(tool_id, problems)


def read_foreign(
    schema: Json, taken: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> ForeignInput:
    """Return how these parameters get an input of a schema that fits them; see `mismatches`."""
    copied = own_copy(dict(schema))
    if name := _whole_of(schema, taken, hints):
        return ForeignInput(schema=copied, whole=name)
    if any(each.kind is _REST for each in taken):
        return ForeignInput(schema=copied)
    return ForeignInput(schema=copied, names=frozenset(each.name for each in taken))


def mismatches(
    schema: Json, taken: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield why inputs of the schema do not fit the parameters: a message, and the parameter."""
    for each in taken:
        if problem := _BY_PLACE.get(each.kind):
            yield f"the parameter {each.name!r} {problem}", each.name
    if _whole_of(schema, taken, hints):
        return
    properties, required = schema.get("properties", {}), schema.get("required", ())
    known = {each.name for each in taken}
    for each in taken:
        if each.kind in {_REST, *_BY_PLACE} or each.default is not _EMPTY or each.name in required:
            continue
        if each.name in properties:
            hint = "give it a default: input_schema does not require it"
        else:
            hint = "input_schema has no such property; one dict, as in (input: dict), takes all"
        yield f"the parameter {each.name!r}: {hint}", each.name
    if any(each.kind is _REST for each in taken):
        return
    for name in sorted({*properties, *required} - known):
        yield f"input_schema has {name!r}, which no parameter takes; add it, or **rest", ""


def _whole_of(schema: Json, taken: Sequence[inspect.Parameter], hints: Mapping[str, Any]) -> str:
    """Return the parameter that gets the whole input: the only one, unless it is a property."""
    if len(taken) != 1 or taken[0].kind in {_REST, *_BY_PLACE}:
        return ""
    (only,) = taken
    hint = hints.get(only.name, _EMPTY)
    is_whole = hint in _WHOLE or get_origin(hint) in _WHOLE
    return only.name if is_whole and only.name not in schema.get("properties", {}) else ""
