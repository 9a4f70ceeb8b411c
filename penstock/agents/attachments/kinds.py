"""The kind of a file by its bytes: an image, a PDF, sound or text.

Guarantees: the media type is what the bytes show, never what a name or a sender claims. A file that
is empty, cut off, or of no kind that a model could read raises ValueError, and so does an image of
more than `MAX_PIXELS`: such an image can be a small file, and needs much memory when it is decoded.
Nothing is decoded here. Every check reads the file once at most.

Proof: tests/agents/attachments/test_kinds.py.
"""

import re
import struct
from enum import StrEnum
from functools import cache
from mimetypes import MimeTypes

from msgspec import Struct

from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.models.image_rules import TEXT_TOKENS
from penstock.tools.media import IMAGES, dimensions, sniff

PDF = "application/pdf"
WAV = "audio/wav"
MP3 = "audio/mpeg"
PLAIN = "text/plain"
MAX_PIXELS = 64_000_000
"""An image with more is refused before it is decoded; at 4 bytes a pixel these are 256 MB."""
PAGE_TOKENS = 1500
"""About how many tokens a model reads a page of a PDF as."""
AUDIO_TOKENS = 32
"""About how many tokens a model reads a second of sound as."""

_PNG_END = b"IEND\xaeB`\x82"
_JPEG_END = b"\xff\xd9"
_SCAN = 0xDA
_MARK = 0xFF
_TAIL = 1024
"""A PDF has its last marker within so many bytes of its end."""
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_TEXTUAL = re.compile(
    r"text/[\w.+-]{1,100}|application/(?:[\w.+-]{1,100}\+)?(?:json|xml|yaml|toml)"
)
_MORE_TYPES = {".md": "text/markdown", ".yaml": "application/yaml", ".toml": "application/toml"}
"""Types that Python does not know everywhere."""
_MAX_CHUNKS = 64
"""Chunks of a WAV before its sound."""
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)
"""Sizes that recorders write if they do not know the length in advance."""
_MP3_RATES = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MP3_LOW_RATES = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
"""Kilobits per second of MPEG 1 and of MPEG 2, by their index."""
_MP3_SAMPLES = (44_100, 48_000, 32_000)
_LAYER_3 = 1


class FileKind(StrEnum):
    """The use that a model has for a file."""

    IMAGE = "image"
    PDF = "PDF"
    AUDIO = "audio"
    TEXT = "text"


class FileFacts(Struct, frozen=True, kw_only=True):
    """The type of a file and its measures, as its bytes show them."""

    kind: FileKind
    mime_type: str
    width: int | None = None
    height: int | None = None
    tokens: int | None = None
    """About how many tokens a model reads it as; None for an image, which depends on the model."""


EXPECTED = "expected PNG, JPEG, GIF or WebP, a PDF, WAV or MP3, or a text in UTF-8"


def kind_of(mime_type: str) -> FileKind | None:
    """Return the kind that a media type claims; None if it claims none that is checked."""
    mime_type = mime_type.partition(";")[0].strip().lower()
    if mime_type in IMAGES or mime_type == "image/jpg":
        return FileKind.IMAGE
    if mime_type == PDF:
        return FileKind.PDF
    if mime_type.startswith("audio/"):
        return FileKind.AUDIO
    return FileKind.TEXT if _TEXTUAL.fullmatch(mime_type) else None


def inspect(content: bytes, *, claimed: str | None = None, name: str | None = None) -> FileFacts:
    """Return what the bytes show.

    A text has the type that is claimed, or that its name suggests. Raises ValueError with the
    reason if the file cannot be accepted, also if the claimed type is of another kind.
    """
    if not content:
        raise ValueError("has 0 bytes")
    facts = _inspect(content, claimed, name)
    # Within a kind the bytes decide: a JPEG that is named .png is common, and harmless.
    wanted = kind_of(claimed) if claimed else None
    if wanted not in {None, facts.kind}:
        raise ValueError(f"is sent as {claimed}, but its bytes are {facts.mime_type}")
    return facts


def _inspect(content: bytes, claimed: str | None, name: str | None) -> FileFacts:
    mime_type = sniff(content)
    if mime_type in IMAGES:
        return _image(content, mime_type)
    if mime_type == PDF:
        return _pdf(content)
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return _wav(content)
    if (seconds := _mp3_seconds(content)) is not None:
        return _audio(MP3, seconds)
    if _is_text(content):
        tokens = min(len(content) // CHARACTERS_PER_TOKEN, TEXT_TOKENS)
        return FileFacts(kind=FileKind.TEXT, mime_type=_text_type(claimed, name), tokens=tokens)
    raise ValueError(f"is of an unknown type; {EXPECTED}")


# ---- images ----


def _image(content: bytes, mime_type: str) -> FileFacts:
    size = dimensions(content)
    if size is None or not all(size):
        raise ValueError(f"is broken: it begins like {mime_type} and has no size")
    width, height = size
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"has {width} x {height} pixels; at most {MAX_PIXELS:,} are accepted: scale it down"
        )
    if not _is_whole(content, mime_type):
        raise ValueError(f"is cut off: the end of the {mime_type} is missing")
    return FileFacts(kind=FileKind.IMAGE, mime_type=mime_type, width=width, height=height)


def _is_whole(content: bytes, mime_type: str) -> bool:
    match mime_type:
        case "image/png":
            # Not only at the end: some programs append their own data, and decoders ignore it.
            return _PNG_END in content
        case "image/jpeg":
            scan = _jpeg_scan(content)
            return scan is not None and content.rfind(_JPEG_END) > scan
        case "image/gif":
            # Some cameras and editors pad files with zeros.
            return content[-_TAIL:].rstrip(b"\x00").endswith(b";")
        case _:
            return int.from_bytes(content[4:8], "little") + 8 <= len(content)


def _jpeg_scan(content: bytes) -> int | None:
    """Return where the pixels begin. Before them, a preview in a segment has an end of its own."""
    place = 2
    while place + 4 <= len(content) and content[place] == _MARK:
        marker = content[place + 1]
        if marker == _SCAN:
            return place
        if marker == _MARK:
            place += 1
        else:
            place += 2 + max(int.from_bytes(content[place + 2 : place + 4], "big"), 2)
    return None


# ---- documents and texts ----


def _pdf(content: bytes) -> FileFacts:
    if b"%%EOF" not in content[-_TAIL:]:
        raise ValueError("is cut off: the end of the PDF is missing")
    # Pages inside compressed objects are not seen: the provider's own count corrects the estimate.
    pages = max(len(_PAGE.findall(content)), 1)
    return FileFacts(kind=FileKind.PDF, mime_type=PDF, tokens=pages * PAGE_TOKENS)


def _is_text(content: bytes) -> bool:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def _text_type(claimed: str | None, name: str | None) -> str:
    guessed = _types().guess_type(name, strict=True)[0] if name else None
    for each in (claimed, guessed):
        mime_type = (each or "").partition(";")[0].strip().lower()
        if _TEXTUAL.fullmatch(mime_type):
            return mime_type
    return PLAIN


@cache
def _types() -> MimeTypes:
    """Return media types by file name, the same on every machine."""
    types = MimeTypes(())
    for ending, mime_type in _MORE_TYPES.items():
        types.add_type(mime_type, ending)
    return types


# ---- sound ----


def _audio(mime_type: str, seconds: float) -> FileFacts:
    tokens = max(round(seconds * AUDIO_TOKENS), 1)
    return FileFacts(kind=FileKind.AUDIO, mime_type=mime_type, tokens=tokens)


def _wav(content: bytes) -> FileFacts:
    place, rate = 12, 0
    for _ in range(_MAX_CHUNKS):
        name, size = (
            content[place : place + 4],
            int.from_bytes(content[place + 4 : place + 8], "little"),
        )
        place += 8
        if name == b"fmt ":
            rate = int.from_bytes(content[place + 8 : place + 12], "little")
        elif name == b"data":
            left = len(content) - place
            if not rate or left <= 0:
                break
            if size > left and size not in _UNKNOWN_SIZES:
                raise ValueError(f"is cut off: it has {left} of its {size} bytes of sound")
            return _audio(WAV, left / rate)
        place += size + size % 2
        if place >= len(content):
            break
    raise ValueError("is broken: it begins like audio/wav and has no sound")


def _mp3_seconds(content: bytes) -> float | None:
    """Return the length of an MP3, by the rate of its first frame; None if it is none."""
    place = 0
    if content[:3] == b"ID3" and len(content) > 10:  # noqa: PLR2004  the header of a tag
        size = 0
        for byte in content[6:10]:
            size = size << 7 | byte & 0x7F
        place = 10 + size
        if place >= len(content):
            raise ValueError("is cut off: it begins like audio/mpeg and has no sound")
    frame = _mp3_frame(content, place)
    if frame is None:
        return None
    length, kilobits = frame
    end = place + length
    # A second frame where the first one ends: the head of one may be in any file.
    if end > len(content) or (end < len(content) and _mp3_frame(content, end) is None):
        return None
    return (len(content) - place) * 8 / (kilobits * 1000)


def _mp3_frame(content: bytes, place: int) -> tuple[int, int] | None:
    """Return the bytes and the kilobits per second of the frame at a place."""
    head = content[place : place + 4]
    if len(head) < struct.calcsize(">I") or head[0] != _MARK or head[1] & 0xE0 != 0xE0:  # noqa: PLR2004
        return None
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, sampling = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer != _LAYER_3 or rate in {0, 15} or sampling == len(_MP3_SAMPLES):
        return None
    is_first = version == 3  # noqa: PLR2004  MPEG 1; 2 is MPEG 2, and 0 is MPEG 2.5
    kilobits = (_MP3_RATES if is_first else _MP3_LOW_RATES)[rate]
    samples = _MP3_SAMPLES[sampling] >> (0 if is_first else 2 - (version == 2))  # noqa: PLR2004
    padding = head[2] >> 1 & 1
    return (144 if is_first else 72) * kilobits * 1000 // samples + padding, kilobits
