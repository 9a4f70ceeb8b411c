"""Media in outputs: the type and size of bytes, and placeholders for base64.

In what a model reads, long base64 is replaced by a placeholder before the text is clipped. Up to 16
images and 16 other files of one result are taken out for people, each at most `limits.image_bytes`;
of the rest only the placeholder remains. Bytes that are not the image they claim to be get an
unknown type. The patterns use possessive quantifiers, so that hostile text is read in linear time.
Proof: tests/tools/test_media.py.
"""

import base64
import binascii
import re
import struct
from typing import Any

from msgspec import Struct

from penstock.core.limits import Limits

UNKNOWN = "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_EXTENDED_BYTES = 30
"""Bytes of an extended WebP up to the end of its size."""
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_MARK = 0xFF
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG markers whose segment has the size of the image."""
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""

MAX_IMAGES = 16
"""Most images, and most other files, that are kept of one result."""
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
_BASE64_BEGINNINGS = ("iVBORw0KGgo", "/9j/", "_9j_", "R0lGOD", "UklGR", "JVBERi0", "UEsDB", "H4sI")
_TYPE_KEYS = ("mimeType", "mime_type", "media_type")
_URL_SAFE = str.maketrans("-_", "+/")
_NO_BREAKS = str.maketrans("", "", "\r\n")


def sniff(content: bytes) -> str:
    """Return the media type that the first bytes show, or `application/octet-stream`."""
    for beginning, mime in _BEGINNINGS:
        if content.startswith(beginning):
            return mime
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return UNKNOWN


def dimensions(content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, GIF or WebP, or None if they cannot be read."""
    try:
        match sniff(content):
            case "image/png" if content[12:16] == b"IHDR":
                width, height = struct.unpack(">II", content[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", content[6:10])
            case "image/jpeg":
                return _jpeg(content)
            case "image/webp":
                return _webp(content)
            case _:
                return None
    except (struct.error, IndexError):
        return None
    return width, height


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
        self.taken_out: list[FoundBytes] = []
        self.has_replaced = False

    def replace(self, value: Any) -> Any:
        """Return the value with placeholders; the same object if nothing was replaced."""
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
        for key, member in value.items():
            if key == "data" and block is not None and _is_bare(member):
                made[key] = self._placeholder(member, block)
            elif is_base64 and _is_bare(member):
                made[key] = self._placeholder(member, _mime_of(value))
            else:
                made[key] = self.replace(member)
        return made if any(made[key] is not each for key, each in value.items()) else value

    def _in_text(self, text: str) -> str:
        if text.startswith(_BASE64_BEGINNINGS) and _is_bare(text):
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
        if fits and mime in IMAGES and mime == seen and self._images < MAX_IMAGES:
            self._images += 1
            self.taken_out.append(FoundBytes(content, mime, is_image=True))
            return SHOWN
        if fits and self._files < MAX_IMAGES:
            self._files += 1
            verified = UNKNOWN if mime in IMAGES and mime != seen else mime
            self.taken_out.append(FoundBytes(content, verified, is_image=False))
        return f"[base64 data: {len(content)} bytes, {mime}]"


def _jpeg(content: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 4 <= len(content) and content[place] == _MARK:
        marker = content[place + 1]
        if marker == _MARK:
            place += 1
        elif marker in _WITHOUT_LENGTH:
            place += 2
        elif marker in _FRAMES:
            height, width = struct.unpack(">HH", content[place + 5 : place + 9])
            return width, height
        else:
            place += 2 + max(struct.unpack(">H", content[place + 2 : place + 4])[0], 2)
    return None


def _webp(content: bytes) -> tuple[int, int] | None:
    match content[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", content[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack("<I", content[21:25])[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(content) >= _EXTENDED_BYTES:
            width = int.from_bytes(content[24:27], "little") + 1
            return width, int.from_bytes(content[27:30], "little") + 1
        case _:
            return None


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
