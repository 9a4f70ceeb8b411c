"""Messages between the runtime and a model, and the usage of models and tools."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.core.call import ToolCall
from penstock.core.ids import BlobId, CallId


class StoredFile(Struct, frozen=True, kw_only=True, gc=False):
    """A file in the blob store: of a message, or taken out of the result of a call."""

    blob_id: BlobId
    mime_type: str
    size: int
    """In bytes."""
    is_image: bool
    width: int | None = None
    height: int | None = None
    name: str | None = None
    """The name that its sender or the tool gave it."""
    tokens: int | None = None
    """About how many tokens a model reads it as; None if that is unknown."""
    at: int = 0
    """Its place in a message: how many characters of the text come before it."""


IMAGE_TOKENS = 1500
"""About how many tokens a model reads an image as, if nothing better is known."""


def file_tokens(file: StoredFile) -> int:
    """Return about how many tokens a model reads a file as."""
    return IMAGE_TOKENS if file.tokens is None else file.tokens


class TextPart(Struct, frozen=True, gc=False):
    """A piece of text of a message that holds more than text."""

    text: str


class ImagePart(Struct, frozen=True, kw_only=True, gc=False):
    """An image of a message, in a size that the model reads."""

    content: bytes
    mime_type: str
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    width: int | None = None
    height: int | None = None


class DocumentPart(Struct, frozen=True, kw_only=True, gc=False):
    """A PDF file of a message."""

    content: bytes
    mime_type: str
    """`application/pdf`."""
    name: str


class AudioPart(Struct, frozen=True, kw_only=True, gc=False):
    """Sound of a message."""

    content: bytes
    mime_type: str
    """`audio/wav` or `audio/mpeg`."""


Part = TextPart | ImagePart | DocumentPart | AudioPart
"""A piece of a message as a model reads it. A request has only those kinds that the card of its
model names; `ImagePart` and `DocumentPart` also in results of tools, if it names `tool_images`."""


class UserMessage(Struct, frozen=True, gc=False):
    """The message of a person."""

    content: str
    """The text alone."""
    files: tuple[StoredFile, ...] = ()
    """References to its files, as the log has them."""
    parts: tuple[Part, ...] = ()
    """The whole message in the order to send, `content` too; empty for a message of text alone."""
    is_note: bool = False
    """Written by the runtime in place of a person."""


class Carry(Struct, frozen=True, gc=False):
    """Parts of a reply that its provider receives back: signed thinking, ids of calls.

    Opaque to everything but the adapter that wrote it. It is stored with the reply and erased with
    it; people, scripts and tools never see it.
    """

    provider: str
    """The adapter and the host, such as `anthropic@api.anthropic.com`."""
    family: str
    """The models that may read it."""
    prefix: str
    """The SHA-256 of the request that produced the reply, without cache points; may be empty."""
    parts: tuple[dict[str, Any], ...]
    """The reply in wire order. `{"type": "text", "chars": n}` is the next `n` characters of
    its text, `{"type": "call", "index": i, "id": …}` for call `i` under the provider's id; any
    other part is verbatim."""


class AssistantMessage(Struct, frozen=True, gc=False):
    """The reply of a model, with the calls that it requests."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    carry: Carry | None = None
    reasoning: str = ""
    """The model's reasoning, if there is a carry: some providers receive it back as text."""


class ToolMessage(Struct, frozen=True, gc=False):
    """The outcome of one call, as text."""

    call_id: CallId
    name: str
    content: str
    ok: bool = True
    files: tuple[StoredFile, ...] = ()
    """References to the images of the outcome."""
    parts: tuple[Part, ...] = ()
    """The text and the images in the order to send; empty for an outcome of text alone."""


Message = UserMessage | AssistantMessage | ToolMessage


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens, calls and money that were used.

    Example:
        >>> from penstock import Usage
        >>> Usage(input_tokens=12, output_tokens=3).to_wire()["inputTokens"]
        12
    """

    input_tokens: int = 0
    """Tokens that models read, including those read from a cache or written to it."""
    output_tokens: int = 0
    """Tokens that models wrote, including reasoning."""
    model_calls: int = 0
    """Requests to models."""
    tool_calls: int = 0
    """Calls of tools, including those inside other calls."""
    cost_usd: float | None = None
    """None if one of the models has no price."""
    cached_tokens: int = 0
    """Input tokens that the provider read from its cache."""
    cache_write_tokens: int = 0
    """Input tokens that the provider wrote to its cache, for a short time."""
    cache_write_long_tokens: int = 0
    """Input tokens that the provider wrote to its cache, for an hour or longer."""
    reasoning_tokens: int = 0
    """Output tokens of reasoning."""

    def to_wire(self) -> dict[str, Any]:
        """Return the usage in the form of the wire. Counts of caches and reasoning only if any."""
        wire: dict[str, Any] = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "modelCalls": self.model_calls,
            "toolCalls": self.tool_calls,
            "costUsd": self.cost_usd,
        }
        written = self.cache_write_tokens + self.cache_write_long_tokens
        seldom = (self.cached_tokens, written, self.reasoning_tokens)
        wire |= {name: count for name, count in zip(_SELDOM, seldom, strict=True) if count}
        return wire


_SELDOM = ("cachedTokens", "cacheWriteTokens", "reasoningTokens")


def total_usage(replies: Sequence[Usage], *, tool_calls: int) -> Usage:
    """Return the sum of the usage of replies. The cost is None unless each has a price."""
    prices = [each.cost_usd for each in replies if each.cost_usd is not None]
    return Usage(
        input_tokens=sum(each.input_tokens for each in replies),
        output_tokens=sum(each.output_tokens for each in replies),
        model_calls=len(replies),
        tool_calls=tool_calls,
        cost_usd=sum(prices) if prices and len(prices) == len(replies) else None,
        cached_tokens=sum(each.cached_tokens for each in replies),
        cache_write_tokens=sum(each.cache_write_tokens for each in replies),
        cache_write_long_tokens=sum(each.cache_write_long_tokens for each in replies),
        reasoning_tokens=sum(each.reasoning_tokens for each in replies),
    )


NOTHING_SPENT = Usage()
