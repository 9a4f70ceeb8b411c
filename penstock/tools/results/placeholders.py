"""Replaces base64 in an output by a short text, and keeps the bytes as files."""

import base64
import binascii
import re
from typing import Any

from msgspec import Struct

from penstock.core.limits import Limits
from penstock.tools.results.media import IMAGES, UNKNOWN, sniff

SHOWN = "[image displayed above]"
SHORTEST = 256
"""Characters of base64 below which it stays where it is."""

_LONG_RUN = re.compile(
    r"(?:[A-Za-z0-9+/=_\\-]{0,255}+[^A-Za-z0-9+/=_\\-])*+[A-Za-z0-9+/=_\\-]{256}"
)
_DATA_URL = re.compile(
    r"data:([\w.+-]{1,127}+\\?/[\w.+-]{1,127}+)(?:;[^\s,;:/\\]*+)*?;base64,"
    r"((?:[A-Za-z0-9+/_-]++|\\/)++=*+)",
    re.IGNORECASE | re.ASCII,
)
_BARE = re.compile(r"[A-Za-z0-9+/_\r\n-]++=*+[\r\n]*+")
_BEGINNINGS = ("iVBORw0KGgo", "/9j/", "_9j_", "R0lGOD", "UklGR", "JVBERi0", "UEsDB", "H4sI")
_TYPE_KEYS = ("mimeType", "mime_type", "media_type")
_URL_SAFE = str.maketrans("-_", "+/")
_NO_BREAKS = str.maketrans("", "", "\r\n")


class FoundBytes(Struct, frozen=True):
    """Bytes that were taken out of an output."""

    content: bytes
    mime: str
    is_image: bool


def may_hold_base64(text: str) -> bool:
    """Whether JSON text has so long a run of base64 characters at all; costs one pass over it."""
    return len(text) >= SHORTEST and _LONG_RUN.match(text) is not None


class Placeholders:
    """Takes base64 out of one output, in its order; the first images of it are shown."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._images = 0
        self._files = 0
        self.found: list[FoundBytes] = []
        self.has_replaced = False

    def replace(self, value: Any) -> Any:
        """Return the value with placeholders; the same object where there is nothing to replace."""
        if isinstance(value, str):
            return self._in_text(value) if len(value) >= SHORTEST else value
        if isinstance(value, list):
            made = [self.replace(each) for each in value]
            return made if any(a is not b for a, b in zip(made, value, strict=True)) else value
        if isinstance(value, dict):
            return self._in_object(value)
        return value

    def of_bytes(self, value: Any, path: object) -> Any:
        """Return the placeholder of a value that is base64 by its schema, if it is long."""
        return self._placeholder(value, None) if _is_bare(value) else value

    def _in_object(self, value: dict[str, Any]) -> dict[str, Any]:
        block = _image_block(value)
        is_base64 = value.get("encoding") == "base64"
        made: dict[str, Any] = {}
        for key, each in value.items():
            if key == "data" and block is not None and _is_bare(each):
                made[key] = self._placeholder(each, block)
            elif is_base64 and _is_bare(each):
                made[key] = self._placeholder(each, _mime_of(value))
            else:
                made[key] = self.replace(each)
        return made if any(made[key] is not each for key, each in value.items()) else value

    def _in_text(self, text: str) -> str:
        if text.startswith(_BEGINNINGS) and _is_bare(text):
            return self._placeholder(text, None)
        return _DATA_URL.sub(self._in_url, text) if ";base64," in text.lower() else text

    def _in_url(self, match: re.Match[str]) -> str:
        payload = match.group(2).replace("\\/", "/")
        if len(payload) < SHORTEST:
            return match.group()
        return self._placeholder(payload, match.group(1).replace("\\", "").lower())

    def _placeholder(self, payload: str, mime: str | None) -> str:
        self.has_replaced = True
        content = _decode(payload)
        if content is None:
            return f"[base64 data: {len(payload) * 3 // 4} bytes, {mime or UNKNOWN}]"
        seen = sniff(content)
        mime = mime or seen
        fits = len(content) <= self._limits.image_bytes
        if fits and mime in IMAGES and mime == seen and self._images < self._limits.images:
            self._images += 1
            self.found.append(FoundBytes(content, mime, is_image=True))
            return SHOWN
        if fits and self._files < self._limits.images:
            self._files += 1
            verified = UNKNOWN if mime in IMAGES and mime != seen else mime
            self.found.append(FoundBytes(content, verified, is_image=False))
        return f"[base64 data: {len(content)} bytes, {mime}]"


def _image_block(value: dict[str, Any]) -> str | None:
    """Return the type of an image block, whose `data` is the image."""
    if value.get("type") in {"image", "base64"} and isinstance(value.get("data"), str):
        return _mime_of(value)
    return None


def _mime_of(value: dict[str, Any]) -> str | None:
    return next((value[key].lower() for key in _TYPE_KEYS if isinstance(value.get(key), str)), None)


def _is_bare(value: Any) -> bool:
    if not isinstance(value, str) or len(value) < SHORTEST:
        return False
    breaks = value.count("\n") + value.count("\r")
    return len(value) - breaks >= SHORTEST and _BARE.fullmatch(value) is not None


def _decode(payload: str) -> bytes | None:
    text = payload.translate(_NO_BREAKS).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
