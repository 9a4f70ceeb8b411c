"""What some bytes are, by their own beginnings: images, documents, archives."""

import struct

UNKNOWN = "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_EXTENDED_BYTES = 30
"""Of an extended WebP, up to the end of its size."""
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
"""JPEG markers that are followed by the size of the image."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers of a JPEG without a length."""


def sniff(content: bytes) -> str:
    """Return the type that the bytes show, or `application/octet-stream`."""
    for beginning, mime in _BEGINNINGS:
        if content.startswith(beginning):
            return mime
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return UNKNOWN


def dimensions(content: bytes) -> tuple[int, int] | None:
    """Return the width and height of an image of the four kinds, if they can be read."""
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


def _jpeg(content: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 4 <= len(content) and content[place] == _MARK:
        marker = content[place + 1]
        if marker == _MARK:
            place += 1
        elif marker in _BARE:
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
