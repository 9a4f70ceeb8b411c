"""Errors of calls at a size that logs keep, and that clients and code get."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.envelope import ErrorDetail, Json
from penstock.core.json_values.json_text import compact, is_larger
from penstock.core.json_values.schema import is_deeper
from penstock.core.limits import Limits
from penstock.core.text import cut, size_text

CUT = "truncated"
"""The member of the details that says what is missing."""
MOST_OF_A_CHARACTER = 6
"""Bytes of a character that is escaped."""


def bounded(error: ErrorDetail, limits: Limits) -> ErrorDetail:
    """Return an error whose words and details are no larger than the limits allow."""
    most, suggestion = limits.error_chars, error.suggestion
    return replace(
        error,
        message=cut(error.message, most),
        suggestion=None if suggestion is None else cut(suggestion, most),
        details=None if error.details is None else _details(dict(error.details), limits),
    )


def _details(details: Json, limits: Limits) -> Json:
    most, depth = limits.details_bytes, limits.json_depth
    is_deep = is_deeper(details, depth)
    if not is_deep and not is_larger(details, most):
        return details
    kept: dict[str, Any] = {}
    left = most
    for key, value in details.items():
        if is_deeper(value, depth - 1):
            continue
        found = _beginning(value, left - _size(key))
        if found is not None or value is None:
            kept[key] = found
            left -= _size(key) + _size(found)
    why = f"nested more than {depth} deep" if is_deep else f"over {size_text(most)} as JSON"
    return kept | {CUT: f"the details were {why}; what is here is a part of them"}


def _beginning(value: Any, room: int) -> Any:
    """Return what of a value has room: all, the first of its items or characters, or None."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        characters = room // MOST_OF_A_CHARACTER - 1
        return cut(value, characters) if characters > 0 else None
    return _first(value, room) if isinstance(value, list | tuple) else None


def _first(items: Sequence[Any], room: int) -> list[Any] | None:
    kept, left = [], room
    for each in items:
        left -= _size(each)
        if left < 0:
            break
        kept.append(each)
    return kept or None


def _size(value: Any) -> int:
    return len(compact(value).encode()) + 1
