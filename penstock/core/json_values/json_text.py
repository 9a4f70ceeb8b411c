"""JSON that comes from outside, read so that every store, script and model reads it alike.

`json.loads` takes more than JSON: `NaN` and `Infinity`, and numbers that overflow, such as `1e400`,
which it reads as infinity. Written again they are no JSON, or null, so that what a task has in
memory would differ from what is read back from its log. All of them are refused here. Halves of
UTF-16 pairs, which no database takes, become U+FFFD. Every text from outside is read here: a rule
of `tests/test_shape.py` refuses the readers of `json` in other files but those it names.
"""

import json
import math
from typing import Any

import msgspec

from penstock.core.json_values.canonical import without_surrogates

_SHOWN = 20
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = msgspec.json.Decoder().decode
"""Refuses all that is said above, three to twenty times as fast as `json`; its words are worse."""


def parse_json(text: str | bytes | bytearray) -> Any:
    """Return the value. Raises ValueError, and RecursionError if it is nested too deeply.

    Bytes are UTF-8.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _careful(_repaired(text if isinstance(text, str) else text.decode()))


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the value that begins there, and where it ends. Raises as `parse_json` does."""
    end = _CAREFUL_DECODER.raw_decode(text, start)[1]
    return parse_json(text[start:end]), end


def as_stored(value: Any) -> Any:
    """Return JSON as it is when it was written and read again: of its own, with texts as keys.

    Raises TypeError and ValueError for what has no such form, and RecursionError.
    """
    return parse_json(_encode(value))


def _careful(text: str) -> Any:
    """Say what is wrong, and where; or read what has halves of pairs."""
    value = _CAREFUL_DECODER.decode(text)
    return _CAREFUL_DECODER.decode(_repaired(json.dumps(value, ensure_ascii=False)))


def _repaired(text: str) -> str:
    return text if text.isascii() else without_surrogates(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _too_large(text)
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python reads no more than 4300 digits
        raise _too_large(text) from None


def _too_large(text: str) -> ValueError:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return ValueError(f"{shown} is too large for a number")


_CAREFUL_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer
)
