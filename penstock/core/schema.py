"""A value against a JSON Schema (draft 2020-12): every problem with its path, no remote `$ref`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from penstock.core.envelope import Json
from penstock.core.text import cut

SAFE_INTEGER = 2**53 - 1
MOST_PROBLEMS = 50
MESSAGE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value; `path` is a JSON Pointer."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return `path: message`."""
        return f"{self.path or '/'}: {self.message}"


class Schema:
    """A compiled JSON Schema.

    Raises ValueError when it is none, or when it refers to anything outside itself.
    """

    def __init__(self, schema: Json) -> None:
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema), retriever=_refuse, validate_formats=True
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_broken(error)) from None
        self._is_valid = self._validator.is_valid

    def problems(self, value: Any) -> list[Problem]:
        """Return what is wrong with the value, at most 50 findings; nothing if it fits."""
        try:
            if self._is_valid(value):
                return []
            errors = islice(self._validator.iter_errors(value), MOST_PROBLEMS)
            return [
                Problem(pointer(error.instance_path), cut(error.message, MESSAGE_CHARACTERS))
                for error in errors
            ]
        except ValueError as error:
            return [Problem("", cut(f"is not JSON: {error}", MESSAGE_CHARACTERS))]


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
    level = [value] if type(value) in _NESTING else []
    for _ in range(depth):
        inner = [each.values() if type(each) is dict else each for each in level]
        level = [one for each in inner for one in each if type(one) in _NESTING]
        if not level:
            return False
    return bool(level)


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether nothing in an object can be wrong: what most inputs look like."""
    for each in value.values():
        kind = type(each)
        if kind not in _HARMLESS and not (kind is int and -SAFE_INTEGER <= each <= SAFE_INTEGER):
            return False
    return True


_HARMLESS = frozenset({str, bool, type(None)})
_NESTING = frozenset({dict, list})


def _broken(error: jsonschema_rs.ValidationError) -> str:
    """Return where a schema is wrong, or what it refers to in vain."""
    message = cut(error.message, MESSAGE_CHARACTERS)
    if "retrieving it failed" in message:
        return (
            f"{message.partition(' is not present')[0]} is outside the schema; put it under $defs"
        )
    return f"{pointer(error.instance_path) or '/'}: {message}"


def _refuse(uri: str) -> Any:
    raise ValueError(f"the schema refers to {uri!r}; put the definition under $defs instead")
