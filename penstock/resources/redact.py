"""What the vault gave out in a task, taken out of everything that is recorded or shown."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

LEAST_BYTES = 4
"""A shorter secret cannot be told from other text."""
_LEAST_OF_BASE64 = 6
"""Characters of a piece of base64 that does not stand in other text by chance."""


class Redactor:
    """The secrets that one task was given; before the first one it does nothing, at no cost."""

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    @property
    def has_any(self) -> bool:
        """Whether anything was given out."""
        return self._pattern is not None

    def add(self, key: str, value: str) -> None:
        """Take a secret out of everything from now on, however it is spelled."""
        if len(value.encode()) < LEAST_BYTES:
            return
        new = {form: key for form in _forms(value) if form not in self._forms}
        if not new:
            return
        self._forms.update(new)
        longest = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)))

    def text(self, text: str) -> str:
        """Return the text with `[secret:KEY]` for each secret in it."""
        if self._pattern is None:
            return text
        return self._pattern.sub(self._name, text)

    def json(self, value: Any) -> Any:
        """Return JSON with no secret in it, at any depth; the same object if none was."""
        return value if self._pattern is None else self._clean(value)

    def holds_secret(self, value: Any) -> bool:
        """Whether a secret stands in a text of the JSON, or in a key of it."""
        pattern = self._pattern
        return pattern is not None and any(map(pattern.search, _texts(value)))

    def _name(self, found: re.Match[str]) -> str:
        return f"[secret:{self._forms[found[0]]}]"

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
    """Yield what a secret may look like: as it is, in JSON, percent-encoded, in base64."""
    yield value
    for ascii_alone in (True, False):
        yield json.dumps(value, ensure_ascii=ascii_alone)[1:-1]
    for spelled in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield spelled
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), spelled)
    content = value.encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(content).decode().rstrip("=")
        yield from _pieces(content, encode)


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
