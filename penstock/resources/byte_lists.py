r"""A secret that is written unit by unit: as byte lists, hex dumps or an array of characters.

Programs that mean no harm print bytes: `console.log([...bytes])`, `<Buffer 73 65 …>`, a fingerprint
`73:65:…`, `xxd`, `hexdump -C`, `od`, or a text spread into an object (`{"0":"s","1":"e"}`). Between
two units there may be separators and an index; hex may be in mixed case and have `0x`. Of a dump
the lines are read back into bytes, and a line with a byte of the secret goes as a whole.

One pattern finds each notation. It begins with a unit as it is, which `re` finds at 0.3 ms a MiB,
half the time of `in` for so short a text. Separators are bounded and possessive, so a text that is
made for it costs at most a chunk for each position of a unit: 0.6 s a MiB, measured.
Proof: tests/resources/test_byte_lists.py.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

MIN_UNITS = 6
"""Fewer numbers in a row are in other texts, too."""
_CHUNK = 64
"""Units that are looked for together; of a longer secret each chunk is found by itself."""
_MAX_CHUNKS = 16
_APART = r"""[\s,;"'\\]|(?<=\\)[nrt]"""
_DECIMAL = rf"""(?:{_APART}){{1,40}}+(?:[0-9]{{1,6}}\\{{0,8}}["']?+:\s{{0,40}}+)?+"""
_HEX = rf"(?:{_APART}|[:-]|(?<=\\)x){{0,40}}+(?:0x)?+"
_OCTAL = rf"(?:{_APART}){{1,40}}+"
_CHARACTER = r"""["'`]?+,\s{0,40}+(?:["']?+[0-9]{1,6}["']?+:\s{0,8}+)?+["'`]?+"""
"""Patterns of the text between two units of a notation."""
_CUT_MARK = "…"
_CUT_OFF = rf"""[\s0-9a-fA-FxX,;:"'\\-]{{0,1000}}+{_CUT_MARK}"""
"""The rest of a list at which a text was cut."""
_DUMP_MARK = "000000"
_DUMP_LINE = re.compile(
    r"(?<![0-9a-fA-F])[0-9a-fA-F]{6,16}+:?[ \t]{1,4}+"
    r"((?:[0-9a-fA-F]{2} {1,2}){0,31}[0-9a-fA-F]{2}(?!\S)"
    r"|(?:[0-9a-fA-F]{4} ){0,7}(?:[0-9a-fA-F]{4}|[0-9a-fA-F]{2})(?!\S))[^\n]{0,80}"
)
"""An offset and the bytes of a line of `hexdump -C`, `xxd` or `od -tx1`."""


Units = TypeVar("Units", str, bytes)


class ByteLists:
    """The notations of one secret."""

    __slots__ = ("_content", "_notations", "_spelled")

    def __init__(self, value: str) -> None:
        self._content = value.encode("utf-8", "surrogatepass")
        self._spelled = {value, self._content.decode("latin-1")}
        self._notations: list[_Notation] = []
        for chunk in _chunks(self._content):
            self._add([str(each) for each in chunk], _DECIMAL)
            self._add([f"{each:02x}" for each in chunk], _HEX)
            self._add([f"{each:03o}" for each in chunk], _OCTAL)
        for characters in _chunks(value):
            self._notations.append(_Notation([*map(re.escape, characters)], _CHARACTER))

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the secret, or a chunk of it, begins and ends."""
        for notation in self._notations:
            yield from notation.places(text)
        if len(self._content) >= MIN_UNITS and _DUMP_MARK in text:
            yield from self._dumped(text)

    def runs(self, items: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Yield where the secret begins and ends in a list of numbers, characters or hex pairs."""
        text = _unlisted(items)
        for spelled in self._spelled if len(self._content) >= MIN_UNITS else ():
            if (at := text.find(spelled)) >= 0:
                yield at, at + len(spelled)

    def _add(self, units: Sequence[str], between: str) -> None:
        self._notations.append(_Notation([*map(_either_case, units)], between, _CUT_OFF))

    def _dumped(self, text: str) -> Iterator[tuple[int, int]]:
        content, begins, lines = bytearray(), list[int](), list[tuple[int, int]]()
        for line in _DUMP_LINE.finditer(text):
            begins.append(len(content))
            lines.append((line.start(1), line.end()))
            content += bytes.fromhex(line[1])
        at = -1
        while (at := content.find(self._content, at + 1)) >= 0:
            last = at + len(self._content) - 1
            yield from lines[bisect_right(begins, at) - 1 : bisect_right(begins, last)]


class _Notation:
    """One notation of a chunk, compiled when a text has its first units.

    Most texts have none. To compile all of a secret of 200 characters took 40 ms of the event loop,
    its first units take 3.
    """

    __slots__ = ("_between", "_cut_off", "_first", "_patterns", "_units")

    def __init__(self, units: Sequence[str], between: str, cut_off: str = "") -> None:
        self._units, self._between, self._cut_off = units, between, cut_off
        self._first = re.compile(between.join(units[:MIN_UNITS]))
        self._patterns: list[re.Pattern[str]] = []

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        if self._first.search(text) is None:
            return
        if not self._patterns:
            self._patterns.append(re.compile(self._between.join(self._units)))
            if self._cut_off:
                self._patterns.append(re.compile(self._first.pattern + self._cut_off))
        whole, *beginnings = self._patterns
        for pattern in (whole, *(beginnings if _CUT_MARK in text else ())):
            for match in pattern.finditer(text):
                yield match.span()


def _unlisted(items: Sequence[Any]) -> str:
    """Return the text that a list of units represents, a character for each; None if it is none."""
    try:
        if isinstance(items[0], int):
            return "".join(map(chr, items))
        sizes = set(map(len, items))
        text = "".join(items) if sizes <= {1, 2} else ""
        return (
            bytes.fromhex(text).decode("latin-1") if sizes == {2} else text if sizes == {1} else ""
        )
    except (TypeError, ValueError, OverflowError, IndexError):
        return ""


def _chunks(units: Units) -> Iterator[Units]:
    """Yield the units in chunks; the last one is longer where little is left."""
    count = max(round(len(units) / _CHUNK), 1) if len(units) >= MIN_UNITS else 0
    for number in range(min(count, _MAX_CHUNKS)):
        end = (number + 1) * _CHUNK if number < count - 1 else len(units)
        yield units[number * _CHUNK : end]


def _either_case(unit: str) -> str:
    """Return a pattern of a unit whose letters are small or capital."""
    return "".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in unit)
