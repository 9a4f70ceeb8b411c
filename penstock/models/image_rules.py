"""The rules of providers for images: the size that they use, the number that they accept, tokens.

The figures are from the providers' documentation (models.md §8 of the design); a provider that is
not listed gets those of `_OTHERS`.
"""

import math
import re

from msgspec import Struct

from penstock.core.messages import IMAGE_TOKENS, StoredFile, file_tokens
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.models.model import ModelCard

MAX_SIDE = "max_side"
"""In the details of a ModelRefused: the pixels of a side that the provider accepts."""
MEGABYTE = 1_000_000
TEXT_CHARS = 100_000
"""Characters of a file that a model reads as text; more are left out."""
TEXT_TOKENS = TEXT_CHARS // CHARACTERS_PER_TOKEN
LINE_TOKENS = 30
"""About how many tokens a line has that names a file."""


class ImageRules(Struct, frozen=True, kw_only=True):
    """The rules of one provider."""

    side: int
    """Pixels of the longer side that the model uses; a larger image is scaled down."""
    max_side: int
    """Pixels of a side that the provider accepts."""
    many: int
    """Above so many images in a request, `side_of_many` is the most that is accepted."""
    side_of_many: int
    max_images: int
    """Images in a request."""
    max_bytes: int
    """Bytes of a request."""
    max_image_bytes: int
    """Bytes of one image."""


_OTHERS = ImageRules(
    side=2048,
    max_side=8000,
    many=100,
    side_of_many=2048,
    max_images=100,
    max_bytes=32 * MEGABYTE,
    max_image_bytes=20 * MEGABYTE,
)
_OPENAI = ImageRules(
    side=2048,
    max_side=16_000,
    many=500,
    side_of_many=2048,
    max_images=500,
    max_bytes=50 * MEGABYTE,
    max_image_bytes=50 * MEGABYTE,
)
_GOOGLE = ImageRules(
    side=1536,
    max_side=16_000,
    many=500,
    side_of_many=1536,
    max_images=500,
    max_bytes=50 * MEGABYTE,
    max_image_bytes=7 * MEGABYTE,
)
_CLAUDE_SIDE, _NEW_CLAUDE_SIDE = 1568, 2576
_CLAUDE_IMAGES, _LONG_CLAUDE_IMAGES = 100, 600
_LONG_WINDOW = 200_000
_SHARP_CLAUDE = re.compile(r"claude-(?:opus-4-[7-9]|(?:fable|mythos|opus|sonnet|haiku)-[5-9])")
_GEMINI_3 = re.compile(r"gemini-[3-9]")
_CLAUDE_PATCH, _OPENAI_PATCH = 28, 32
_OPENAI_PATCHES = 1536
_OPENAI_FACTOR = 1.7
_OPENAI_FACTORS = (("gpt-4.1-mini", 1.62),)
"""Tokens for each patch, by the beginning of the model's name."""
_GEMINI_2_TOKENS, _GEMINI_3_TOKENS = 258, 1120


def image_rules(card: ModelCard) -> ImageRules:
    """Return the rules of the provider of a model."""
    if _is_claude(card):
        is_sharp = _SHARP_CLAUDE.match(card.name) is not None
        is_long = (card.context_tokens or 0) > _LONG_WINDOW
        return ImageRules(
            side=_NEW_CLAUDE_SIDE if is_sharp else _CLAUDE_SIDE,
            max_side=8000,
            many=20,
            side_of_many=2000,
            max_images=_LONG_CLAUDE_IMAGES if is_long else _CLAUDE_IMAGES,
            max_bytes=32 * MEGABYTE,
            max_image_bytes=32 * MEGABYTE,
        )
    if _is_openai(card):
        return _OPENAI
    return _GOOGLE if card.provider.startswith("google") else _OTHERS


def image_tokens(card: ModelCard, width: int | None, height: int | None) -> int:
    """Return how many tokens a model reads an image as, after it is scaled."""
    if width is None or height is None:
        return IMAGE_TOKENS
    ratio = min(image_rules(card).side / max(width, height, 1), 1)
    scaled = width * ratio, height * ratio
    if _is_claude(card):
        return _patches(scaled, _CLAUDE_PATCH)
    if _is_openai(card):
        factors = (factor for name, factor in _OPENAI_FACTORS if card.name.startswith(name))
        patches = min(_patches(scaled, _OPENAI_PATCH), _OPENAI_PATCHES)
        return math.ceil(patches * next(factors, _OPENAI_FACTOR))
    if card.provider.startswith("google"):
        return _GEMINI_3_TOKENS if _GEMINI_3.match(card.name) else _GEMINI_2_TOKENS
    return IMAGE_TOKENS


class FileRules:
    """Counts the tokens of files as one model reads them, in messages and in results of tools."""

    __slots__ = ("_card", "_tool_images")

    def __init__(self, card: ModelCard | None, *, tool_images: bool = False) -> None:
        self._card = card
        self._tool_images = tool_images

    @property
    def key(self) -> str:
        """A text that is equal for equal rules."""
        return f"{self._card.model_id if self._card else ''} {self._tool_images}"

    def tokens(self, file: StoredFile, *, is_of_tool: bool) -> int:
        """Return about how many tokens a file adds to a request."""
        card, most = self._card, file_tokens(file)
        if is_of_tool and not self._tool_images:
            return 0
        if card is None:
            return most
        if file.is_image:
            image = image_tokens(card, file.width, file.height)
            return image if card.images else 0 if is_of_tool else LINE_TOKENS
        if file.mime_type.startswith("audio/"):
            return most if card.audio else LINE_TOKENS
        is_read = card.pdf and file.mime_type == "application/pdf"
        return most if is_read else min(most, TEXT_TOKENS)


READS_ALL = FileRules(None)
"""The rules for a model without a card."""


def _patches(size: tuple[float, float], side: int) -> int:
    return math.ceil(size[0] / side) * math.ceil(size[1] / side)


def _is_claude(card: ModelCard) -> bool:
    return card.api == "anthropic" or card.provider == "anthropic"


def _is_openai(card: ModelCard) -> bool:
    return card.provider in {"openai", "openai-responses"}
