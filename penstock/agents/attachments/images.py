"""Scales images with Pillow, which is loaded with the first image.

Guarantees: an image is decoded only if its header names at most `MAX_PIXELS`, so a small file
cannot fill the memory. The result has its ratio, and the rotation that a camera noted is
applied. PNG stays PNG, and all else becomes JPEG. An image that needs no change is
returned as it is. Proof: tests/agents/attachments/test_images.py.
"""

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from penstock.agents.attachments.kinds import MAX_PIXELS
from penstock.core.messages import ImagePart

JPEG_QUALITY = 85
_DEEP = {"I", "I;16", "I;16B"}
"""Modes with 16 bits of grey for a pixel, which are reduced to 8."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_ORIENTATION = 0x0112
_UPRIGHT = 1
_FAILURES = (OSError, SyntaxError, ValueError, EOFError, UnidentifiedImageError)
"""Exceptions of Pillow for broken files."""


def scaled(content: bytes, mime_type: str, side: int) -> ImagePart:
    """Return an image whose longer side has at most `side` pixels.

    Raises ValueError if it cannot be decoded.
    """
    try:
        return _scaled(content, mime_type, side)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"is too large: {error}") from None
    except _FAILURES as error:
        raise ValueError(f"is broken: {error}") from None


def _scaled(content: bytes, mime_type: str, side: int) -> ImagePart:
    with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ValueError(f"it has {width} x {height} pixels")
        is_upright = image.getexif().get(_ORIENTATION, _UPRIGHT) == _UPRIGHT
        is_still = not getattr(image, "is_animated", False)
        if max(width, height) <= side and is_upright and is_still:
            return ImagePart(content=content, mime_type=mime_type, width=width, height=height)
        # Only files of cameras know a rotation, and providers ignore it: the model would see them
        # lying on their side.
        image.draft("RGB", (side, side))  # a JPEG is decoded in the size that is needed
        made: Image.Image = ImageOps.exif_transpose(image)
        # A plain conversion of 16 bits would cut every value above 255 to white.
        if made.mode in _DEEP:
            made = made.point(lambda value: value / 256).convert("L")
        made.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
        return _encoded(made, is_png=mime_type == "image/png")


def _encoded(image: Image.Image, *, is_png: bool) -> ImagePart:
    file = io.BytesIO()
    if is_png:
        image.save(file, "PNG")
    else:
        _flat(image).save(file, "JPEG", quality=JPEG_QUALITY)
    width, height = image.size
    mime_type = "image/png" if is_png else "image/jpeg"
    return ImagePart(content=file.getvalue(), mime_type=mime_type, width=width, height=height)


def _flat(image: Image.Image) -> Image.Image:
    """Return the image on white: a JPEG has no transparency."""
    if image.mode in {"RGB", "L"}:
        return image
    if not image.has_transparency_data:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    flat = Image.new("RGB", clear.size, "white")
    flat.paste(clear, mask=clear.getchannel("A"))
    return flat
