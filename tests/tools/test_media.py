"""The type and size of bytes, and base64 that is taken out of outputs."""

import base64
import json
import struct
import time
from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.tools.media import SHOWN, Placeholders, dimensions, may_hold_base64, sniff

PNG_HEADER = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 3, 4)
JPEG_FRAME = (
    b"\xff\xd8\xff\xe0\x00\x04ab"  # a segment to pass over
    b"\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640)
)
WEBP = b"RIFF\x00\x00\x00\x00WEBP"
LOSSY = WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 640, 480)
LOSSLESS = WEBP + b"VP8L" + bytes(5) + struct.pack("<I", 639 | 479 << 14)
EXTENDED = WEBP + b"VP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("content", "mime", "size"),
    [
        (PNG_HEADER, "image/png", (640, 480)),
        (GIF, "image/gif", (3, 4)),
        (JPEG_FRAME, "image/jpeg", (640, 480)),
        (LOSSY, "image/webp", (640, 480)),
        (LOSSLESS, "image/webp", (640, 480)),
        (EXTENDED, "image/webp", (640, 480)),
        (b"%PDF-1.7", "application/pdf", None),
        (b"PK\x03\x04", "application/zip", None),
        (b"\x1f\x8b\x08", "application/gzip", None),
        (b"<svg onload=alert(1)>", "application/octet-stream", None),
        (b"", "application/octet-stream", None),
    ],
)
def test_a_media_type_is_recognized_by_the_first_bytes(
    content: bytes, mime: str, size: tuple[int, int] | None
) -> None:
    assert sniff(content) == mime
    assert dimensions(content) == size


@pytest.mark.parametrize("content", [PNG_HEADER, GIF, JPEG_FRAME, LOSSY, LOSSLESS, EXTENDED])
def test_a_truncated_image_raises_no_error(content: bytes) -> None:
    whole = dimensions(content)
    assert {dimensions(content[:length]) for length in range(len(content))} <= {None, whole}


def test_a_jpeg_with_endless_segments_is_read_to_its_end() -> None:
    assert dimensions(b"\xff\xd8\xff" + b"\xe0\x00\x00" + b"\xff\xe0\x00\x00" * 50) is None


@pytest.mark.parametrize("content", [PNG_HEADER, GIF, JPEG_FRAME, LOSSY, LOSSLESS, EXTENDED])
def test_bytes_after_the_header_do_not_change_the_type(content: bytes) -> None:
    assert dimensions(content + b"\xff" * 99) == dimensions(content)


SIZE = struct.pack(">HH", 480, 640)


@pytest.mark.parametrize(
    ("segments", "size"),
    [
        (b"\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xc2\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xff\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xd0\xff\x01\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xe0\x00\x02\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xe0\x00\x05abc\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xe0\x00\x00\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xc4\x00\x04ab\xff\xc0\x00\x11\x08" + SIZE, (640, 480)),
        (b"\xff\xc0\x00\x11\x08" + SIZE[:3], None),
        (b"\xff\xe0\x00\x02", None),
        (b"\xff\xe0\x00", None),
        (b"ab\xff\xc0\x00\x11\x08" + SIZE, None),
        (b"", None),
    ],
)
def test_the_segments_of_a_jpeg_are_passed_over_to_its_frame(
    segments: bytes, size: tuple[int, int] | None
) -> None:
    assert dimensions(b"\xff\xd8\xff" + segments[1:] if segments else b"\xff\xd8\xff") == size


BARE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(184)).decode()
JPEG = base64.urlsafe_b64encode(b"\xff\xd8\xff\xe0" + b"\xfb\xef\xbe" * 80).decode()
PDF = base64.b64encode(b"%PDF-1.7" + bytes(200)).decode()
SVG = base64.b64encode(b"<svg>" + bytes(251)).decode()
URL = f"data:image/png;base64,{BARE}"


def placed(size: int, mime: str) -> str:
    return f"[base64 data: {size} bytes, {mime}]"


def block(data: Any, kind: str = "image") -> dict[str, Any]:
    return {"type": kind, "data": data, "mimeType": "image/png"}


def replaced(value: Any, limits: Limits | None = None) -> Any:
    return Placeholders(limits or Limits()).replace(value)


def deep(value: Any) -> Any:
    return {"a": [{"b": [{"c": value}]}]}


def examples() -> dict[str, tuple[Any, Any]]:
    page = f"<img src='{URL}'> and <img src='{URL}'>."
    inner = json.dumps({"img": URL}).replace("/", "\\/")
    sibling = {"encoding": "base64", "content": "QUJD" * 64, "mimeType": "text/plain"}
    source = {"type": "base64", "media_type": "image/png", "data": BARE}
    return {
        "a whole string": (URL, SHOWN),
        "at depth 5": (deep(URL), deep(SHOWN)),
        "inside a longer string": (page, f"<img src='{SHOWN}'> and <img src='{SHOWN}'>."),
        "in JSON in a string": (inner, '{"img": "' + SHOWN + '"}'),
        "with parameters": (URL.replace(";", ";charset=x;name=a.png;", 1), SHOWN),
        "in capitals": (URL.replace("data:image/png;base64", "DATA:Image/PNG;Base64"), SHOWN),
        "base64url": ("data:image/jpeg;base64," + JPEG, SHOWN),
        "an image block": (block(BARE), block(SHOWN)),
        "an image block with a source": (
            {"type": "image", "source": source},
            {"type": "image", "source": source | {"data": SHOWN}},
        ),
        "bare PNG": (BARE, SHOWN),
        "bare with line breaks": ("\r\n".join([BARE[:100], BARE[100:], ""]), SHOWN),
        "bare PDF": (PDF, placed(208, "application/pdf")),
        "by its sibling": (sibling, sibling | {"content": placed(192, "text/plain")}),
        "SVG is no image here": (f"data:image/svg+xml;base64,{SVG}", placed(256, "image/svg+xml")),
        "bytes that are no PNG": (f"data:image/png;base64,{PDF}", placed(208, "image/png")),
        "what does not decode": ("data:image/png;base64," + "A" * 257, placed(192, "image/png")),
    }


@pytest.mark.parametrize(("value", "expected"), examples().values(), ids=examples())
def test_base64_data_is_replaced_by_a_placeholder(value: Any, expected: Any) -> None:
    """base64 images are replaced, at depth 5, in a JSON string."""
    assert may_hold_base64(json.dumps(value))
    assert replaced(value) == expected


def kept() -> dict[str, Any]:
    return {
        "keys": {URL: 1},
        "hex": "0123456789abcdef" * 100,
        "DNA": "GATTACA" * 100,
        "letters": "A" * 1000,
        "prose": "iVBORw0KGgo is how a PNG begins. " * 20,
        "a URL where data should be": block("https://example.com/" + "x" * 300),
        "no type": "data:;base64," + BARE[11:],
        "an image block without a type of its own": {"type": "image", "data": "QUJD" * 64},
        "a block whose type is no image": block("https://example.com/" + "x" * 300, "text"),
        "an image block whose data is no text": block(1),
        "numbers": [1, 2.5, None, True],
    }


@pytest.mark.parametrize("value", kept().values(), ids=kept())
def test_text_that_only_looks_like_base64_stays(value: Any) -> None:
    """Long strings that only look like base64 (letters, hex, DNA) stay."""
    assert replaced(value) is value


@pytest.mark.parametrize(("length", "taken"), [(255, False), (256, True)])
def test_short_base64_stays(length: int, taken: bool) -> None:
    """255 and 256 characters."""
    url = f"data:image/png;base64,{BARE[:length]}"
    assert (replaced(url) != url) is taken
    assert (replaced(BARE[:length]) != BARE[:length]) is taken


def test_sixteen_images_are_shown_and_sixteen_files_kept() -> None:
    placeholders = Placeholders(Limits())
    made = placeholders.replace([URL] * 40)
    assert made[:16] == [SHOWN] * 16
    assert made[16:] == [placed(192, "image/png")] * 24
    assert [found.is_image for found in placeholders.taken_out] == [True] * 16 + [False] * 16


def test_data_over_the_size_limit_is_not_kept() -> None:
    placeholders = Placeholders(Limits(image_bytes=191))
    assert placeholders.replace(URL) == placed(192, "image/png")
    assert placeholders.taken_out == []
    placeholders = Placeholders(Limits(image_bytes=192))
    assert placeholders.replace(URL) == SHOWN
    assert len(placeholders.taken_out) == 1


def test_a_media_type_that_the_bytes_contradict_is_not_stored() -> None:
    placeholders = Placeholders(Limits())
    placeholders.replace(f"data:image/png;base64,{PDF}")
    (found,) = placeholders.taken_out
    assert (found.mime, found.is_image) == ("application/octet-stream", False)


@pytest.mark.parametrize(
    "hostile",
    [
        "data:a/b;" * 100_000,
        "data:" * 200_000,
        "data:image/png;base64," * 50_000,
        ("A" * 255 + " ") * 4_000,
        ("data:a/" + "b" * 127 + ";") * 8_000,
        "\\/" * 500_000,
        "data:a/b;base64," + "\\" * 500_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_megabyte_of_hostile_text_is_read_in_half_a_second(hostile: str) -> None:
    began = time.process_time()
    may_hold_base64(hostile)
    replaced(hostile)
    assert time.process_time() - began < 0.5
