"""What the vault gave out in a task, taken out of everything that is recorded or shown."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, quote_plus

LEAST_BYTES = 4
"""A shorter secret cannot be told from other text."""
_LONG = 128
"""Characters of a form that is in no pattern: to compile a large one takes seconds."""
_NOTHING = "(?!)"
_NO_FORMS: Mapping[str, str] = MappingProxyType({})
_LEAST_OF_BASE64 = 6
"""Characters of a piece of base64 that does not stand in other text by chance."""
_ASCII, _LATIN = 0x80, 0x100
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_KEPT = (";,/?:@&=+$-_.!~*'()#", "-_.!~*'()")
"""What `encodeURI` and `encodeURIComponent` leave as it is."""
_QUERY = ' "#<>'
_PATH = _QUERY + "?`{}"
_ENCODED = (
    *(_QUERY, _QUERY + "'", _PATH, _PATH + "^", ' "<>`'),
    *(_PATH + "/:;=@[\\]|", _PATH + "^/:;=@[\\]|"),
)
"""What a URL encodes: in its query, its path, its fragment, its user and password."""
_STRIPPED = re.compile("[\\t\\r\\n]")
_PERCENT = re.compile("%u?[0-9A-F]{2,4}")


class Redactor:
    """The secrets that one task was given; before the first one it does nothing, at no cost."""

    __slots__ = ("_added", "_forms", "_long", "_pattern")

    def __init__(self) -> None:
        self._added: frozenset[str] = frozenset()
        self._forms: Mapping[str, str] = _NO_FORMS
        """How a secret may be spelled, and its key."""
        self._long: tuple[str, ...] = ()
        """The forms that are looked for one by one; all others are in the pattern."""
        self._pattern: re.Pattern[str] | None = None

    @property
    def has_any(self) -> bool:
        """Whether anything was given out."""
        return self._pattern is not None

    def add(self, key: str, value: str) -> None:
        """Take a secret out of everything from now on, however it is spelled."""
        if value in self._added or len(value.encode()) < LEAST_BYTES:
            return
        self._added |= {value}
        long = (form for form in _forms(value) if len(form.encode()) >= LEAST_BYTES)
        new = {form: key for form in long if form not in self._forms}
        if not new:
            return
        self._forms = {**self._forms, **new}
        longest = sorted(self._forms, key=len, reverse=True)
        self._long = tuple([form for form in longest if len(form) > _LONG])
        short = map(re.escape, longest[len(self._long) :])
        self._pattern = re.compile("|".join(short) or _NOTHING)

    def text(self, text: str) -> str:
        """Return the text with `[secret:KEY]` for each secret in it."""
        if self._pattern is None:
            return text
        if len(text) <= _LONG or not self._long:
            return self._pattern.sub(lambda found: self._name(found[0]), text)
        pieces: list[str] = []
        end = 0
        for at, form in self._found(text):
            pieces += (text[end:at], self._name(form))
            end = at + len(form)
        return "".join([*pieces, text[end:]]) if pieces else text

    def json(self, value: Any) -> Any:
        """Return JSON with no secret in it, at any depth; the same object if none was."""
        return value if self._pattern is None else self._clean(value)

    def holds_secret(self, value: Any) -> bool:
        """Whether a secret stands in a text of the JSON, or in a key of it."""
        if self._pattern is None:
            return False
        return any(next(self._found(text), None) for text in _texts(value))

    def _name(self, form: str) -> str:
        return f"[secret:{self._forms[form]}]"

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield where a form of a secret stands, and which: the longest where there are several.

        Where each stands next is kept: a text that is made for it would be read for ever else.
        """
        assert self._pattern is not None  # noqa: S101  else nothing is looked for
        at, end = 0, len(text)
        short: re.Match[str] | None = None
        ahead = dict.fromkeys(self._long if end > _LONG else (), -1)
        next_short = -1
        while at < end:
            if next_short < at:
                short = self._pattern.search(text, at)
                next_short = short.start() if short else end
            start, form = next_short, short[0] if short else ""
            for each in ahead:
                if ahead[each] < at:
                    found = text.find(each, at)
                    ahead[each] = end if found < 0 else found
                if (ahead[each], -len(each)) < (start, -len(form)):
                    start, form = ahead[each], each
            if start < end:
                yield start, form
            at = start + len(form)

    def _clean(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                cleaned = {self.text(name): self._clean(each) for name, each in value.items()}
                return value if _is_same(cleaned, value) else cleaned
            case list() | tuple():
                items = [self._clean(each) for each in value]
                same = all(new is old for new, old in zip(items, value, strict=True))
                return value if same else items
            case _:
                return value


def _is_same(cleaned: dict[str, Any], value: dict[str, Any]) -> bool:
    return cleaned.keys() == value.keys() and all(cleaned[name] is value[name] for name in value)


def _forms(value: str) -> Iterator[str]:
    """Yield what a secret may look like: as it is, in JSON, in addresses, in base64."""
    yield value
    for ascii_alone in (True, False):
        yield json.dumps(value, ensure_ascii=ascii_alone)[1:-1]
    yield from _in_hosts(value)
    for spelled in _in_addresses(value):
        yield spelled
        yield _PERCENT.sub(lambda found: found[0].lower(), spelled)
    for content in _contents(value):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(content).decode().rstrip("=")
            yield from _pieces(content, encode)


def _contents(value: str) -> Iterator[bytes]:
    """Yield the bytes of a secret: in UTF-8, and a byte for each character, as `btoa` takes it."""
    yield value.encode()
    if not value.isascii():
        with suppress(UnicodeEncodeError):
            yield value.encode("latin-1")


def _in_hosts(value: str) -> Iterator[str]:
    """Yield what a host shows of a secret, which has no capitals."""
    yield value.lower()
    try:
        yield value.lower().encode("idna").decode()
    except UnicodeError:
        return


def _in_addresses(value: str) -> Iterator[str]:
    """Yield a secret as the ways to write it into an address spell it."""
    for safe in ("", "/", *_KEPT):
        yield quote(value, safe=safe)
    yield quote_plus(value)
    yield quote_plus(value, safe="*").replace("~", "%7E")  # as URLSearchParams
    bare = _STRIPPED.sub("", value)  # as URL, which passes over these
    for left in _ENCODED:
        safe = "".join(each for each in _PRINTABLE if each not in left)
        yield quote(bare, safe=safe)
        yield quote(bare.replace("\\", "/"), safe=safe)
    yield "".join(map(_escaped, _units(value)))


def _units(text: str) -> list[int]:
    """Return the UTF-16 units of a text."""
    content = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(content[at : at + 2], "big") for at in range(0, len(content), 2)]


def _escaped(unit: int) -> str:
    """Return a unit as `escape` of JavaScript writes it."""
    if unit < _ASCII and (chr(unit).isalnum() or chr(unit) in "@*_+-./"):
        return chr(unit)
    return f"%{unit:02X}" if unit < _LATIN else f"%u{unit:04X}"


def _pieces(content: bytes, encode: Any) -> Iterator[str]:
    """Yield what of its base64 stands wherever the secret is a part of what was encoded."""
    for before in range(3):
        whole = encode(bytes(before) + content).decode()
        piece = whole[-(-before * 8 // 6) : (before + len(content)) * 8 // 6]
        if len(piece) >= _LEAST_OF_BASE64:
            yield piece


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += (*each, *each.values())
        elif isinstance(each, list | tuple):
            waiting += each
