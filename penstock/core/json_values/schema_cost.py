"""Estimates the cost of checking a value against a JSON Schema, before the check runs.

Guarantees: the estimate itself is bounded, so a small hostile schema cannot occupy the process.
`unfolded` counts the schemas after every reference is replaced by its target. `is_costly` counts
those that apply inside choices. `parts` splits a value so that its parts can be checked separately.

How it works. References can reach one schema many times, so a few lines can expand to millions of
schemas. `unfolded` visits each schema once, with an explicit stack instead of recursion, and adds
the counts of its parts. `is_costly` walks the value together with the schema
and stops at a limit.

Relies on: `schema.py` refuses a schema whose `unfolded` count is too large, and calls `is_costly`
before it explains a mismatch. Proof: tests/core/json_values/test_schema_cost.py.
"""

from collections.abc import Iterator
from typing import Any

from penstock.core.envelope import Json

_SAME = ("allOf", "anyOf", "oneOf")
_ONE = ("not", "if", "then", "else")
_REFS = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_NO_SCHEMAS = frozenset({"const", "enum", "default", "examples", "$defs", "definitions"})
"""Members without schemas that apply here: values, and definitions, which only references reach."""
_CHOICES = frozenset({"anyOf", "oneOf"})
_MAX_APPLIED = 100_000
_MAX_RULES = 100


def unfolded(schema: Json) -> int:
    """Return the number of schemas after each reference is replaced by its target.

    A reference to an enclosing schema counts as one.
    """
    references, counts = _References(schema), dict[int, int]()
    open_parts: list[tuple[Any, list[Any]]] = [
        (schema, [*_inside(schema), *references.targets(schema)])
    ]
    counts[id(schema)] = 1
    while open_parts:
        part, remaining = open_parts[-1]
        if not remaining:
            open_parts.pop()
            if open_parts:
                counts[id(open_parts[-1][0])] += counts[id(part)]
            continue
        following = remaining.pop()
        # a part that is still open has the count 1 here: this is what ends a cycle
        if (known := counts.get(id(following))) is not None:
            counts[id(part)] += known
            continue
        counts[id(following)] = 1
        open_parts.append((following, [*_inside(following), *references.targets(following)]))
    return counts[id(schema)]


def is_costly(schema: Json, value: Any, limit: int) -> bool:
    """Whether more than `limit` schemas inside choices apply to a value and its parts.

    To explain why no option of a choice matches, a validator examines each of them with all of its
    own choices.
    """
    references = _References(schema)
    remaining: list[tuple[Any, Any, bool]] = [(schema, value, False)]
    in_choices = applied = 0
    while remaining:
        rule, current, is_in_choice = remaining.pop()
        if not isinstance(rule, dict):
            continue
        is_in_choice = is_in_choice or not _CHOICES.isdisjoint(rule)
        for inner, part in _applied(rule, current, references):
            remaining.append((inner, part, is_in_choice))
            applied += 1
            in_choices += is_in_choice
            if in_choices > limit or applied > _MAX_APPLIED:
                return True
    return False


def parts(schema: Json, value: Any) -> Iterator[tuple[str | int, Json, Any]]:
    """Yield the members or items of a value, each with its key and the schema that it must match.

    In a choice, only an option whose constants equal those of the value is used. Two parts may
    share one schema object.
    """
    references, rules = _References(schema), [schema]
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    complete: dict[int, Json] = {}
    for rule in rules:
        if len(rules) > _MAX_RULES:
            return
        rules += references.targets(rule)
        rules += [inner for inner in _listed(rule.get("allOf")) if isinstance(inner, dict)]
        for key in _CHOICES & rule.keys():
            options = [option for option in _listed(rule[key]) if _may_match(option, value)]
            rules += options if len(options) == 1 else []
        own = rule.get("properties")
        if isinstance(value, dict) and isinstance(own, dict):
            members = ((key, own.get(key), member) for key, member in value.items())
        elif isinstance(value, list):
            members = ((number, rule.get("items"), item) for number, item in enumerate(value))
        else:
            continue
        for key, inner, part in members:
            if isinstance(inner, dict):
                # with the definitions of the whole schema, which its references may name
                yield key, complete.setdefault(id(inner), inner | shared), part


def _may_match(rule: Any, value: Any) -> bool:
    """Whether the constants of a schema equal those of the value."""
    own = rule.get("properties") if isinstance(rule, dict) else None
    if not isinstance(own, dict) or not isinstance(value, dict):
        return isinstance(rule, dict)
    fixed = {
        key: inner["const"]
        for key, inner in own.items()
        if isinstance(inner, dict) and "const" in inner
    }
    return all(value.get(key) == const for key, const in fixed.items())


class _References:
    """Resolves the references inside one schema."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._named: dict[str, Any] | None = None

    def targets(self, rule: Any) -> list[Any]:
        """Return the schemas that the references of a schema name."""
        if not isinstance(rule, dict):
            return []
        refs = [ref for key in _REFS if isinstance(ref := rule.get(key), str)]
        return [target for ref in refs if (target := self._target(ref)) is not None]

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#") or ref[1:2] not in {"", "/"}:
            return self._names().get(ref.removeprefix("#"))
        target: Any = self._schema
        for segment in ref.split("/")[1:]:
            name = segment.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                target = target.get(name) if isinstance(target, dict) else None
        return target

    def _names(self) -> dict[str, Any]:
        if self._named is None:
            self._named, remaining = {}, [self._schema]
            while remaining:
                part: Any = remaining.pop()
                if isinstance(part, dict):
                    self._named |= {
                        str(part[key]): part for key in ("$id", *_ANCHORS) if key in part
                    }
                remaining += part.values() if isinstance(part, dict) else ()
                remaining += part if isinstance(part, list) else ()
        return self._named


def _inside(part: Any) -> list[Any]:
    """Return the objects and arrays in a part of a schema, which may be schemas."""
    if isinstance(part, dict):
        inner = [value for key, value in part.items() if key not in _NO_SCHEMAS]
        return [value for value in inner if isinstance(value, dict | list)]
    return (
        [each for each in part if isinstance(each, dict | list)] if isinstance(part, list) else []
    )


def _applied(rule: Json, value: Any, references: _References) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas that apply next, each with the part of the value."""
    for target in references.targets(rule):
        yield target, value
    for key in _SAME:
        for inner in _listed(rule.get(key)):
            yield inner, value
    for key in _ONE:
        if key in rule:
            yield rule[key], value
    if isinstance(value, dict):
        yield from _of_members(rule, value)
    elif isinstance(value, list | tuple):
        yield from _of_items(rule, value)


def _of_members(rule: Json, value: Json) -> Iterator[tuple[Any, Any]]:
    named = rule.get("properties")
    own = named if isinstance(named, dict) else {}
    dependent = rule.get("dependentSchemas")
    if isinstance(dependent, dict):
        yield from ((inner, value) for inner in dependent.values())
    patterns = rule.get("patternProperties")
    others = [*(patterns.values() if isinstance(patterns, dict) else ())]
    others += [
        rule[key] for key in ("additionalProperties", "unevaluatedProperties") if key in rule
    ]
    for key, member in value.items():
        if key in own:
            yield own[key], member
        # patterns are not matched against the key: the estimate may be too high, never too low
        yield from ((inner, member) for inner in others)


def _of_items(rule: Json, value: Any) -> Iterator[tuple[Any, Any]]:
    first = _listed(rule.get("prefixItems"))
    yield from zip(first, value, strict=False)
    every = [rule[key] for key in ("items", "contains", "unevaluatedItems") if key in rule]
    for item in value:
        yield from ((inner, item) for inner in every)


def _listed(rules: Any) -> list[Any]:
    return rules if isinstance(rules, list) else []
