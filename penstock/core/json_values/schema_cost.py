"""What it costs to check a value against a JSON Schema: its size, and how often it applies."""

from collections.abc import Iterator
from typing import Any

from penstock.core.envelope import Json

_SAME = ("allOf", "anyOf", "oneOf")
_ONE = ("not", "if", "then", "else")
_REFS = ("$ref", "$dynamicRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_APART = frozenset({"const", "enum", "default", "examples", "$defs", "definitions"})
_CHOICES = frozenset({"anyOf", "oneOf"})
_MOST_APPLIED = 100_000
_MOST_RULES = 100


def unfolded(schema: Json) -> int:
    """Return how many schemas there are in one, with each reference written out.

    One that leads back to where it stands counts as one.
    """
    places, counted = _Places(schema), dict[int, int]()
    begun: list[tuple[Any, list[Any]]] = [(schema, [*_inside(schema), *places.meant(schema)])]
    counted[id(schema)] = 1
    while begun:
        each, waiting = begun[-1]
        if not waiting:
            begun.pop()
            if begun:
                counted[id(begun[-1][0])] += counted[id(each)]
            continue
        following = waiting.pop()
        if (known := counted.get(id(following))) is not None:
            counted[id(each)] += known
            continue
        counted[id(following)] = 1
        begun.append((following, [*_inside(following), *places.meant(following)]))
    return counted[id(schema)]


def is_costly(schema: Json, value: Any, most: int) -> bool:
    """Whether in choices more schemas apply to a value, and to what is in it.

    To tell why none of a choice fits, each of them is looked at, with all of its own choices.
    """
    places = _Places(schema)
    waiting: list[tuple[Any, Any, bool]] = [(schema, value, False)]
    chosen = applied = 0
    while waiting:
        rule, each, is_chosen = waiting.pop()
        if not isinstance(rule, dict):
            continue
        is_chosen = is_chosen or not _CHOICES.isdisjoint(rule)
        for one, part in _applied(rule, each, places):
            waiting.append((one, part, is_chosen))
            applied += 1
            chosen += is_chosen
            if chosen > most or applied > _MOST_APPLIED:
                return True
    return False


def parts(schema: Json, value: Any) -> Iterator[tuple[str | int, Json, Any]]:
    """Yield what is in a value, each with the schema that it is to fit, where no choice is left.

    Of a choice the one is left whose constants are there. Of two parts the schema may be the same
    object.
    """
    places, waiting = _Places(schema), [schema]
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    whole: dict[int, Json] = {}
    for rule in waiting:
        if len(waiting) > _MOST_RULES:
            return
        waiting += places.meant(rule)
        waiting += [one for one in _listed(rule.get("allOf")) if isinstance(one, dict)]
        for key in _CHOICES & rule.keys():
            fitting = [one for one in _listed(rule[key]) if _may_fit(one, value)]
            waiting += fitting if len(fitting) == 1 else []
        own = rule.get("properties")
        if isinstance(value, dict) and isinstance(own, dict):
            found = ((key, own.get(key), each) for key, each in value.items())
        elif isinstance(value, list):
            found = ((number, rule.get("items"), each) for number, each in enumerate(value))
        else:
            continue
        for at, one, each in found:
            if isinstance(one, dict):
                yield at, whole.setdefault(id(one), one | shared), each


def _may_fit(rule: Any, value: Any) -> bool:
    """Whether a schema has no constant that a value lacks."""
    own = rule.get("properties") if isinstance(rule, dict) else None
    if not isinstance(own, dict) or not isinstance(value, dict):
        return isinstance(rule, dict)
    fixed = {
        key: one["const"] for key, one in own.items() if isinstance(one, dict) and "const" in one
    }
    return all(value.get(key) == const for key, const in fixed.items())


class _Places:
    """Where references of a schema lead."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._named: dict[str, Any] | None = None

    def meant(self, rule: Any) -> list[Any]:
        """Return what the references of a schema lead to."""
        if not isinstance(rule, dict):
            return []
        refs = [ref for key in _REFS if isinstance(ref := rule.get(key), str)]
        return [found for ref in refs if (found := self._target(ref)) is not None]

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#") or ref[1:2] not in {"", "/"}:
            return self._names().get(ref.removeprefix("#"))
        found: Any = self._schema
        for part in ref.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found

    def _names(self) -> dict[str, Any]:
        if self._named is None:
            self._named, waiting = {}, [self._schema]
            while waiting:
                each: Any = waiting.pop()
                if isinstance(each, dict):
                    self._named |= {
                        str(each[key]): each for key in ("$id", *_ANCHORS) if key in each
                    }
                waiting += each.values() if isinstance(each, dict) else ()
                waiting += each if isinstance(each, list) else ()
        return self._named


def _inside(each: Any) -> list[Any]:
    """Return what stands in a schema, or in a part of it, and may be one itself."""
    if isinstance(each, dict):
        inner = [one for key, one in each.items() if key not in _APART]
        return [one for one in inner if isinstance(one, dict | list)]
    return [one for one in each if isinstance(one, dict | list)] if isinstance(each, list) else []


def _applied(rule: Json, value: Any, places: _Places) -> Iterator[tuple[Any, Any]]:
    """Yield the schemas that apply next, each with what it applies to."""
    for found in places.meant(rule):
        yield found, value
    for key in _SAME:
        for one in _listed(rule.get(key)):
            yield one, value
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
    yield from ((one, value) for one in (dependent or {}).values() if isinstance(dependent, dict))
    patterns = rule.get("patternProperties")
    others = [*(patterns.values() if isinstance(patterns, dict) else ())]
    others += [
        rule[key] for key in ("additionalProperties", "unevaluatedProperties") if key in rule
    ]
    for key, each in value.items():
        if key in own:
            yield own[key], each
        yield from ((one, each) for one in others)


def _of_items(rule: Json, value: Any) -> Iterator[tuple[Any, Any]]:
    first = _listed(rule.get("prefixItems"))
    yield from zip(first, value, strict=False)
    every = [rule[key] for key in ("items", "contains", "unevaluatedItems") if key in rule]
    for each in value:
        yield from ((one, each) for one in every)


def _listed(rules: Any) -> list[Any]:
    return rules if isinstance(rules, list) else []
