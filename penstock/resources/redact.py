"""Redaction of the secrets that a task received from the vault.

Every text that leaves a task passes through a Redactor: outcomes, errors, events, questions,
recorded inputs, and the bytes that scripts read. Each secret is searched in many spellings
(`plain_form.spellings`) and as lists of bytes (`byte_lists`), in the text and in the plain form of
the text. A hit is replaced by `[secret:KEY]`. JavaScript engines quote the beginning of what they
could not parse, cut anywhere; the words around such a quotation show where to look.

It relies on its callers: a text that is recorded without passing here is not redacted. It is a net
for mistakes and no wall, because a script can encode a secret in a form that is not searched.
Proof: tests/resources/test_redact.py, tests/journeys/test_secrets.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import product, zip_longest
from types import MappingProxyType
from typing import Any

from penstock.resources.byte_lists import MIN_UNITS, ByteLists
from penstock.resources.plain_form import PlainForm, is_plain, parts, spellings

MIN_BYTES = 4
"""A shorter secret would match unrelated text."""
_NONE: Mapping[str, str] = MappingProxyType({})
_APART = "\0"
_WIDE = ("utf-16-le", "utf-16-be")
_TOKEN, _NOT_JSON = "unexpected token: '", " is not valid JSON"
_MIN_QUOTED = 3
_QUOTED = re.compile(
    r"unexpected token: '([^']{3,})'"
    r"|, (?:\.\.\.)?\"(.{3,40}?)\"(?:\.\.\.)? is not valid JSON",
    re.DOTALL,
)
"""How QuickJS and V8 quote a text that `JSON.parse` could not read."""
_CUT = 40
_QUOTED_START = re.compile(f"'([^'\\n]{{{_CUT},80}})")
"""Quotations that are cut: QuickJS cuts names after 63 bytes, penstock after 79."""
_CUT_MARK, _MIN_CUT = "…", 8
"""The mark behind a text that was cut; the characters of a secret that must precede it."""
_MAX_CUT = 1000
"""Matches of a secret's beginning that are examined: a text can repeat it without end."""

Found = tuple[int, int, str]
"""Start, end and key of a secret in a text."""


class Redactor:
    """Replaces the secrets of one task. Without a secret it returns its input at once."""

    # Defaults of the class, all immutable: each caller of a tool has a redactor, and few receive a
    # secret. `add` replaces them. No struct: its repr would print the secrets.
    has_any = False
    """Whether the task received a secret."""
    _values: Mapping[str, str] = _NONE
    """Secret -> key."""
    _forms: Mapping[str, str] = _NONE
    """Spelling of a secret -> key."""
    _byte_lists: tuple[tuple[ByteLists, str], ...] = ()
    _least = 0
    """Length of the shortest text that can contain a hit, in characters."""

    def add(self, key: str, value: str) -> None:
        """Redact this secret from now on, in all its spellings. A very short one is ignored."""
        if value in self._values or len(value.encode()) < MIN_BYTES:
            return
        self.has_any = True
        self._values = {**self._values, value: key}
        spelled = (*spellings(value), *parts(value))
        new = {each: key for each in spelled if len(each.encode("utf-8", "replace")) >= MIN_BYTES}
        self._forms = {**new, **self._forms}
        self._byte_lists = (*self._byte_lists, (ByteLists(value), key))
        self._least = min(*map(len, self._forms), _MIN_CUT)

    def text(self, text: str) -> str:
        """Return the text with `[secret:KEY]` for each secret in it."""
        if not self._values or len(text) < self._least:
            return text
        hits = self._places(text)
        return _without(text, hits) if hits else text

    def bytes(self, content: bytes) -> bytes:
        """Return bytes with `[secret:KEY]` for each secret in them, as UTF-8 or as UTF-16."""
        if not self._values:
            return content
        if b"\0" in content:
            for (value, key), coding in product(self._values.items(), _WIDE):
                name = f"[secret:{key}]"
                content = content.replace(value.encode(coding), name.encode(coding))
        text = content.decode("utf-8", "surrogateescape")
        cleaned = self.text(text)
        return content if cleaned is text else cleaned.encode("utf-8", "surrogateescape")

    def json(self, value: Any) -> Any:
        """Return JSON without secrets at any depth; the same object if it had none."""
        return self._clean(value) if self.holds_secret(value) else value

    def holds_secret(self, value: Any) -> bool:
        """Whether a text or a key of the JSON contains a secret."""
        if not self._values:
            return False
        if any(self._runs(each) for each in _lists(value)):
            return True
        # one search over all texts joined: a search for each text takes ten times as long
        whole = value if isinstance(value, str) else _APART.join(_texts(value))
        return len(whole) >= self._least and bool(self._places(whole))

    def _places(self, text: str) -> list[Found]:
        """Return the hits in a text, in order, without overlaps."""
        hits = _apart(self._all_in(text))
        if is_plain(text):
            return hits
        form = PlainForm(text)
        inside = list(self._all_in(form.text))
        if not inside or (_keys(inside) == _keys(hits) and self._is_all(hits, text)):
            return hits
        place = form.origins()
        return _apart([*hits, *((*place(start, end), key) for start, end, key in inside)])

    def _is_all(self, hits: list[Found], text: str) -> bool:
        """Whether the plain form of a text has no hit that the text itself does not have.

        Then the way back from the plain form is not computed; it costs more than the search.
        """
        return next(self._all_in(PlainForm(_without(text, hits)).text), None) is None

    def _all_in(self, text: str) -> Iterator[Found]:
        for at, form in self._found(text):
            yield at, at + len(form), self._forms[form]
        for byte_lists, key in self._byte_lists:
            for start, end in byte_lists.places(text):
                yield start, end, key
        if _TOKEN in text or _NOT_JSON in text:
            yield from self._quoted(text)
        if _CUT_MARK in text:
            yield from self._cut_off(text)
        if "'" in text and any(len(value) > _CUT for value in self._values):
            for match in _QUOTED_START.finditer(text):
                for value, key in self._values.items():
                    length = _shared(match[1], value)
                    if length >= _CUT:
                        yield match.start(1), match.start(1) + length, key

    def _quoted(self, text: str) -> Iterator[Found]:
        """Yield parts of secrets that an engine quotes in an error of `JSON.parse`.

        V8 quotes the text around the error, cut anywhere, so a secret may begin before the
        quotation or end after it.
        """
        for match in _QUOTED.finditer(text):
            group = match.lastindex or 0
            quoted, (start, end) = match[group], match.span(group)
            for value, key in self._values.items():
                for length in range(len(quoted), _MIN_QUOTED - 1, -1):
                    if quoted[-length:] in value:
                        yield end - length, end, key
                        break
                    if quoted[:length] in value:
                        yield start, start + length, key
                        break

    def _cut_off(self, text: str) -> Iterator[Found]:
        """Yield the beginnings of secrets at the end of a text that was cut before redaction."""
        for form, key in self._forms.items():
            at = -1
            for _ in range(_MAX_CUT if len(form) > _MIN_CUT else 0):
                if (at := text.find(form[:_MIN_CUT], at + 1)) < 0:
                    break
                end = text.find(_CUT_MARK, at, at + len(form) + 1)
                if end >= 0 and form.startswith(text[at:end]):
                    yield at, end, key

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield each place where a spelling begins, and the longest spelling there.

        A heap holds the next place of each spelling; without it, a text made of near misses would
        be searched again from every hit. One `str.find` per spelling is seven times as fast as one
        regular expression of all spellings (measured).
        """
        ahead = [(text.find(form), -len(form), form) for form in self._forms]
        ahead = [each for each in ahead if each[0] >= 0]
        heapify(ahead)
        end = 0
        while ahead:
            at, length, form = heappop(ahead)
            if at >= end:
                yield at, form
                end = at + len(form)
            if (again := text.find(form, end)) >= 0:
                heappush(ahead, (again, length, form))

    def _runs(self, items: Sequence[Any]) -> list[Found]:
        """Return the hits in a list of bytes or characters."""
        if len(items) < MIN_UNITS:
            return []
        return _apart(
            (start, end, key)
            for byte_lists, key in self._byte_lists
            for start, end in byte_lists.runs(items)
        )

    def _clean(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.bytes(value)
            case dict():
                return self._clean_object(value)
            case list() | tuple():
                return self._clean_list(value)
            case _:
                return value

    def _clean_object(self, value: dict[Any, Any]) -> dict[Any, Any]:
        pairs = [*value.items()]
        for start, end, key in reversed(self._runs([*value.values()])):
            pairs[start:end] = [(pairs[start][0], f"[secret:{key}]")]
        cleaned = {self.text(name): self._clean(each) for name, each in pairs}
        return value if _is_same(cleaned, value) else cleaned

    def _clean_list(self, value: Sequence[Any]) -> Sequence[Any]:
        items = [*value]
        for start, end, key in reversed(self._runs(value)):
            items[start:end] = [f"[secret:{key}]"]
        items = [self._clean(each) for each in items]
        same = all(new is old for new, old in zip_longest(items, value))
        return value if same else items


def _shared(text: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(text), len(other)))


def _texts_of(content: bytes) -> Iterator[str]:
    """Yield the texts that bytes may encode: UTF-8, and UTF-16 if they contain NUL."""
    yield content.decode("utf-8", "surrogateescape")
    if b"\0" in content:
        for coding in _WIDE:
            yield content.decode(coding, "replace")


def _without(text: str, hits: list[Found]) -> str:
    pieces, at = list[str](), 0
    for start, end, key in hits:
        pieces += (text[at:start], f"[secret:{key}]")
        at = end
    return "".join([*pieces, text[at:]])


def _lists(value: Any) -> Iterator[Sequence[Any]]:
    """Yield every list in JSON, and the values of every object."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            each = [*each.values()]
        if isinstance(each, list | tuple):
            yield each
            waiting += each


def _keys(hits: list[Found]) -> list[tuple[str, int]]:
    return [(key, end - start) for start, end, key in hits]


def _apart(hits: Iterable[Found]) -> list[Found]:
    """Return the hits in order; overlapping hits become one, with the key of the first."""
    apart: list[Found] = []
    for start, end, key in sorted(hits, key=lambda each: (each[0], -each[1])):
        if apart and start < apart[-1][1]:
            first, over, name = apart[-1]
            apart[-1] = (first, max(over, end), name)
        else:
            apart.append((start, end, key))
    return apart


def _is_same(cleaned: dict[str, Any], value: dict[str, Any]) -> bool:
    return cleaned.keys() == value.keys() and all(cleaned[name] is value[name] for name in value)


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, bytes):
            yield from _texts_of(each)
        elif isinstance(each, dict):
            waiting += (*each, *each.values())
        elif isinstance(each, list | tuple):
            waiting += each
