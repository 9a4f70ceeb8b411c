"""Scaling: the size, the ratio, the rotation, and files that are made to hurt."""

import io

import pytest
from PIL import Image

from penstock.agents.attachments.images import scaled
from tests.kit import sample_files

FORMS = ["PNG", "JPEG", "GIF", "WEBP"]


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize("form", FORMS)
def test_an_image_of_a_useful_size_is_sent_as_it_is(form: str) -> None:
    content = sample_files.image(form, (40, 20))
    part = scaled(content, f"image/{form.lower()}", 40)
    assert part.content is content
    assert (part.mime_type, part.width, part.height) == (f"image/{form.lower()}", 40, 20)


@pytest.mark.parametrize("form", FORMS)
def test_a_larger_image_keeps_its_ratio(form: str) -> None:
    part = scaled(sample_files.image(form, (400, 100)), f"image/{form.lower()}", 40)
    made = opened(part.content)
    assert made.size == (part.width, part.height) == (40, 10)
    assert part.mime_type == ("image/png" if form == "PNG" else "image/jpeg")
    assert made.format == ("PNG" if form == "PNG" else "JPEG")


def test_an_image_stands_upright_even_if_it_is_small() -> None:
    part = scaled(sample_files.turned((40, 20)), "image/jpeg", 1000)
    assert (part.width, part.height) == (20, 40)
    assert opened(part.content).getexif().get(0x0112, 1) == 1


def test_of_an_animation_the_first_frame_is_sent() -> None:
    part = scaled(sample_files.animation(), "image/gif", 1000)
    red, green, blue = opened(part.content).convert("RGB").getpixel((0, 0))  # type: ignore[misc]
    assert part.mime_type == "image/jpeg"
    assert red > 200 > max(green, blue)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "CMYK", "I;16", "1"])
def test_every_kind_of_pixel_can_be_scaled(mode: str) -> None:
    file = io.BytesIO()
    form = "JPEG" if mode == "CMYK" else "PNG"
    Image.new(mode, (100, 100)).save(file, form)
    part = scaled(file.getvalue(), f"image/{form.lower()}", 10)
    assert opened(part.content).size == (10, 10)


def test_what_is_clear_becomes_white_in_a_jpeg() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (100, 100), (0, 0, 0, 0)).save(file, "WEBP", lossless=True)
    part = scaled(file.getvalue(), "image/webp", 10)
    assert opened(part.content).getpixel((5, 5)) == (255, 255, 255)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        sample_files.bomb(),
        sample_files.bomb(8_500),
        sample_files.image("PNG", (400, 400))[:-30],
        sample_files.image("WEBP", (400, 400))[:60],
        b"\x89PNG\r\n\x1a\n" + bytes(100),
    ],
    ids=["empty", "text", "bomb", "smaller bomb", "cut", "cut WebP", "zeros"],
)
def test_a_file_that_cannot_be_decoded_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^is (broken|too large): "):
        scaled(content, "image/png", 100)
