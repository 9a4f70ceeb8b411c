"""What some bytes are, by their own beginnings."""

import struct

import pytest

from penstock.tools.results.media import dimensions, sniff

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 3, 4)
JPEG = (
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
        (PNG, "image/png", (640, 480)),
        (GIF, "image/gif", (3, 4)),
        (JPEG, "image/jpeg", (640, 480)),
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
def test_known_beginnings(content: bytes, mime: str, size: tuple[int, int] | None) -> None:
    assert sniff(content) == mime
    assert dimensions(content) == size


@pytest.mark.parametrize("content", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_an_image_that_is_cut_anywhere_breaks_nothing(content: bytes) -> None:
    whole = dimensions(content)
    assert {dimensions(content[:length]) for length in range(len(content))} <= {None, whole}


def test_a_jpeg_of_segments_that_go_nowhere_ends() -> None:
    assert dimensions(b"\xff\xd8\xff" + b"\xe0\x00\x00" + b"\xff\xe0\x00\x00" * 50) is None


@pytest.mark.parametrize("content", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_the_picture_behind_its_beginning_changes_nothing(content: bytes) -> None:
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
