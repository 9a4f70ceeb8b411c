"""The messages between a script and its engine, and the frames that carry them to a process.

Guarantees that a message from a script either becomes a `Message` with a known kind, finite JSON of
bounded depth and a bounded number, or raises ScriptError. A script controls every character: it may
replace the functions that our guest sources call, or break its engine. Arguments that are nested
too deeply are an error of the author, so only that host call is refused; any other malformed
message cannot come from our sources and ends the script.

A message is JSON, with bytes as attachments. A frame is the number of its parts, their sizes, and
the parts. Its sender is untrusted, too: a frame beyond the bound is refused before it is buffered.
Proof: tests/sandbox/test_messages.py.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import ScriptError
from penstock.core.json_values.json_text import parse_json

ENDINGS = {"done", "large", "missing", "fail"}
"""The kinds of a script's last message."""
KINDS = ENDINGS | {"ask", "drop", "print", "rejected"}
_MAX_DIGITS = 9
MAX_PARTS = 1 << 16
_WORD = 4
_PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Shared, because creating an encoder costs more than parsing a message."""


class Message(Struct, frozen=True, kw_only=True):
    """A message from a script to its engine."""

    kind: str
    """`ask`, `drop`, `print`, `rejected`, or one of ENDINGS."""
    number: int
    """The number of the host call."""
    name: str = ""
    """The name of the host call, or the level of a console line."""
    value: Any = None
    problem: str = ""
    """Why the arguments are refused; empty if they are not."""
    size: int = 0
    """Bytes that are held until the host call settles."""


class Delivery(Struct, frozen=True, kw_only=True):
    """A message from an engine to its script."""

    kind: str
    """`run`, `settle`, `refuse`."""
    number: int
    value: Any
    at_ms: int
    """The time that the script's clock shows from then on, in ms since 1970."""

    def to_wire(self) -> tuple[str, list[bytes]]:
        """Return the text, and the attachments."""
        attachments: list[bytes] = []
        try:
            text = _PLAIN.encode(self.value)
        except TypeError:
            text = json.dumps(self.value, default=_Attached(attachments), allow_nan=False)
        return f"{self.kind}\n{self.number}\n{text}", attachments


def read_message(text: str, attachments: Sequence[bytes], depth: int) -> Message:
    """Parse a message of a script. Raises ScriptError for one that the guest sources never send."""
    kind, _, after = text.partition("\n")
    digits, newline, rest = after.partition("\n")
    if kind not in KINDS or not newline or not _is_number(digits):
        raise ScriptError(f"the script sent its host a malformed message: {text[:40]!r}")
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
    """Parse JSON of bounded depth, with finite numbers. `what` names it in the error."""
    try:
        value = parse_json(text)
    except (RecursionError, ValueError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ScriptError(f"{what} cannot be read as JSON: {reason}") from None
    if _may_be_deeper(text, depth) and _is_deeper(value, depth):
        raise ScriptError(f"{what} may be nested {depth} deep; it is nested deeper")
    return value


class FrameReader:
    """Assembles frames from received bytes. Their sender is untrusted."""

    def __init__(self, max_bytes: int) -> None:
        self._unread = bytearray()
        self.max_bytes = max_bytes
        """Largest size of a frame. A larger one is refused before it is buffered."""

    def feed(self, content: bytes) -> Iterator[tuple[str, list[bytes]]]:
        """Yield every complete frame. Raises ValueError for bytes that cannot be a frame."""
        self._unread += content
        while (frame := self._take()) is not None:
            yield frame

    def _take(self) -> tuple[str, list[bytes]] | None:
        unread = self._unread
        if len(unread) < _WORD:
            return None
        count = int.from_bytes(unread[:_WORD], "little")
        if not 1 <= count <= MAX_PARTS:
            raise ValueError(f"a frame has 1 to {MAX_PARTS} parts, found {count}")
        at = _WORD * (count + 1)
        if len(unread) < at:
            return None
        sizes = struct.unpack(f"<{count}I", unread[_WORD:at])
        whole = at + sum(sizes)
        if whole > self.max_bytes:
            raise ValueError(f"a frame has at most {self.max_bytes} bytes, found {whole}")
        if len(unread) < whole:
            return None
        parts = []
        for size in sizes:
            parts.append(bytes(unread[at : at + size]))
            at += size
        del unread[:whole]
        return parts[0].decode("ascii", "replace"), parts[1:]


def frame_of(kind: str, parts: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of one frame. Its first part is its kind."""
    all_parts = (kind.encode(), *parts)
    head = struct.pack(f"<{len(all_parts) + 1}I", len(all_parts), *map(len, all_parts))
    return b"".join((head, *all_parts))


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


def _read_ask(number: int, text: str, attachments: Sequence[bytes], depth: int) -> Message:
    """Parse a host call. Arguments that are nested too deeply refuse the call, nothing more."""
    name, _, arguments = text.partition("\n")
    size = len(text) + sum(map(len, attachments))
    try:
        value = parse_json(arguments)
    except RecursionError:
        return _too_deep(number, name, depth)
    except ValueError as error:
        raise ScriptError(f"the arguments of {name[:80]} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ScriptError(f"the arguments of {name[:80]} are not an object")
    # The guest sources wrap the arguments in an object: that level does not count.
    if _may_be_deeper(arguments, depth + 1) and _is_deeper(value, depth + 1):
        return _too_deep(number, name, depth)
    value.pop("attachments", None)  # only real attachments may use this key
    if attachments:
        value["attachments"] = list(attachments)
    return Message(kind="ask", number=number, name=name, value=value, size=size)


def _too_deep(number: int, name: str, depth: int) -> Message:
    problem = f"the arguments of {name[:80]} may be nested {depth} deep; they are nested deeper"
    return Message(kind="ask", number=number, name=name, problem=problem)


def _may_be_deeper(text: str, depth: int) -> bool:
    """Whether there are enough brackets. A cheap test: walking a value costs as much as parsing."""
    return text.count("[") + text.count("{") > depth


class _Attached:
    """Moves bytes of a value into the attachments; the value keeps the index of each."""

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
            for part in level
            for member in (part.values() if isinstance(part, dict) else part)
            if isinstance(member, (dict, list))
        ]
    return bool(level)
