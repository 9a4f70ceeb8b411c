"""Base64 in an output, taken out."""

import base64
import json
import time
from typing import Any

import pytest

from penstock.core.limits import Limits
from penstock.tools.results.placeholders import SHOWN, Placeholders, may_hold_base64

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(184)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + b"\xfb\xef\xbe" * 80).decode()
PDF = base64.b64encode(b"%PDF-1.7" + bytes(200)).decode()
PNG_URL = f"data:image/png;base64,{PNG}"
PLACED_PDF = "[base64 data: 208 bytes, application/pdf]"


def replaced(value: Any, limits: Limits | None = None) -> Any:
    return Placeholders(limits or Limits()).replace(value)


def deep(value: Any) -> Any:
    return {"a": [{"b": [{"c": value}]}]}


def examples() -> dict[str, tuple[Any, Any]]:
    page = f"<img src='{PNG_URL}'> and <img src='{PNG_URL}'>."
    inner = json.dumps({"img": PNG_URL}).replace("/", "\\/")
    svg = base64.b64encode(b"<svg>" + bytes(251)).decode()
    block = {"type": "image", "data": PNG, "mimeType": "image/png"}
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return {
        "a whole string": (PNG_URL, SHOWN),
        "at depth 5": (deep(PNG_URL), deep(SHOWN)),
        "inside a longer string": (page, f"<img src='{SHOWN}'> and <img src='{SHOWN}'>."),
        "in JSON in a string": (inner, '{"img": "' + SHOWN + '"}'),
        "with parameters": (PNG_URL.replace(";", ";charset=x;name=a.png;", 1), SHOWN),
        "in capitals": (PNG_URL.replace("data:image/png;base64", "DATA:Image/PNG;Base64"), SHOWN),
        "base64url": (
            "data:image/jpeg;base64," + JPEG.replace("+", "-").replace("/", "_"),
            SHOWN,
        ),
        "an image block": (block, block | {"data": SHOWN}),
        "an image block with a source": (
            {"type": "image", "source": source},
            {"type": "image", "source": source | {"data": SHOWN}},
        ),
        "bare PNG": (PNG, SHOWN),
        "bare with line breaks": ("\r\n".join([PNG[:100], PNG[100:], ""]), SHOWN),
        "bare PDF": (PDF, PLACED_PDF),
        "by its sibling": (
            {"encoding": "base64", "content": "QUJD" * 64, "mimeType": "text/plain"},
            {
                "encoding": "base64",
                "content": "[base64 data: 192 bytes, text/plain]",
                "mimeType": "text/plain",
            },
        ),
        "SVG is no image here": (
            f"data:image/svg+xml;base64,{svg}",
            "[base64 data: 256 bytes, image/svg+xml]",
        ),
        "bytes that are no PNG": (
            f"data:image/png;base64,{PDF}",
            "[base64 data: 208 bytes, image/png]",
        ),
        "what does not decode": (
            "data:image/png;base64," + "A" * 257,
            "[base64 data: 192 bytes, image/png]",
        ),
    }


@pytest.mark.parametrize(("value", "expected"), examples().values(), ids=examples())
def test_what_is_taken_out(value: Any, expected: Any) -> None:
    """base64 images are replaced, at depth 5, in a JSON string."""
    assert may_hold_base64(json.dumps(value))
    assert replaced(value) == expected


def kept() -> dict[str, Any]:
    return {
        "keys": {PNG_URL: 1},
        "hex": "0123456789abcdef" * 100,
        "DNA": "GATTACA" * 100,
        "letters": "A" * 1000,
        "prose": "iVBORw0KGgo is how a PNG begins. " * 20,
        "a URL where data should be": {
            "type": "image",
            "data": "https://example.com/" + "x" * 300,
            "mimeType": "image/png",
        },
        "no type": "data:;base64," + PNG[11:],
        "an image block without a type of its own": {"type": "image", "data": "QUJD" * 64},
        "a block whose type is no image": {
            "type": "text",
            "data": "https://example.com/" + "x" * 300,
            "mimeType": "image/png",
        },
        "an image block whose data is no text": {
            "type": "image",
            "data": 1,
            "mimeType": "image/png",
        },
        "numbers": [1, 2.5, None, True],
    }


@pytest.mark.parametrize("value", kept().values(), ids=kept())
def test_what_stays(value: Any) -> None:
    """Long strings that only look like base64 (letters, hex, DNA) stay."""
    assert replaced(value) is value


@pytest.mark.parametrize(("length", "taken"), [(255, False), (256, True)])
def test_short_base64_stays(length: int, taken: bool) -> None:
    """255 and 256 characters."""
    url = f"data:image/png;base64,{PNG[:length]}"
    assert (replaced(url) != url) is taken
    assert (replaced(PNG[:length]) != PNG[:length]) is taken


def test_sixteen_images_are_shown_and_sixteen_files_kept() -> None:
    placeholders = Placeholders(Limits())
    made = placeholders.replace([PNG_URL] * 40)
    assert made[:16] == [SHOWN] * 16
    assert made[16:] == ["[base64 data: 192 bytes, image/png]"] * 24
    assert [found.is_image for found in placeholders.found] == [True] * 16 + [False] * 16


def test_what_is_too_large_is_not_kept() -> None:
    placeholders = Placeholders(Limits(image_bytes=191))
    assert placeholders.replace(PNG_URL) == "[base64 data: 192 bytes, image/png]"
    assert placeholders.found == []
    placeholders = Placeholders(Limits(image_bytes=192))
    assert placeholders.replace(PNG_URL) == SHOWN
    assert len(placeholders.found) == 1


def test_a_type_that_the_bytes_deny_is_not_passed_on() -> None:
    placeholders = Placeholders(Limits())
    placeholders.replace(f"data:image/png;base64,{PDF}")
    (found,) = placeholders.found
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
def test_a_megabyte_of_malice_takes_no_longer_than_any(hostile: str) -> None:
    began = time.process_time()
    may_hold_base64(hostile)
    replaced(hostile)
    assert time.process_time() - began < 0.5
