"""Outputs of Python tools as JSON.

`to_json` copies: a tool that changes a value after it returned it changes nothing in the log. Every
refusal names the place in the output. Bytes become base64 with their type, recognized from their
first bytes only. Proof: `tests/tools/test_outputs.py`.
"""

import base64
import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from msgspec import Struct

from penstock.core.call_errors import InvalidOutput
from penstock.core.json_values.schema import pointer
from penstock.core.late import late
from penstock.tools.media import sniff

Path = tuple[str | int, ...]

_LOCAL = "#/$defs/"
_PLAIN = frozenset({str, bool, type(None)})
_SMALL = 1 << 53
_KEYS = frozenset({int, float, bool})
_TEXTUAL = (date, time, timedelta, Decimal, UUID)
"""`date` includes `datetime`."""


def to_json(value: Any, depth: int) -> Any:
    """Return a copy of the value as JSON.

    Raises InvalidOutput, which names the place, for a value without a JSON form, NaN, a path of
    this machine, or more than `depth` levels.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    # Most outputs are flat objects of plain values: they need no walk.
    if kind is dict and all(
        type(k) is str and (type(v) in _PLAIN or (type(v) is int and -_SMALL < v < _SMALL))
        for k, v in value.items()
    ):
        return value.copy()
    return _convert(value, (), depth)


def own_copy(value: Any) -> Any:
    """Return a copy of JSON from the log, for code that may change it in place."""
    kind = type(value)
    if kind is dict:
        return {key: own_copy(each) for key, each in value.items()}
    return [own_copy(each) for each in value] if kind is list else value


def given_json(value: Any, depth: int, noun: str) -> Any:
    """Return a value that a tool passes to its context as JSON. Raises TypeError."""
    try:
        return to_json(value, depth)
    except InvalidOutput as error:
        problem = str(error).removeprefix("the output").replace("a tool returns", "expected:")
        raise TypeError(f"{noun}{problem}") from None


def _convert(value: Any, path: Path, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int or isinstance(value, float):
        return _number(value, path)
    if len(path) >= depth:
        raise _refused(path[:3], f"is nested more than {depth} levels deep")
    if isinstance(value, Enum):
        return _convert(value.value, path, depth)
    if isinstance(value, Mapping):
        return _convert_members(value, path, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return [_convert(each, (*path, number), depth) for number, each in enumerate(value)]
    return _convert_object(value, path, depth)


def _convert_members(value: Mapping[Any, Any], path: Path, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, member in value.items():
        key = name if type(name) is str else _key(name, path)
        # `{1: …, "1": …}` has two keys in Python and one in JSON: a value would be lost.
        if key in made:
            raise _refused(path, f"has two keys that are {key!r} as texts")
        made[key] = _convert(member, (*path, key), depth)
    return made


def _convert_object(value: Any, path: Path, depth: int) -> Any:
    if _is_model(value):
        return _convert(value.model_dump(by_alias=True), path, depth)
    if (names := _field_names(value)) is not None:
        return {n: _convert(getattr(value, n), (*path, n), depth) for n in names}
    if isinstance(value, bytes | bytearray | memoryview):
        return encoded(bytes(value))
    if isinstance(value, _TEXTUAL):
        text_of: Callable[[Any], Any] = late("penstock.tools.python.hints:text_of")
        return text_of(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return _number(value, path)
    if isinstance(value, PurePath):
        raise _refused(path, "is a path of this machine; return what the file holds, or its name")
    accepted = "JSON, a pydantic model, a dataclass, a datetime or bytes"
    raise _refused(path, f"is {_article(type(value).__name__)}; a tool returns {accepted}")


def _is_model(value: Any) -> bool:
    """Whether it is a model of pydantic. If it is, its program has loaded pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _number(value: Any, path: Path) -> int | float:
    """Return a number that a double can hold. Readers of JSON turn larger ones into infinity."""
    is_whole = isinstance(value, int)
    try:
        if math.isfinite(value):
            return int(value) if is_whole else float(value)
    except OverflowError:
        pass
    problem = f"has {value.bit_length()} bits" if is_whole else f"is {value}"
    raise _refused(path, f"{problem}; return None or a text")


def _field_names(value: Any) -> Sequence[str] | None:
    if isinstance(value, Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [each.name for each in dataclasses.fields(value)]
    return None


BYTES = {"type": "string", "contentEncoding": "base64"}
"""The schema of bytes: a string in base64."""


def at_bytes(value: Any, schema: Any, act: Callable[[Any, Path], Any]) -> Any:
    """Return JSON with `act` applied to each value whose schema declares base64."""
    return _at_bytes(value, schema, schema, act=act, path=())


def _at_bytes(
    value: Any, schema: Any, root: Any, *, act: Callable[[Any, Path], Any], path: Path
) -> Any:
    if not isinstance(schema, dict) or value is None:
        return value
    if schema.get("contentEncoding") == "base64":
        return act(value, path)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_LOCAL):
        schema = root.get("$defs", {}).get(reference.removeprefix(_LOCAL))
        return _at_bytes(value, schema, root, act=act, path=path)
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key, ())
        if isinstance(value, str) and any(map(_is_words, branches)):
            continue  # of `bytes | str`: it may be plain text
        for branch in branches:
            value = _at_bytes(value, branch, root, act=act, path=path)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {
            name: _at_bytes(each, known.get(name, others), root, act=act, path=(*path, name))
            for name, each in value.items()
        }
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        schemas = [*first, *[rest] * (len(value) - len(first))]
        return [
            _at_bytes(each, one, root, act=act, path=(*path, at))
            for at, (each, one) in enumerate(zip(value, schemas, strict=False))
        ]
    return value


def _is_words(schema: Any) -> bool:
    is_text = isinstance(schema, dict) and schema.get("type") == "string"
    return is_text and "contentEncoding" not in schema


def plain_base64(value: Any, path: Path) -> Any:
    """Return bytes as their base64 text alone, for a value whose schema declares it."""
    return value["data"] if isinstance(value, dict) and "data" in value else value


def encoded(content: bytes) -> dict[str, str]:
    """Return bytes as JSON: base64 with its encoding and media type."""
    text = base64.b64encode(content).decode()
    return {"data": text, "encoding": "base64", "mimeType": sniff(content)}


def _key(key: Any, path: Path) -> str:
    if isinstance(key, Enum):
        return _key(key.value, path)
    if isinstance(key, str):
        return str(key)
    if type(key) in _KEYS:
        return str(key).lower() if isinstance(key, bool) else str(key)
    raise _refused(path, f"has the key {key!r}; keys are texts")


def _refused(path: Path, problem: str) -> InvalidOutput:
    place = pointer(list(path)) or "/"
    details = {"problems": [{"path": place, "message": problem}]}
    return InvalidOutput(f"the output at {place} {problem}", details=details)


def _article(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "AEIOUaeiou" else f"a {noun}"
