"""What crosses between a script and its engine: JSON, and bytes beside it; nothing is trusted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.call_errors import ScriptError

ENDINGS = {"done", "large", "missing", "fail"}
"""How a script can end; the last it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a script told its engine."""

    kind: str
    """`ask`, `drop`, `print`, `rejected`, or one of ENDINGS."""
    number: int
    """Of the host call."""
    name: str = ""
    """Of the host call, or the level of a line."""
    value: Any = None
    size: int = 0
    """Bytes that are held until the host call settles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
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
    """Read what a script sent."""
    kind, number, rest = text.split("\n", 2)
    size = len(text) + sum(map(len, attachments))
    if kind == "ask":
        name, spelled = rest.split("\n", 1)
        value = read_json(spelled, depth, f"the arguments of {name}")
        if attachments and isinstance(value, dict):
            value["attachments"] = list(attachments)
        return Message(kind=kind, number=int(number), name=name, value=value, size=size)
    if kind == "print":
        level, line = rest.split("\n", 1)
        return Message(kind=kind, number=0, name=level, value=line)
    if kind == "done":
        return Message(kind=kind, number=0, value=read_json(rest, depth, "the output"), size=size)
    if kind == "fail":
        return Message(kind=kind, number=0, value=read_json(rest, depth, "the error"))
    return Message(kind=kind, number=int(number), value=rest)


def read_json(text: str, depth: int, what: str) -> Any:
    """Return what a JSON text says: not nested too deeply, finite numbers, well-formed text."""
    try:
        value = _STRICT.decode(text)
    except (RecursionError, ValueError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ScriptError(f"{what} cannot be read as JSON: {said}") from None
    # Only where there are brackets enough: to walk costs as much as to read.
    if text.count("[") + text.count("{") > depth and _is_deeper(value, depth):
        raise ScriptError(f"{what} may be nested {depth} deep; it is nested deeper")
    # A half of a pair stands escaped in JSON; as text it could neither be stored nor sent.
    if "\\ud" in text or "\\uD" in text:
        spelled = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return json.loads(spelled.decode("utf-16", "replace"))
    return value


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


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{text[:20]} is too large for a number")
    return number


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
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
"""Made once: to make one costs more than to read a message."""
