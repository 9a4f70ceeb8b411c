"""What the vault gave out in a task, taken out of everything that is recorded or shown.

Every text that leaves a task passes here: outcomes, errors, events, questions, recorded inputs, and
the bytes that scripts read. Each secret is looked for in many spellings (`spellings`); what is
found is replaced by its name. Engines quote the beginning of what they could not read: that is
known by the words around it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import product, zip_longest
from types import MappingProxyType
from typing import Any

from penstock.resources.byte_lists import LEAST_UNITS, ByteLists
from penstock.resources.plain_form import PlainForm, is_plain, parts, spellings

LEAST_BYTES = 4
"""A shorter secret cannot be told from other text."""
_NONE: Mapping[str, str] = MappingProxyType({})
_APART = "\0"
_WIDE = ("utf-16-le", "utf-16-be")
_TOKEN, _NOT_JSON = "unexpected token: '", " is not valid JSON"
_LEAST_QUOTED = 3
_QUOTED = re.compile(
    r"unexpected token: '([^']{3,})'"
    r"|, (?:\.\.\.)?\"(.{3,40}?)\"(?:\.\.\.)? is not valid JSON",
    re.DOTALL,
)
"""How QuickJS and V8 quote a text that `JSON.parse` could not read."""
_CUT = 40
_QUOTED_START = re.compile(f"'([^'\\n]{{{_CUT},80}})")
"""How names and values are quoted that are cut: by QuickJS after 63 bytes, here after 79."""
_CUT_MARK, _LEAST_CUT = "…", 8
"""What ends a text that was cut, and how much of a secret before it is found."""
_MOST_CUT = 1000
"""So many places are looked at: in a text that repeats the beginning each would take long."""

Found = tuple[int, int, str]
"""Where a secret begins and ends, and its key."""


class Redactor:
    """The secrets that one task was given; before the first one it does nothing, at no cost."""

    __slots__ = ("_byte_lists", "_forms", "_least", "_values")

    def __init__(self) -> None:
        self._values: Mapping[str, str] = _NONE
        """The secrets, and their keys."""
        self._forms: Mapping[str, str] = _NONE
        """How a secret may be spelled, and its key."""
        self._byte_lists: tuple[tuple[ByteLists, str], ...] = ()
        self._least = 0
        """Characters of the shortest text in which something can be found."""

    @property
    def has_any(self) -> bool:
        """Whether anything was given out."""
        return bool(self._values)

    def add(self, key: str, value: str) -> None:
        """Take a secret out of everything from now on, however it is spelled."""
        if value in self._values or len(value.encode()) < LEAST_BYTES:
            return
        self._values = {**self._values, value: key}
        spelled = (*spellings(value), *parts(value))
        new = {each: key for each in spelled if len(each.encode("utf-8", "replace")) >= LEAST_BYTES}
        self._forms = {**new, **self._forms}
        self._byte_lists = (*self._byte_lists, (ByteLists(value), key))
        self._least = min(*map(len, self._forms), _LEAST_CUT)

    def text(self, text: str) -> str:
        """Return the text with `[secret:KEY]` for each secret in it."""
        if not self._values or len(text) < self._least:
            return text
        found = self._places(text)
        return _without(text, found) if found else text

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
        """Return JSON with no secret in it, at any depth; the same object if none was."""
        return self._clean(value) if self.holds_secret(value) else value

    def holds_secret(self, value: Any) -> bool:
        """Whether a secret is in a text of the JSON, or in a key of it."""
        if not self._values:
            return False
        if any(self._runs(each) for each in _lists(value)):
            return True
        # all texts are looked through at once: to look through each takes ten times as long
        whole = value if isinstance(value, str) else _APART.join(_texts(value))
        return len(whole) >= self._least and bool(self._places(whole))

    def _places(self, text: str) -> list[Found]:
        """Return where secrets are in a text, and which; in order, none inside another."""
        found = _apart(self._all_in(text))
        if is_plain(text):
            return found
        form = PlainForm(text)
        inside = list(self._all_in(form.text))
        if not inside or (_keys(inside) == _keys(found) and self._is_all(found, text)):
            return found
        place = form.origins()
        return _apart([*found, *((*place(start, end), key) for start, end, key in inside)])

    def _is_all(self, found: list[Found], text: str) -> bool:
        """Whether nothing is in the plain form of a text but what was found in the text itself.

        Then nobody has to work out where things came from, which takes longer than all the rest.
        """
        return next(self._all_in(PlainForm(_without(text, found)).text), None) is None

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
            for found in _QUOTED_START.finditer(text):
                for value, key in self._values.items():
                    length = _shared(found[1], value)
                    if length >= _CUT:
                        yield found.start(1), found.start(1) + length, key

    def _quoted(self, text: str) -> Iterator[Found]:
        """Yield what engines quote of secrets: V8 quotes what is around the mistake, cut anywhere.

        So a secret may begin in the middle of a quotation and end behind it, or the other way.
        """
        for found in _QUOTED.finditer(text):
            group = found.lastindex or 0
            quoted, (start, end) = found[group], found.span(group)
            for value, key in self._values.items():
                for length in range(len(quoted), _LEAST_QUOTED - 1, -1):
                    if quoted[-length:] in value:
                        yield end - length, end, key
                        break
                    if quoted[:length] in value:
                        yield start, start + length, key
                        break

    def _cut_off(self, text: str) -> Iterator[Found]:
        """Yield the beginnings of secrets at which a text was cut before it came here."""
        for form, key in self._forms.items():
            at = -1
            for _ in range(_MOST_CUT if len(form) > _LEAST_CUT else 0):
                if (at := text.find(form[:_LEAST_CUT], at + 1)) < 0:
                    break
                end = text.find(_CUT_MARK, at, at + len(form) + 1)
                if end >= 0 and form.startswith(text[at:end]):
                    yield at, end, key

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield where a form of a secret begins, and which: the longest where there are several.

        Where each begins next is kept: a text that is made for it would be read for ever else. To
        look for each in turn is seven times as fast as one pattern of all (`str.find`, measured).
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
        """Return where secrets are in a list of their units."""
        if len(items) < LEAST_UNITS:
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
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(text), len(other)))


def _texts_of(content: bytes) -> Iterator[str]:
    """Yield what bytes may say."""
    yield content.decode("utf-8", "surrogateescape")
    if b"\0" in content:
        for coding in _WIDE:
            yield content.decode(coding, "replace")


def _without(text: str, found: list[Found]) -> str:
    pieces, at = list[str](), 0
    for start, end, key in found:
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


def _keys(found: list[Found]) -> list[tuple[str, int]]:
    return [(key, end - start) for start, end, key in found]


def _apart(found: Iterable[Found]) -> list[Found]:
    """Return the places in order; those that overlap as one, with the name of the first."""
    apart: list[Found] = []
    for start, end, key in sorted(found, key=lambda each: (each[0], -each[1])):
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
