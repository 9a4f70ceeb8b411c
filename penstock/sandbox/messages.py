"""What crosses between a script and its engine: JSON, and bytes beside it; nothing is trusted."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import ScriptError
from penstock.core.json_values.json_text import parse_json

ENDINGS = {"done", "large", "missing", "fail"}
"""How a script can end; the last it says."""
KINDS = ENDINGS | {"ask", "drop", "print", "rejected"}
_MOST_DIGITS = 9


class Message(Struct, frozen=True, kw_only=True):
    """What a script told its engine."""

    kind: str
    """`ask`, `drop`, `print`, `rejected`, or one of ENDINGS."""
    number: int
    """Of the host call."""
    name: str = ""
    """Of the host call, or the level of a line."""
    value: Any = None
    problem: str = ""
    """Why no host call may have these arguments, if so."""
    size: int = 0
    """Bytes that are held until the host call settles."""


class Delivery(Struct, frozen=True, kw_only=True):
    """What an engine tells its script."""

    kind: str
    """`run`, `settle`, `refuse`."""
    number: int
    value: Any
    at_ms: int
    """What the clock shows from then on."""

    def to_wire(self) -> tuple[str, list[bytes]]:
        """Return the text of it, and the bytes beside it."""
        attachments: list[bytes] = []
        try:
            text = _PLAIN.encode(self.value)
        except TypeError:
            text = json.dumps(self.value, default=_Attached(attachments), allow_nan=False)
        return f"{self.kind}\n{self.number}\n{text}", attachments


def read_message(text: str, attachments: Sequence[bytes], depth: int) -> Message:
    """Read what a script sent. Raises ScriptError for what our part of its world never sends."""
    kind, _, after = text.partition("\n")
    digits, found, rest = after.partition("\n")
    if kind not in KINDS or not found or not _is_number(digits):
        raise ScriptError(f"the script sent its host a message of no form: {text[:40]!r}")
    number = int(digits)
    if kind == "ask":
        return _read_ask(number, rest, attachments, depth)
    if kind == "print":
        level, _, line = rest.partition("\n")
        return Message(kind=kind, number=0, name=level, value=line)
    if kind == "done":
        return Message(
            kind=kind, number=0, value=read_json(rest, depth, "the output"), size=len(text)
        )
    if kind == "fail":
        return Message(kind=kind, number=0, value=read_json(rest, depth, "the error"))
    return Message(kind=kind, number=number, value=rest)


def read_json(text: str, depth: int, what: str) -> Any:
    """Return what a JSON text says: not nested too deeply, finite numbers, well-formed text."""
    try:
        value = parse_json(text)
    except (RecursionError, ValueError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ScriptError(f"{what} cannot be read as JSON: {said}") from None
    if _may_be_deeper(text, depth) and _is_deeper(value, depth):
        raise ScriptError(f"{what} may be nested {depth} deep; it is nested deeper")
    return value


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS


def _read_ask(number: int, text: str, attachments: Sequence[bytes], depth: int) -> Message:
    """Read a host call. What is nested too deeply is a mistake of the script, which goes on."""
    name, _, spelled = text.partition("\n")
    size = len(text) + sum(map(len, attachments))
    try:
        value = parse_json(spelled)
    except RecursionError:
        return _too_deep(number, name, depth)
    except ValueError as error:
        raise ScriptError(f"the arguments of {name[:80]} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ScriptError(f"the arguments of {name[:80]} are no object")
    # The object around the arguments is ours.
    if _may_be_deeper(spelled, depth + 1) and _is_deeper(value, depth + 1):
        return _too_deep(number, name, depth)
    value.pop("attachments", None)
    if attachments:
        value["attachments"] = list(attachments)
    return Message(kind="ask", number=number, name=name, value=value, size=size)


def _too_deep(number: int, name: str, depth: int) -> Message:
    problem = f"the arguments of {name[:80]} may be nested {depth} deep; they are nested deeper"
    return Message(kind="ask", number=number, name=name, problem=problem)


def _may_be_deeper(text: str, depth: int) -> bool:
    """Whether there are brackets enough: to walk a value costs as much as to read it."""
    return text.count("[") + text.count("{") > depth


class _Attached:
    """Takes bytes out of a value, and leaves the place of each among the attachments."""

    def __init__(self, attachments: list[bytes]) -> None:
        self._attachments = attachments

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (bytes, bytearray, memoryview)):
            self._attachments.append(bytes(value))
            return {"attachment": len(self._attachments) - 1}
        if isinstance(value, Mapping):
            return dict(value)
        raise TypeError(f"a host call settled with a {type(value).__name__}, which is not JSON")


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        level = [
            member
            for each in level
            for member in (each.values() if isinstance(each, dict) else each)
            if isinstance(member, (dict, list))
        ]
    return bool(level)


_PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Made once: to make one costs more than to read a message."""
