"""Validates values against JSON Schema (draft 2020-12).

Guarantees: a schema never fetches anything; every problem has its path; a value that fits costs one
call into the Rust validator; the time to explain a value that does not fit is bounded, also for
hostile schemas and values.

How it works. `jsonschema_rs` validates. Explaining is the expensive part, so its bounds are here:
at most `MAX_PROBLEMS` problems; only the first problem of a value with more than `MAX_EXPLAINED`
parts; if the choices (`anyOf`, `oneOf`) of a schema are too many, the parts of the value are
validated one by one instead. `schema_cost.py` estimates that cost beforehand.

Proof: tests/core/json_values/test_schema.py and test_schema_cost.py.
"""

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
MAX_PROBLEMS = 50
MAX_SCHEMAS = 100_000
"""Limit for the subschemas of a schema, with every reference expanded: validation visits each."""
MAX_CHOICES = 10_000
"""Limit for the subschemas of choices that are visited to explain why none of them fits."""
MAX_PARTS = 100_000
"""Limit for the parts of a value that are searched for the first problem."""
MAX_LEVELS = 8
"""How many levels deeper that search goes if the choices are above `MAX_CHOICES`."""
MESSAGE_CHARACTERS = 500
MAX_EXPLAINED = 2000
"""Limit for the parts of a value whose problems are all reported. The validator finds all problems
before it returns the first one, which would block the process for a long time if there are many."""


class Problem(Struct, frozen=True):
    """A problem of a value; `path` is a JSON Pointer."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path or '/'}: {self.message}"


class Schema:
    """A compiled JSON Schema.

    Raises ValueError if it is not a schema, refers to anything outside itself, or is too large with
    its references expanded. An untrusted schema gets a regular expression engine without lookaround
    and backreferences, which needs linear time for any text.
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
        if unfolded(schema) > MAX_SCHEMAS:
            raise ValueError(_TOO_LARGE)
        self._schema, self._is_trusted = schema, is_trusted
        self._is_valid = self._validator.is_valid

    def problems(self, value: Any, levels: int = MAX_LEVELS) -> list[Problem]:
        """Return the problems of the value, at most `MAX_PROBLEMS`; nothing if it fits.

        For a value with more than `MAX_EXPLAINED` parts, returns the first problem only. If the
        schema has too many choices, searches the parts of the value, `levels` deep.
        """
        try:
            if self._is_valid(value):
                return []
            if is_costly(self._schema, value, MAX_CHOICES):
                return self._inside(value, levels)
            problems = chain.from_iterable(map(_problems, self._errors(value)))
            return list(islice(problems, MAX_PROBLEMS))
        except ValueError as error:
            return [Problem("", cut(f"is not JSON: {error}", MESSAGE_CHARACTERS))]

    def _inside(self, value: Any, levels: int) -> list[Problem]:
        """Return the problems of the first part of the value that does not fit its subschema."""
        compiled: dict[int, Schema] = {}
        candidates = parts(self._schema, value) if levels else ()
        for key, schema, part in islice(candidates, MAX_PARTS):
            if id(schema) not in compiled:
                compiled[id(schema)] = Schema(schema, is_trusted=self._is_trusted)
            if inner := compiled[id(schema)].problems(part, levels - 1):
                prefix = pointer([key])
                return [Problem(prefix + problem.path, problem.message) for problem in inner]
        return [Problem("", "does not fit the schema, whose choices are too many to say why")]

    def _errors(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        if not _has_more_inside(value, MAX_EXPLAINED):
            yield from islice(self._validator.iter_errors(value), MAX_PROBLEMS)
            return
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield error


class SchemaFault(Struct, frozen=True):
    """A problem of a schema, and the path to it."""

    path: tuple[str | int, ...]
    message: str


class RemoteRef(Struct, frozen=True):
    """A reference to another document, and the path to it."""

    path: tuple[str | int, ...]
    ref: str


_OUTSIDE = "is outside the schema"
_TOO_LARGE = f"/: has more than {MAX_SCHEMAS} schemas, with each $ref written out"
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000)
"""Patterns with lookaround stop after so many backtracking steps."""
_PLAIN_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1 << 17, dfa_size_limit=1 << 17)


def check_schema(schema: Json) -> list[SchemaFault]:
    """Return the errors of a schema, including references to definitions that it does not have."""
    try:
        faults = [
            SchemaFault(tuple(error.instance_path), _meaning(error))
            for error in islice(_meta().iter_errors(schema), MAX_PROBLEMS)
        ]
    except ValueError as error:
        return [SchemaFault((), cut(str(error), MESSAGE_CHARACTERS))]
    return faults or _dangling_refs(schema)


def remote_refs(schema: Json) -> list[RemoteRef]:
    """Return the references to other documents."""
    inside = {each for each in _ids(schema) if isinstance(each, str)}
    return [
        RemoteRef(path, ref)
        for path, ref in _refs(schema)
        if not ref.startswith("#") and ref.partition("#")[0] not in inside
    ]


def json_type(value: Any) -> str:
    """Return the name of the value's JSON type: `array`, `string` and so on."""
    return next((name for kind, name in _JSON_TYPES if isinstance(value, kind)), "null")


def pointer(path: list[str | int]) -> str:
    """Return the path as a JSON Pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def json_problems(value: Any, depth: int) -> Iterator[Problem]:
    """Yield a problem for too deep nesting and for numbers that JavaScript cannot represent."""
    if type(value) is dict and _is_plain(value):  # the usual input
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


def _has_more_inside(value: Any, most: int) -> bool:
    """Whether a value contains more than `most` values, at any depth."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        each = waiting.pop()
        if isinstance(each, dict | list | tuple):
            count += len(each)
            waiting += each.values() if isinstance(each, dict) else each
    return count > most


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether an object contains only strings, booleans, nulls and safe integers."""
    for item in value.values():
        kind = type(item)
        if kind not in _HARMLESS and not (kind is int and -SAFE_INTEGER <= item <= SAFE_INTEGER):
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


def _problems(error: jsonschema_rs.ValidationError) -> list[Problem]:
    """Return the problems of an error; for `anyOf` and `oneOf`, those of the intended branch.

    The intended branch is the one whose constants (discriminators) match. If there is none, return
    the problems that all branches have in common.
    """
    kind = error.kind
    if not isinstance(kind, _ANY_OF):
        return [_problem(error)]
    intended = [branch for branch in kind.context if not _is_other(branch, error)]
    if len(intended) == 1:
        return [problem for inner in intended[0] for problem in _problems(inner)]
    constants = _constants(kind.context)
    if constants:
        path, values = constants
        return [Problem(path, cut(f"must be one of: {', '.join(values)}", MESSAGE_CHARACTERS))]
    first, *others = (
        [one for each in branch for one in _problems(each)] for branch in kind.context
    )
    return [each for each in first if all(each in other for other in others)] or [_problem(error)]


def _is_other(
    branch: list[jsonschema_rs.ValidationError], error: jsonschema_rs.ValidationError
) -> bool:
    """Whether a branch describes another kind of value: its type or a constant does not match."""
    kinds, here = jsonschema_rs.ValidationErrorKind, error.instance_path
    return any(
        isinstance(each.kind, kinds.Constant)
        or (isinstance(each.kind, kinds.Type) and each.instance_path == here)
        for each in branch
    )


def _constants(
    branches: list[list[jsonschema_rs.ValidationError]],
) -> tuple[str, list[str]] | None:
    """Return the path at which every branch requires a constant, and these constants."""
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
    """Return one problem; a missing property is reported at its own path."""
    path, kind = error.instance_path, error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return Problem(pointer([*path, kind.property]), "is required")
    return Problem(pointer(path), cut(error.message, MESSAGE_CHARACTERS))


def _broken(error: jsonschema_rs.ValidationError) -> str:
    """Return the message for a schema that cannot be compiled."""
    message = cut(error.message, MESSAGE_CHARACTERS)
    if "retrieving it failed" in message:
        return f"{message.partition(' is not present')[0]} {_OUTSIDE}; put it under $defs"
    return f"{pointer(error.instance_path) or '/'}: {message}"


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri!r}; put the definition under $defs instead")


@cache
def _meta() -> jsonschema_rs.Draft202012Validator:
    """Return the meta-schema. It takes 3 MiB, so it is compiled at the first manifest."""
    return jsonschema_rs.Draft202012Validator(
        {"$ref": "https://json-schema.org/draft/2020-12/schema"}, validate_formats=True
    )


_TYPES = "array, boolean, integer, null, number, object, string"
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_PLAIN = frozenset({"const", "enum", "default", "examples"})


def _meaning(error: jsonschema_rs.ValidationError) -> str:
    """Return the message of an error; for a wrong `type`, with the names of all types."""
    if error.instance_path[-1:] == ["type"]:
        return f"{cut(json.dumps(error.instance), MESSAGE_CHARACTERS)} is not one of {_TYPES}"
    return cut(error.message, MESSAGE_CHARACTERS)


def _dangling_refs(schema: Json) -> list[SchemaFault]:
    """Return the references without a target.

    The compiler reports one at a time, so each is removed from a copy to find the next one.
    """
    faults: list[SchemaFault] = []
    while len(faults) < MAX_PROBLEMS:
        try:
            Schema(schema)
        except ValueError as error:
            message = cut(str(error).removeprefix("/: "), MESSAGE_CHARACTERS)
        else:
            break
        refs = [(path, name) for path, ref in _refs(schema) if (name := _target(ref))]
        quoted = [path for path, ref in refs if f"'{ref}'" in message]
        paths = quoted or [path for path, ref in refs if ref in message][:1]
        if not paths and _OUTSIDE in message:  # the message has the absolute form of a relative one
            paths = [remote.path for remote in remote_refs(schema)][:1]
        faults += [SchemaFault(path, message) for path in paths or [()]]
        if not paths:
            break
        schema = deepcopy(schema)
        for path in paths:
            _remove(schema, path)
    return faults


def _target(ref: str) -> str:
    """Return the target of a reference as messages of the compiler contain it."""
    return ref[1:] if ref.startswith("#") else ref.partition("#")[0]


def _remove(schema: Any, path: tuple[str | int, ...]) -> None:
    for part in path[:-1]:
        schema = schema[part]
    del schema[path[-1]]


def _refs(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every reference with its path, but not inside values of `const`, `enum` and so on."""
    for path, subschema in _subschemas(schema):
        for key in ("$ref", "$dynamicRef"):
            if isinstance(ref := subschema.get(key), str):
                yield (*path, key), ref


def _ids(schema: Any) -> Iterator[Any]:
    return (each["$id"] for _, each in _subschemas(schema) if "$id" in each)


def _subschemas(schema: Any) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yield the schema and all its subschemas in document order."""
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
    """Yield the schemas of a map whose keys are the author's own names."""
    if isinstance(each, dict):
        for key, one in each.items():
            yield (*path, key), one
