"""A value against a JSON Schema (draft 2020-12): every problem with its path, no remote `$ref`."""

import json
import math
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import chain, islice
from typing import Any

import jsonschema_rs
from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.json_values.schema_cost import is_costly, parts, unfolded
from penstock.core.text import cut

SAFE_INTEGER = 2**53 - 1
MOST_PROBLEMS = 50
MOST_SCHEMAS = 100_000
"""Schemas in one, with each reference written out: to check a value takes time for each."""
MOST_CHOICES = 10_000
"""Schemas of choices that are looked at to tell why none fits."""
MOST_PARTS = 100_000
"""Of a value, that are looked at for the first with a problem."""
MOST_LEVELS = 8
"""So much deeper in a value what is wrong is looked for, where its choices are more."""
MESSAGE_CHARACTERS = 500
MOST_EXPLAINED = 2000
"""Values inside of a value whose problems are all told: they are found before the first is told,
and those of a large value would hold up the process for long."""


class Problem(Struct, frozen=True):
    """One thing wrong with a value; `path` is a JSON Pointer."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path or '/'}: {self.message}"


class Schema:
    """A compiled JSON Schema.

    Raises ValueError when it is none, when it refers to anything outside itself, and when what it
    refers to makes it too large. Patterns of one that is not trusted look neither ahead nor back:
    no text takes them long.
    """

    def __init__(self, schema: Json, *, is_trusted: bool = True) -> None:
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema),
                retriever=_refuse,
                validate_formats=True,
                pattern_options=_PATTERNS if is_trusted else _PLAIN_PATTERNS,
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_broken(error)) from None
        if unfolded(schema) > MOST_SCHEMAS:
            raise ValueError(_TOO_LARGE)
        self._schema, self._is_trusted = schema, is_trusted
        self._is_valid = self._validator.is_valid

    def problems(self, value: Any, levels: int = MOST_LEVELS) -> list[Problem]:
        """Return what is wrong with the value, at most 50 findings; nothing if it fits.

        Of a value with more than MOST_EXPLAINED inside what is wrong first is told alone. Where its
        choices are too many to tell it whole, that is looked for so many levels deeper.
        """
        try:
            if self._is_valid(value):
                return []
            if is_costly(self._schema, value, MOST_CHOICES):
                return self._inside(value, levels)
            found = chain.from_iterable(map(_problems, self._errors(value)))
            return list(islice(found, MOST_PROBLEMS))
        except ValueError as error:
            return [Problem("", cut(f"is not JSON: {error}", MESSAGE_CHARACTERS))]

    def _inside(self, value: Any, levels: int) -> list[Problem]:
        """Return what is wrong with a part of the value, so many levels deeper at most."""
        made: dict[int, Schema] = {}
        found = parts(self._schema, value) if levels else ()
        for at, schema, each in islice(found, MOST_PARTS):
            if id(schema) not in made:
                made[id(schema)] = Schema(schema, is_trusted=self._is_trusted)
            if inner := made[id(schema)].problems(each, levels - 1):
                here = pointer([at])
                return [Problem(here + problem.path, problem.message) for problem in inner]
        return [Problem("", "does not fit the schema, whose choices are too many to say why")]

    def _errors(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        if not _has_more_inside(value, MOST_EXPLAINED):
            yield from islice(self._validator.iter_errors(value), MOST_PROBLEMS)
            return
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield error


class SchemaFault(Struct, frozen=True):
    """One thing wrong with a schema, and the path to it."""

    path: tuple[str | int, ...]
    message: str


class RemoteRef(Struct, frozen=True):
    """A reference to another document; the path leads to its text."""

    path: tuple[str | int, ...]
    ref: str


_OUTSIDE = "is outside the schema"
_TOO_LARGE = f"/: has more than {MOST_SCHEMAS} schemas, with each $ref written out"
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
"""Patterns that look ahead or back give up after so many steps."""
_PLAIN_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 17, dfa_size_limit=1 << 17)


def check_schema(schema: Json) -> list[SchemaFault]:
    """Return where this is no JSON Schema, or refers to what is not in it."""
    try:
        faults = [
            SchemaFault(tuple(error.instance_path), _meaning(error))
            for error in islice(_meta().iter_errors(schema), MOST_PROBLEMS)
        ]
    except ValueError as error:
        return [SchemaFault((), cut(str(error), MESSAGE_CHARACTERS))]
    return faults or _vain_refs(schema)


def remote_refs(schema: Json) -> list[RemoteRef]:
    """Return the references that lead out of the schema."""
    inside = {each for each in _ids(schema) if isinstance(each, str)}
    return [
        RemoteRef(path, ref)
        for path, ref in _refs(schema)
        if not ref.startswith("#") and ref.partition("#")[0] not in inside
    ]


def json_type(value: Any) -> str:
    """Return what JSON calls a value: `array`, `string` and so on."""
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "null")


def pointer(path: list[str | int]) -> str:
    """Return the path as a JSON Pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def json_problems(value: Any, depth: int) -> Iterator[Problem]:
    """Yield where a value is nested too deeply, or has a number that other languages change."""
    if type(value) is dict and _is_plain(value):
        return
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while waiting:
        each, path = waiting.pop()
        if type(each) is dict or type(each) is list:
            if len(path) >= depth:
                start = pointer(list(path[:3]))
                yield Problem(f"{start}/…", f"is nested more than {depth} levels deep")
                return
            inner = each.items() if type(each) is dict else enumerate(each)
            waiting += [(one, (*path, key)) for key, one in inner if type(one) not in _HARMLESS]
        elif type(each) is int and not -SAFE_INTEGER <= each <= SAFE_INTEGER:
            yield Problem(pointer(list(path)), "is beyond ±(2^53-1); send it as a string")
        elif type(each) is float and not math.isfinite(each):
            yield Problem(pointer(list(path)), "is not a finite number; send null or a string")


def is_deeper(value: Any, depth: int) -> bool:
    """Whether a value has more levels of nesting than that, however many there are."""
    level = [value] if isinstance(value, _NESTING) else []
    for _ in range(depth):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for each in inner for one in each if isinstance(one, _NESTING)]
        if not level:
            return False
    return bool(level)


def _has_more_inside(value: Any, most: int) -> bool:
    """Whether there are more values in a value than that, at any depth."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        each = waiting.pop()
        if isinstance(each, dict | list | tuple):
            count += len(each)
            waiting += each.values() if isinstance(each, dict) else each
    return count > most


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether nothing in an object can be wrong: what most inputs look like."""
    for each in value.values():
        kind = type(each)
        if kind not in _HARMLESS and not (kind is int and -SAFE_INTEGER <= each <= SAFE_INTEGER):
            return False
    return True


_JSON_TYPES = (
    (str, "string"),
    (bool, "boolean"),
    (int | float, "number"),
    (list | tuple, "array"),
    (dict, "object"),
)
_ANY_OF = (
    jsonschema_rs.ValidationErrorKind.AnyOf,
    jsonschema_rs.ValidationErrorKind.OneOfNotValid,
)
_HARMLESS = frozenset({str, bool, type(None)})
_NESTING = (dict, list, tuple)


def _problems(error: jsonschema_rs.ValidationError) -> list[Problem]:
    """Return what is wrong; of several schemas one of which should fit, with the one that is meant.

    That is the one whose constants are there; else what is wrong with all of them is told.
    """
    kind = error.kind
    if not isinstance(kind, _ANY_OF):
        return [_problem(error)]
    meant = [each for each in kind.context if not _is_other(each, error)]
    if len(meant) == 1:
        return [found for each in meant[0] for found in _problems(each)]
    wanted = _constants(kind.context)
    if wanted:
        at, values = wanted
        return [Problem(at, cut(f"must be one of: {', '.join(values)}", MESSAGE_CHARACTERS))]
    first, *others = (
        [one for each in branch for one in _problems(each)] for branch in kind.context
    )
    return [each for each in first if all(each in other for other in others)] or [_problem(error)]


def _is_other(
    branch: list[jsonschema_rs.ValidationError], error: jsonschema_rs.ValidationError
) -> bool:
    """Whether a schema is about something else than this value."""
    kinds, here = jsonschema_rs.ValidationErrorKind, error.instance_path
    return any(
        isinstance(each.kind, kinds.Constant)
        or (isinstance(each.kind, kinds.Type) and each.instance_path == here)
        for each in branch
    )


def _constants(
    branches: list[list[jsonschema_rs.ValidationError]],
) -> tuple[str, list[str]] | None:
    """Return where each of the schemas wants another constant, and which; None if they do not."""
    kinds = jsonschema_rs.ValidationErrorKind
    found = [
        {pointer(each.instance_path): each.kind.expected_value for each in branch
         if isinstance(each.kind, kinds.Constant)}
        for branch in branches
    ]  # fmt: skip
    common = set(found[0]).intersection(*found[1:])
    at = min(common, default=None)
    if at is None:
        return None
    return at, [json.dumps(each[at], ensure_ascii=False) for each in found]


def _problem(error: jsonschema_rs.ValidationError) -> Problem:
    """Return what is wrong; what is missing is told where it would stand."""
    path, kind = error.instance_path, error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return Problem(pointer([*path, kind.property]), "is required")
    return Problem(pointer(path), cut(error.message, MESSAGE_CHARACTERS))


def _broken(error: jsonschema_rs.ValidationError) -> str:
    """Return where a schema is wrong, or what it refers to in vain."""
    message = cut(error.message, MESSAGE_CHARACTERS)
    if "retrieving it failed" in message:
        return f"{message.partition(' is not present')[0]} {_OUTSIDE}; put it under $defs"
    return f"{pointer(error.instance_path) or '/'}: {message}"


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri!r}; put the definition under $defs instead")


@cache
def _meta() -> jsonschema_rs.Draft202012Validator:
    """Return the schema of schemas; it takes 3 MiB, and only who reads manifests needs it."""
    return jsonschema_rs.Draft202012Validator(
        {"$ref": "https://json-schema.org/draft/2020-12/schema"}, validate_formats=True
    )


_TYPES = "array, boolean, integer, null, number, object, string"
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_PLAIN = frozenset({"const", "enum", "default", "examples"})


def _meaning(error: jsonschema_rs.ValidationError) -> str:
    """Return what is wrong; of a type, which there are."""
    if error.instance_path[-1:] == ["type"]:
        return f"{cut(json.dumps(error.instance), MESSAGE_CHARACTERS)} is not one of {_TYPES}"
    return cut(error.message, MESSAGE_CHARACTERS)


def _vain_refs(schema: Json) -> list[SchemaFault]:
    """Return what refers to nothing; each is taken out, to find the next."""
    faults: list[SchemaFault] = []
    while len(faults) < MOST_PROBLEMS:
        try:
            Schema(schema)
        except ValueError as error:
            said = cut(str(error).removeprefix("/: "), MESSAGE_CHARACTERS)
        else:
            break
        refs = [(path, name) for path, ref in _refs(schema) if (name := _target(ref))]
        named = [path for path, ref in refs if f"'{ref}'" in said]
        found = named or [path for path, ref in refs if ref in said][:1]
        if not found and _OUTSIDE in said:  # a relative address, told as the whole one
            found = [each.path for each in remote_refs(schema)][:1]
        faults += [SchemaFault(path, said) for path in found or [()]]
        if not found:
            break
        schema = deepcopy(schema)
        for path in found:
            _take_out(schema, path)
    return faults


def _target(ref: str) -> str:
    """Return what messages call the target of a reference: of another document, its address."""
    return ref[1:] if ref.startswith("#") else ref.partition("#")[0]


def _take_out(schema: Any, path: tuple[str | int, ...]) -> None:
    for part in path[:-1]:
        schema = schema[part]
    del schema[path[-1]]


def _refs(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every reference with the path to it; what only looks like one is left out."""
    for path, each in _subschemas(schema):
        for key in ("$ref", "$dynamicRef"):
            if isinstance(ref := each.get(key), str):
                yield (*path, key), ref


def _ids(schema: Any) -> Iterator[Any]:
    return (each["$id"] for _, each in _subschemas(schema) if "$id" in each)


def _subschemas(schema: Any) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yield the schema and all in it, in the order in which they stand."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), schema)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, dict):
            yield path, each
            inner = [((*path, key), one) for key, one in each.items() if key not in _PLAIN]
            named = [(place, one) for place, one in inner if place[-1] in _NAMED]
            waiting += reversed([pair for pair in inner if pair[0][-1] not in _NAMED])
            waiting += reversed([pair for place, one in named for pair in _members(place, one)])
        elif isinstance(each, list):
            waiting += reversed([((*path, number), one) for number, one in enumerate(each)])


def _members(path: tuple[str | int, ...], each: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the schemas that stand under names of the author's own."""
    if isinstance(each, dict):
        for key, one in each.items():
            yield (*path, key), one
