"""Reads JSON from outside, and writes JSON as text: compact, exact or canonical.

Guarantees of `parse_json`: a value is accepted only if every store, script and model reads it
alike. `json.loads` accepts more than JSON: `NaN`, `Infinity`, and numbers that overflow, such as
`1e400`, which becomes infinity. Their text is not JSON, so a task would have another value in
memory than in its log. They are refused here. Lone surrogates, which no database stores, become
U+FFFD. `tests/test_shape.py` forbids other readers of JSON, except in the files that it names.

Guarantees of `canonical`: two values have the same text exactly if the chat API's table of equal
arguments calls them equal. Keys are sorted by code point; there is no white space; numbers are
compared by value (`1.0` is `1`); strings are unchanged except for lone surrogates; arrays keep
their order; defaults are not filled in. All texts from here can be stored and encoded as UTF-8.
Paths of calls in stored logs contain hashes of this text, so a change here means that calls of
older logs are not replayed.

Proof: tests/core/json_values/test_json_text.py.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec

JSON_DEPTH = 200
"""Most levels of nesting in an input or an output."""

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
_checked = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Finds circular references too, which the two above do not look for."""
_flat = msgspec.json.Encoder().encode
_flat_sorted = msgspec.json.Encoder(order="sorted").encode
"""For values without floats and nesting: the same text, in a third of the time."""
_UNUSUAL = (TypeError, UnicodeEncodeError)
"""Keys that are no text, and lone surrogates."""
_decode = msgspec.json.Decoder().decode
# the same rules as `_CAREFUL_DECODER`, and 3 to 20 times as fast; but its messages are worse
_SHOWN = 20
_NESTING = (dict, list, tuple)
_FLAT = frozenset({str, int, bool, type(None)})
_NUMBER_BYTES = 32
"""Upper bound for a float or a small integer and the comma after it."""
_CHARACTER_BYTES = 6
"""Upper bound for a character; an escaped one has six bytes."""


def parse_json(text: str | bytes | bytearray) -> Any:
    """Return the value. Raises ValueError, and RecursionError if it is nested too deeply.

    Bytes are UTF-8.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _careful(_repaired(text if isinstance(text, str) else text.decode()))


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the value that begins at `start`, and where it ends. Raises as `parse_json` does."""
    end = _CAREFUL_DECODER.raw_decode(text, start)[1]
    return parse_json(text[start:end]), end


def as_stored(value: Any) -> Any:
    """Return a copy of a value as it would be after writing and reading it: keys are strings.

    Raises TypeError or ValueError for values that JSON cannot express, and RecursionError.
    """
    return parse_json(_checked(value))


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value."""
    if is_flat := _is_flat(value):
        try:
            return _flat_sorted(value).decode()
        except _UNUSUAL:
            pass
    text = _sorted(value if is_flat else _normal(value))
    return text if text.isascii() else without_surrogates(text)


def compact(value: Any) -> str:
    """Return a JSON value as text with its own key order, for logs and models.

    NaN and the infinities become null, lone surrogates become U+FFFD.
    """
    try:
        return exact(value)
    except ValueError:
        return exact(_without_infinities(value))


def exact(value: Any) -> str:
    """Return the same text as `compact`, but raise ValueError for NaN and the infinities."""
    if _is_flat(value):
        try:
            return _flat(value).decode()
        except _UNUSUAL:
            pass
    text = _ordered(value)
    return text if text.isascii() else without_surrogates(text)


def is_larger(value: Any, most: int) -> bool:
    """Whether the JSON of a value has more than `most` bytes."""
    # the estimate is cheap; the value is encoded only if it may be too large
    return _max_bytes(value) > most and len(compact(value).encode()) > most


def is_deeper(value: Any, depth: int) -> bool:
    """Whether a value has more than `depth` levels of nesting. Needs no recursion."""
    level = [value] if isinstance(value, _NESTING) else []
    for _ in range(depth):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for each in inner for one in each if isinstance(one, _NESTING)]
        if not level:
            return False
    return bool(level)


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


def _without_infinities(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_infinities(each) for key, each in value.items()}
        case list() | tuple():
            return [_without_infinities(each) for each in value]
        case _:
            return value


def _careful(text: str) -> Any:
    """Read text with lone surrogates, or raise ValueError with the problem and its position."""
    value = _CAREFUL_DECODER.decode(text)
    return _CAREFUL_DECODER.decode(_repaired(json.dumps(value, ensure_ascii=False)))


def _repaired(text: str) -> str:
    return text if text.isascii() else without_surrogates(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _too_large(text)
    return number


def _parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python reads no more than 4300 digits
        raise _too_large(text) from None


def _too_large(text: str) -> ValueError:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return ValueError(f"{shown} is too large for a number")


_CAREFUL_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_parse_float, parse_int=_parse_int
)
