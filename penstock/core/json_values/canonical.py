"""One spelling for equal JSON: what identities, loop detection and hashes compare.

The rules are those of the chat API's table of equal arguments: keys sorted by code point, no white
space, numbers by value, strings unchanged but for lone surrogates, arrays in order, nothing filled
in.
"""

import json
import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

_Encode = Callable[[Any], str]


def _encoder(*, sort_keys: bool, allow_nan: bool) -> _Encode:
    """Return an encoder whose core in C is made once; `JSONEncoder.encode` makes one each time."""
    plain = json.JSONEncoder(
        ensure_ascii=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        check_circular=False,
        allow_nan=allow_nan,
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    spell = getattr(json.encoder, "encode_basestring", None)
    if make is None or spell is None:
        return plain.encode
    chunks = make(None, plain.default, spell, None, ":", ",", sort_keys, plain.skipkeys, allow_nan)
    return lambda value: "".join(chunks(value, 0))


_sorted = _encoder(sort_keys=True, allow_nan=True)
_ordered = _encoder(sort_keys=False, allow_nan=False)
_FLAT = frozenset({str, int, bool, type(None)})
_MOST_OF_A_NUMBER = 32
"""Bytes of a number of the usual kinds with the comma behind it."""
_MOST_OF_A_CHARACTER = 6
"""Bytes of a character that is escaped."""


def canonical(value: Any) -> str:
    """Return the one spelling of a JSON value."""
    text = _sorted(value if _is_flat(value) else _normal(value))
    return text if text.isascii() else without_surrogates(text)


def compact(value: Any) -> str:
    """Return a JSON value as text in its own order, as logs and models get it.

    NaN and the infinities become null, lone surrogates U+FFFD.
    """
    try:
        return exact(value)
    except ValueError:
        return exact(_finite(value))


def exact(value: Any) -> str:
    """Return a JSON value as text, as `compact` does; raises ValueError for NaN and infinities."""
    text = _ordered(value)
    return text if text.isascii() else without_surrogates(text)


def is_larger(value: Any, most: int) -> bool:
    """Whether the JSON of a value has more bytes than that; what is surely small is not spelled."""
    return _bytes_at_most(value) > most and len(compact(value).encode()) > most


def fingerprint(key: bytes, tool_id: str, text: str) -> str:
    """Return a keyed name, 16 hex characters, that equal requests to one tool share."""
    spelled = f"{tool_id}\n{text}".encode("utf-8", "surrogatepass")
    return blake2b(spelled, digest_size=8, key=key).hexdigest()


def without_surrogates(text: str) -> str:
    """Return the text with every lone surrogate as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _bytes_at_most(value: Any) -> int:
    """Return a number of bytes that the JSON of a value does not exceed."""
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        total += _MOST_OF_A_NUMBER
        if type(each) is str:
            total += _MOST_OF_A_CHARACTER * len(each)
        elif type(each) is int:
            total += each.bit_length() // 3  # a digit holds more than three bits
        elif type(each) is dict:
            waiting += (*each, *each.values())
        elif type(each) is list or type(each) is tuple:
            waiting += each
    return total


def _is_flat(value: Any) -> bool:
    if type(value) is dict:
        return _FLAT.issuperset(map(type, value.values()))
    return type(value) in _FLAT


def _normal(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {str(key): _normal(each) for key, each in value.items()}
        case list() | tuple():
            return [_normal(each) for each in value]
        case _:
            return value


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value
