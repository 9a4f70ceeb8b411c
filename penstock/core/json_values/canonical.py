"""The canonical text of JSON values, used by call identities, loop detection and hashes.

Guarantees: two values have the same text exactly if the chat API's table of equal arguments calls
them equal. Keys are sorted by code point; there is no white space; numbers are compared by value
(`1.0` is `1`); strings are unchanged except for lone surrogates, which become U+FFFD; arrays keep
their order; defaults are not filled in. All texts from here can be stored and encoded as UTF-8.

Paths of calls in stored logs contain hashes of this text: a change here means that a log from
before is not replayed. Proof: tests/core/json_values/test_canonical.py.
"""

import json
import math
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

_Encode = Callable[[Any], str]


def _encoder(*, sort_keys: bool, allow_nan: bool) -> _Encode:
    """Return an encode function that creates its C core once, not in each call."""
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
_NUMBER_BYTES = 32
"""Upper bound for a float or a small integer and the comma after it."""
_CHARACTER_BYTES = 6
"""Upper bound for a character; an escaped one has six bytes."""


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value."""
    text = _sorted(value if _is_flat(value) else _normal(value))
    return text if text.isascii() else without_surrogates(text)


def compact(value: Any) -> str:
    """Return a JSON value as text with its own key order, for logs and models.

    NaN and the infinities become null, lone surrogates become U+FFFD.
    """
    try:
        return exact(value)
    except ValueError:
        return exact(_finite(value))


def exact(value: Any) -> str:
    """Return the same text as `compact`, but raise ValueError for NaN and the infinities."""
    text = _ordered(value)
    return text if text.isascii() else without_surrogates(text)


def is_larger(value: Any, most: int) -> bool:
    """Whether the JSON of a value has more than `most` bytes."""
    # the estimate is cheap; the value is encoded only if it may be too large
    return _max_bytes(value) > most and len(compact(value).encode()) > most


def fingerprint(key: bytes, tool_id: str, text: str) -> str:
    """Return a keyed hash of a tool and its canonical arguments: 16 hexadecimal characters."""
    message = f"{tool_id}\n{text}".encode("utf-8", "surrogatepass")
    return blake2b(message, digest_size=8, key=key).hexdigest()


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of every lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _max_bytes(value: Any) -> int:
    """Return an upper bound for the size of a value's JSON."""
    total, remaining = 0, [value]
    while remaining:
        part = remaining.pop()
        total += _NUMBER_BYTES
        if type(part) is str:
            total += _CHARACTER_BYTES * len(part)
        elif type(part) is int:
            total += part.bit_length() // 3  # a decimal digit has more than three bits
        elif type(part) is dict:
            remaining += (*part, *part.values())
        elif type(part) is list or type(part) is tuple:
            remaining += part
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
