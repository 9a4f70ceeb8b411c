"""Files of messages as a model reads them.

`ReadableModel` wraps the model of a task whose conversation has files. For each request it replaces
the references by parts with bytes: images in the size that the provider uses, PDF and sound as they
are, if the card of the model says that it reads them. All else becomes text: the text of a PDF or
of a text file, or a line that names the file. The same log gives the same request, as long as the
same extras are installed. Prepared images and texts are kept in memory, up to a bound, so that a
turn does not scale them again. A request to a conversation without files never comes here.

Proof: tests/agents/attachments/test_reading.py.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from weakref import WeakSet, finalize

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.attachments.documents import PdfTexts
from penstock.agents.attachments.keeper import SEPARATOR
from penstock.agents.attachments.kinds import PDF, FileKind, kind_of
from penstock.core.errors import ConfigError, ModelRefused, NotFound, StoreCorrupt
from penstock.core.ids import BlobId, LogId
from penstock.core.late import is_installed, late
from penstock.core.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    StoredFile,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.engine.session_state import SessionState
from penstock.models.fallback import around_each
from penstock.models.image_rules import MAX_SIDE, TEXT_CHARS, ImageRules, image_rules
from penstock.models.model import Model, ModelCard, ModelEvent, ModelRequest
from penstock.store.blobs import Blobs

log = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20
"""Prepared images and texts that are kept in memory."""
MAX_SCALED = 2
"""Images that are scaled at once: each may need 256 MB."""

_Scale = Callable[[bytes, str, int], ImagePart]


class AttachmentReader:
    """Prepares files for models."""

    def __init__(self, blobs: Blobs, *, has: Callable[[str], bool] = is_installed) -> None:
        self._blobs = blobs
        self._has = has
        """Whether a library can be imported."""
        self._pdf_texts = PdfTexts(has=has)
        self._slots = asyncio.Semaphore(MAX_SCALED)
        self._kept = _Kept(KEPT_BYTES)
        self._watched: WeakSet[SessionState] = WeakSet()

    async def part(self, file: StoredFile, card: ModelCard, side: int, log_id: LogId) -> Part:
        """Return a file as the model reads it; images have at most `side` pixels a side."""
        kind = FileKind.IMAGE if file.is_image else kind_of(file.mime_type)
        form = f"{card.pdf} {card.audio}"
        if kind is FileKind.IMAGE:
            form = f"{card.images} {card.provider} {side}"
        key = (log_id, file.blob_id, file.name, form)
        part = self._kept.get(key)
        if part is None:
            try:
                part = await self._made(file, kind, card, side)
            except (NotFound, StoreCorrupt) as error:
                log.warning("an attachment cannot be read: %s", error)
                return TextPart(_line(file, "its bytes are lost"))
            # A lost blob may come back from a copy, so its line is not kept; all else is final.
            self._kept.put(key, part)
        return part

    def watch(self, state: SessionState) -> None:
        """Drop the prepared files of a conversation together with its state.

        A state is dropped when text of its log is erased, also by another process.
        """
        if state not in self._watched:
            self._watched.add(state)
            finalize(state, self.forget, state.log_id).atexit = False

    def forget(self, log_id: LogId) -> None:
        """Drop the prepared files of a conversation: some may be of a message that was erased."""
        self._kept.drop(log_id)

    async def _made(
        self, file: StoredFile, kind: FileKind | None, card: ModelCard, side: int
    ) -> Part:
        match kind:
            case FileKind.IMAGE if card.images:
                return await self._image(file, card, side)
            case FileKind.PDF if card.pdf:
                content = await self._blobs.get(file.blob_id)
                return DocumentPart(content=content, mime_type=PDF, name=_name(file))
            case FileKind.AUDIO if card.audio:
                content = await self._blobs.get(file.blob_id)
                return AudioPart(content=content, mime_type=file.mime_type)
            case FileKind.PDF:
                return await self._pdf(file)
            case FileKind.TEXT:
                text = (await self._blobs.get(file.blob_id)).decode("utf-8-sig", "replace")
                return TextPart(_quoted(file, text))
            case _:
                return TextPart(_line(file, "this model cannot read it"))

    async def _image(self, file: StoredFile, card: ModelCard, side: int) -> Part:
        content = await self._blobs.get(file.blob_id)
        # Looked up for each image and not at the start: a running program may install the extra.
        if not self._has("PIL"):
            return _unscaled(file, content, image_rules(card), card)
        scale: _Scale = late("penstock.agents.attachments.images:scaled", extra="images")
        try:
            async with self._slots:
                return await asyncio.to_thread(scale, content, file.mime_type, side)
        except ValueError as error:
            return TextPart(_line(file, f"it cannot be decoded: {error}"))

    async def _pdf(self, file: StoredFile) -> Part:
        try:
            text = await self._pdf_texts.extract(await self._blobs.get(file.blob_id))
        except ValueError as error:
            log.warning("the PDF %s: %s", file.blob_id, error)
            return TextPart(_line(file, f"this model cannot read it, and {error}"))
        return TextPart(_quoted(file, text))


_Key = tuple[LogId, BlobId, str | None, str]


class _Kept:
    """The newest parts, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._parts: OrderedDict[_Key, Part] = OrderedDict()

    def get(self, key: _Key) -> Part | None:
        """Return a part, and keep it longest from now on."""
        if (part := self._parts.get(key)) is not None:
            self._parts.move_to_end(key)
        return part

    def put(self, key: _Key, part: Part) -> None:
        """Keep a part, and drop those that were not used for longest."""
        if key in self._parts:
            return
        self._parts[key] = part
        self._left -= _size(part)
        while self._left < 0 and self._parts:
            _, dropped = self._parts.popitem(last=False)
            self._left += _size(dropped)

    def drop(self, log_id: LogId) -> None:
        """Drop the parts of a conversation."""
        for key in [key for key in self._parts if key[0] == log_id]:
            self._left += _size(self._parts.pop(key))


def _size(part: Part) -> int:
    return len(part.text) if isinstance(part, TextPart) else len(part.content)


def readable(model: Model, reader: AttachmentReader, log_id: LogId, *, tool_images: bool) -> Model:
    """Return a model that receives the files of a conversation; of a Fallback, each by itself."""
    return around_each(
        model, lambda each: ReadableModel(each, reader, log_id, tool_images=tool_images)
    )


class ReadableModel:
    """A model that receives the files of a conversation in a form that it reads."""

    def __init__(
        self, model: Model, reader: AttachmentReader, log_id: LogId, *, tool_images: bool
    ) -> None:
        self._model = model
        self._log_id = log_id
        self._reader = reader
        self._tool_images = tool_images and (model.card.images or model.card.tool_images)

    @property
    def card(self) -> ModelCard:
        """The card of the model."""
        return self._model.card

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the reply to the request with its files.

        If the provider refuses the size of an image, its files are sent once more in its size.
        """
        try:
            async with aclosing(self._attempt(request, None)) as events:
                async for event in events:
                    yield event
        except ModelRefused as error:
            # A refusal comes before any event of a reply, so nothing is shown twice.
            if not (side := (error.details or {}).get(MAX_SIDE)):
                raise
        else:
            return
        async with aclosing(self._attempt(request, side)) as events:
            async for event in events:
                yield event

    async def _attempt(
        self, request: ModelRequest, side: int | None
    ) -> AsyncGenerator[ModelEvent, None]:
        try:
            prepared = await self._prepared(request, side)
        except ConfigError as error:
            raise ModelRefused(str(error)) from error
        async with aclosing(self._model.stream(prepared)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Close the connections of the model."""
        await self._model.close()

    async def _prepared(self, request: ModelRequest, max_side: int | None) -> ModelRequest:
        """Return the request with parts in the place of files."""
        messages = list(request.messages)
        rules = image_rules(self.card)
        # Counted before anything is scaled: with many images some providers accept only small ones,
        # and then earlier images change, which costs the provider's cache once.
        shown = [file for message in messages for file in self._files(message) if file.is_image]
        side = rules.side if len(shown) <= rules.many else min(rules.side, rules.side_of_many)
        side = min(side, max_side or side)
        room = _Room(rules, len(shown))
        # The newest files have precedence if a request has no room for all of them.
        for index in reversed(range(len(messages))):
            message = messages[index]
            if files := self._files(message):
                parts: list[Part] = []
                for file in reversed(files):
                    part = await self._reader.part(file, self.card, side, self._log_id)
                    parts.insert(0, room.take(part, file))
                messages[index] = _with_parts(message, files, parts)
        return replace(request, messages=messages)

    def _files(self, message: Message) -> tuple[StoredFile, ...]:
        if isinstance(message, UserMessage):
            return message.files
        return message.files if isinstance(message, ToolMessage) and self._tool_images else ()


class _Room(Struct):
    """The room that the provider has for files in one request."""

    rules: ImageRules
    images: int
    """Images of the request, of which `take` leaves out the oldest."""
    taken: int = 0
    taken_bytes: int = 0

    def take(self, part: Part, file: StoredFile) -> Part:
        """Return the part if there is room for it, else a line."""
        if isinstance(part, TextPart):
            return part
        self.taken_bytes += len(part.content) * 4 // 3  # base64
        self.taken += isinstance(part, ImagePart)
        if self.taken > self.rules.max_images:
            most = f"at most {self.rules.max_images} images are sent in a request"
            return TextPart(_line(file, f"left out: {most}"))
        if self.taken_bytes > self.rules.max_bytes:
            return TextPart(_line(file, "left out: the request would be too large"))
        return part


def _with_parts(message: Message, files: tuple[StoredFile, ...], parts: list[Part]) -> Message:
    if isinstance(message, ToolMessage):
        return replace(message, parts=(TextPart(message.content), *parts))
    done, made = 0, list[Part]()
    for file, part in zip(files, parts, strict=True):
        made += _piece(message.content, done, file.at)
        made.append(part)
        done = max(file.at, done)
    made += _piece(message.content, done, len(message.content))
    return replace(message, parts=tuple(made))


def _piece(text: str, start: int, end: int) -> list[Part]:
    piece = text[start:end].removeprefix(SEPARATOR)
    return [TextPart(piece)] if piece.strip() else []


def _unscaled(file: StoredFile, content: bytes, rules: ImageRules, card: ModelCard) -> ImagePart:
    """Return an image as it is. Raises ConfigError if its provider refuses it in this size."""
    width, height = file.width or 0, file.height or 0
    if max(width, height) > rules.max_side or len(content) > rules.max_image_bytes:
        raise ConfigError(
            f"the image {_name(file)!r} has {width} x {height} pixels and {len(content)} bytes; "
            f"{card.name} accepts {rules.max_side} pixels a side and {rules.max_image_bytes} bytes."
            " To have images scaled: pip install 'penstock[images]'"
        )
    return ImagePart(
        content=content, mime_type=file.mime_type, width=file.width, height=file.height
    )


def _name(file: StoredFile) -> str:
    return file.name or "without a name"


def _line(file: StoredFile, reason: str) -> str:
    return f"[attachment {_name(file)}: {file.mime_type}, {file.size} bytes; {reason}]"


def _quoted(file: StoredFile, text: str) -> str:
    """Return the text of a file between two lines that name it."""
    name, left_out = _name(file), len(text) - TEXT_CHARS
    more = f"\n[{left_out} more characters are left out]" if left_out > 0 else ""
    head = f"[attachment {name}: {file.mime_type}, {file.size} bytes]"
    return f"{head}\n{text[:TEXT_CHARS]}{more}\n[end of {name}]"
