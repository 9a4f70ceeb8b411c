"""Files by their bytes: every kind, and the hostile and broken ones."""

import re

import pytest

from penstock.agents.attachments.kinds import FileKind, inspect, kind_of
from tests.kit import sample_files

PNG, JPEG = sample_files.image(), sample_files.image("JPEG")
GIF, WEBP = sample_files.image("GIF"), sample_files.image("WEBP")


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_an_image_is_known_by_its_bytes_with_its_size(content: bytes, mime_type: str) -> None:
    facts = inspect(content, claimed="image/png", name="a.bmp")
    assert (facts.kind, facts.mime_type) == (FileKind.IMAGE, mime_type)
    assert (facts.width, facts.height, facts.tokens) == (4, 2, None)


@pytest.mark.parametrize(
    ("content", "mime_type", "tokens"),
    [
        (sample_files.wav(10), "audio/wav", 320),
        (sample_files.mp3(383), "audio/mpeg", 319),
        (sample_files.mp3(383, tag=True), "audio/mpeg", 319),
        (sample_files.pdf("one"), "application/pdf", 1500),
        (sample_files.pdf("one", "two"), "application/pdf", 3000),
        (b"x" * 400, "text/plain", 100),
    ],
)
def test_tokens_are_estimated_from_pages_seconds_and_characters(
    content: bytes, mime_type: str, tokens: int
) -> None:
    facts = inspect(content)
    assert (facts.mime_type, facts.tokens) == (mime_type, tokens)


@pytest.mark.parametrize(
    ("claimed", "name", "mime_type"),
    [
        (None, None, "text/plain"),
        (None, "a.csv", "text/csv"),
        (None, "A.MD", "text/markdown"),
        ("text/html; charset=utf-8", "a.csv", "text/html"),
        ("application/json", None, "application/json"),
        ("application/octet-stream", "a.json", "application/json"),
        ("image/svg+xml", "a.svg", "text/plain"),
        ("text/x\nInjected: yes", None, "text/plain"),
    ],
)
def test_a_text_has_the_type_that_is_claimed_or_named(
    claimed: str | None, name: str | None, mime_type: str
) -> None:
    facts = inspect(b"\xef\xbb\xbfa,b\n\t1,2\r\n", claimed=claimed, name=name)
    assert (facts.kind, facts.mime_type) == (FileKind.TEXT, mime_type)


BROKEN = [
    (b"", "has 0 bytes"),
    (b"\x00\x01\x02", "is of an unknown type; expected PNG, JPEG, GIF or WebP, a PDF, WAV or MP3"),
    (b"PK\x03\x04" + bytes(30), "is of an unknown type"),
    ("grüße".encode("latin-1"), "is of an unknown type"),
    (b"\xff\xfea\x00b\x00", "is of an unknown type"),
    (PNG[:-20], "is cut off: the end of the image/png is missing"),
    (PNG[:12], "is broken: it begins like image/png and has no size"),
    (JPEG[:-20], "is cut off"),
    (JPEG[:4], "is broken"),
    (GIF[:-3], "is cut off"),
    (GIF[:6], "is broken"),
    (WEBP[:-10], "is cut off"),
    (sample_files.image("JPEG", exif=b"Exif\x00\x00" + JPEG)[:-20], "is cut off"),
    (b"\x89PNG\r\n\x1a\n" + bytes(30), "is broken"),
    (sample_files.bomb(), "has 60000 x 60000 pixels; at most 64,000,000 are accepted"),
    (sample_files.pdf("one")[:-40], "is cut off: the end of the PDF is missing"),
    (sample_files.wav()[:-100], "is cut off: it has 15900 of its 16000 bytes of sound"),
    (sample_files.wav()[:40], "is broken: it begins like audio/wav and has no sound"),
    (b"RIFF\x00\x00\x00\x00WAVE" + b"junk\x00\x00\x00\x00" * 100, "is broken"),
    (b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f" + bytes(100), "is cut off"),
    (sample_files.mp3(1) + b"no frame", "is of an unknown type"),
]


@pytest.mark.parametrize(("content", "reason"), BROKEN, ids=[each for _, each in BROKEN])
def test_a_file_that_is_broken_or_unknown_is_refused_with_the_reason(
    content: bytes, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        inspect(content)


@pytest.mark.parametrize(
    ("content", "claimed", "found"),
    [
        (b"<html>", "image/png", "text/plain"),
        (PNG, "application/pdf", "image/png"),
        (sample_files.pdf("x"), "audio/mpeg", "application/pdf"),
        (sample_files.wav(), "text/csv", "audio/wav"),
    ],
)
def test_a_file_that_lies_about_its_kind_is_refused(
    content: bytes, claimed: str, found: str
) -> None:
    with pytest.raises(ValueError, match=f"is sent as {claimed}, but its bytes are {found}"):
        inspect(content, claimed=claimed)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_recorder_need_not_know_the_length_of_its_sound(size: int) -> None:
    content = bytearray(sample_files.wav())
    content[40:44] = size.to_bytes(4, "little")
    assert inspect(bytes(content)).tokens == 32


BEGINNINGS = [b"\xff\xd8\xff", b"GIF89a", b"RIFF", b"%PDF-", b"ID3", b"\xff\xfb", b"RIFF0000WAVE"]


@pytest.mark.parametrize("start", BEGINNINGS)
@pytest.mark.parametrize("filler", [b"\x00", b"\xff", b"\x80a"])
def test_no_beginning_raises_another_error(start: bytes, filler: bytes) -> None:
    for length in (0, 1, 2, 5, 11, 13, 20, 30, 50):
        with pytest.raises(ValueError, match=r"^(is|has) "):
            inspect(start + filler * length + b"\x00")


def test_a_claim_that_says_nothing_is_not_checked() -> None:
    assert kind_of("application/octet-stream") is None
    assert kind_of("Image/JPG") is FileKind.IMAGE
