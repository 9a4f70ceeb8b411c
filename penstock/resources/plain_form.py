r"""The spellings of a secret that are searched, and the plain form of the text that is searched.

The plain form of a text has percent and HTML escapes decoded (up to three layers), `\u` escapes as
characters, and no backslashes or line breaks. JSON inside JSON at any depth, base64 with line
breaks, and `%63%41` become the text that they encode. Computing it takes a few passes, each linear
in the text. The way back to the original characters is computed only after a hit.

This is a net under the rules of egress and no wall: a script that has a secret can encode it in a
form that is not searched. `docs/vault.md` lists the forms that are found;
tests/resources/test_plain_form.py has a table of spellings and places.
"""

import base64
import html
import json
import quopri
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from penstock.core.json_values.json_text import parse_json

MIN_PART_LENGTH = 16
"""Minimum length of a line, or of a text in a JSON object, that is searched by itself."""
MAX_PARTS = 100
"""Maximum number of parts of one secret that are searched by themselves."""
_MIN_BASE64_LENGTH = 6
"""Minimum length of a piece of base64: a shorter one matches unrelated text."""
_LAYERS = 3
_ODD = re.compile(r"[%&\\\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_PERCENT = re.compile(r"(?:%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}))+")
_UNIT = re.compile("%u(....)|%(..)")
_QUICK = re.compile(r"%[%0-9A-Fa-f]+")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});")
_CODE = re.compile(r"(?<!\\)\\+(?:u00|x|u\{0{0,4})([0-7][0-9A-Fa-f])\}?")
"""ASCII in JSON at any depth: each layer doubles the backslashes. All of them go with the escape:
one that is left would make another escape with the character, such as `\\t` of a letter t. The
look-behind keeps a long run of backslashes linear. Other characters keep the digits of their
escapes: few secrets have any, many texts do."""
_ESCAPES = {
    escape: (re.compile(re.escape(escape)), character)
    for escape, character in (
        (r"\n", "\n"),
        (r"\r", "\n"),
        (r"\f", "\n"),
        (r"\b", "\n"),
        (r"\t", "\t"),
        ("\\", ""),
    )
}
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
"""The line breaks of `str.splitlines`, with the white space after them."""
_UNICODE = re.compile(r"u([0-9a-f]{4})")
_NO_PART = re.compile(r"-----|://|@|\s")

Decode = Callable[[re.Match[str]], str] | str
Place = Callable[[int, int], tuple[int, int]]
"""Maps start and end in the plain form to start and end in the source."""


class PlainForm:
    """A text without escapes and line breaks; `origins` maps its places to the source."""

    __slots__ = ("_steps", "text")

    def __init__(self, source: str) -> None:
        self.text = source
        self._steps: list[tuple[str, re.Pattern[str], Decode]] = []
        for _ in range(_LAYERS):
            before = self.text
            if "%" in before:
                self._step(_PERCENT, _percent, _unquoted(before))
            if "&" in before:
                self._take(_ENTITY, _entity)
            if self.text == before:
                break
        if "\\" in self.text:
            self._take(_CODE, _code)
            for escape, (pattern, character) in _ESCAPES.items():
                self._step(pattern, character, self.text.replace(escape, character))
        lines = self.text.splitlines()
        if lines:
            self._step(_BREAK, "", "".join([lines[0], *map(str.lstrip, lines[1:])]))

    def origins(self) -> Place:
        """Return a function from a place in the plain form to its place in the source."""
        steps = [_origins(*step) for step in reversed(self._steps)]

        def place(start: int, end: int) -> tuple[int, int]:
            for begins, sources in steps:
                first = bisect_right(begins, start) - 1
                last = bisect_right(begins, end - 1) - 1
                into, over = start - begins[first], end - begins[last]
                start = sources[first] + (into if _is_same(begins, sources, first) else 0)
                end = sources[last] + over
                if not _is_same(begins, sources, last):
                    end = sources[last + 1]
            return start, end

        return place

    def _take(self, pattern: re.Pattern[str], decode: Decode) -> None:
        self._step(pattern, decode, pattern.sub(decode, self.text))

    def _step(self, pattern: re.Pattern[str], decode: Decode, outcome: str) -> None:
        """Record a pass that changed the text."""
        if outcome != self.text:
            self._steps.append((self.text, pattern, decode))
            self.text = outcome


def is_plain(text: str) -> bool:
    """Whether a text equals its plain form; nearly all short texts do."""
    return _ODD.search(text) is None


def spellings(value: str) -> Iterator[str]:
    """Yield the spellings of a secret, for a search in a text and in its plain form."""
    plain = PlainForm(value).text
    for spelled in dict.fromkeys((value, plain, plain.replace("\t", ""), *_coded(value))):
        yield spelled
        yield spelled.lower()  # as a host, which has no capitals
        yield spelled.upper()
        yield spelled.replace(" ", "+")  # as a form
        yield spelled.replace("\\", "/")  # as the path of a URL
    with suppress(UnicodeError):
        yield value.lower().encode("idna").decode()
    yield quopri.encodestring(plain.encode("utf-8", "replace")).decode().replace("=\n", "")
    for content in _contents(value):
        yield content.hex()
        yield content.hex().upper()
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(content).decode().rstrip("=")
            yield from _pieces(content, encode)
    for piece in _pieces(value.encode(), base64.b64encode):
        yield from _pieces(piece.encode(), base64.b64encode)  # as in the file of Docker's logins
    yield base64.b32encode(value.encode()).decode().rstrip("=")


def parts(value: str) -> Iterator[str]:
    """Yield at most `MAX_PARTS` parts of a secret that are secret by themselves.

    These are the lines of a text of several lines, and the texts in a JSON object, except those
    that are short, contain spaces or are an address.
    """
    waiting, left = [value], MAX_PARTS
    while waiting and left:
        each = waiting.pop()
        if each.lstrip()[:1] in {"{", "["}:
            with suppress(ValueError, RecursionError):
                waiting += _texts_in(parse_json(each))
                continue
        for line in map(str.strip, each.splitlines()[:left]):
            if len(line) >= MIN_PART_LENGTH and line != value and not _NO_PART.search(line):
                left -= 1
                yield line


def _texts_in(value: Any) -> list[str]:
    texts, waiting = [], [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            texts.append(each)
        elif isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return texts


def _coded(value: str) -> Iterator[str]:
    """Yield the plain form of a secret in JSON that is all ASCII."""
    if not value.isascii():
        spelled = json.dumps(value)[1:-1]
        for spelling in (
            spelled,
            _UNICODE.sub(lambda code: "u" + code[0][1:].upper(), spelled),
        ):
            yield PlainForm(spelling).text


def _contents(value: str) -> set[bytes]:
    """Return the bytes of a secret in UTF-8, UTF-16, Latin-1 and as JSON text."""
    in_json = (json.dumps(value, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    encoded = {value.encode(), *(each.encode() for each in in_json)}
    encoded.add(value.encode("utf-16-le"))
    with suppress(UnicodeEncodeError):
        encoded.add(value.encode("latin-1"))
    return encoded


def _pieces(content: bytes, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """Yield the base64 characters that the secret determines, at each of three alignments."""
    for before in range(3):
        whole = encode(bytes(before) + content).decode()
        piece = whole[-(-before * 8 // 6) : (before + len(content)) * 8 // 6]
        if len(piece) >= _MIN_BASE64_LENGTH:
            yield piece


# ---- the plain form ----


def _unquoted(text: str) -> str:
    """Decode percent escapes. The quick pattern finds a long run of them 50 times as fast."""
    return _PERCENT.sub(_percent, text) if "%u" in text else _QUICK.sub(_quickly, text)


def _quickly(match: re.Match[str]) -> str:
    run = match[0]
    if len(run) == 3 * run.count("%") and not run[::3].strip("%"):
        return _percent(match)
    return _PERCENT.sub(_percent, run)


def _percent(match: re.Match[str]) -> str:
    """Decode percent escapes: UTF-8, else a byte for each character, and those of `escape`."""
    escapes = match[0]
    if "u" in escapes:
        units = _UNIT.sub(_unit, escapes)
        return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    content = bytes.fromhex(escapes.replace("%", ""))
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _unit(match: re.Match[str]) -> str:
    return chr(int(match[1] or match[2], 16))


def _entity(match: re.Match[str]) -> str:
    return html.unescape(match[0])


def _code(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _origins(source: str, pattern: re.Pattern[str], decode: Decode) -> tuple[list[int], list[int]]:
    """Return where pieces begin in the result of a pass, and where in its source."""
    begins, sources = [0], [0]

    def add(outcome: int, length: int) -> None:
        begins.append(begins[-1] + outcome)
        sources.append(sources[-1] + length)

    for match in pattern.finditer(source):
        same = match.start() - sources[-1]
        add(same, same)
        for outcome, length in _widths(
            match[0], match.expand(decode) if isinstance(decode, str) else decode(match)
        ):
            add(outcome, length)
    add(len(source) - sources[-1], len(source) - sources[-1])
    return begins, sources


def _widths(escapes: str, outcome: str) -> list[tuple[int, int]]:
    """Return pairs of lengths: decoded characters, and the escapes they come from.

    A percent run gives one pair for each character, any other escape one pair in all.
    """
    if escapes[0] != "%" or "u" in escapes:
        return [(len(outcome), len(escapes))]
    if 3 * len(outcome) == len(escapes):
        return [(1, 3)] * len(outcome)
    return [(1, 3 * len(each.encode())) for each in outcome]


def _is_same(begins: list[int], sources: list[int], number: int) -> bool:
    """Whether a pass left a piece unchanged."""
    return begins[number + 1] - begins[number] == sources[number + 1] - sources[number]
