"""Outputs as a model and people read them: images taken out, clipped, previewed, kept whole.

It guarantees that clipping loses nothing of an accepted output. An output over `clip_at` characters
is stored whole as an artifact; the event has its beginning and the artifact's id. For code
(`clip_at` None) nothing is clipped, and an output over `limits.body_bytes` is stored apart.

`media` takes base64 out of the output before it is clipped; the bytes are kept for people. Proof:
tests/tools/test_artifacts.py.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from penstock.core.call_errors import CallError, InvalidOutput, OutputTooLarge
from penstock.core.envelope import Envelope, ErrorDetail, Json
from penstock.core.events.events import CallSettled
from penstock.core.ids import ArtifactId, BlobId, NewId
from penstock.core.json_values.json_text import (
    JSON_DEPTH,
    compact,
    exact,
    is_deeper,
    without_surrogates,
)
from penstock.core.limits import Limits
from penstock.core.messages import StoredFile
from penstock.core.text import ERROR_CHARS, cut, one_line, preview
from penstock.store.blobs import Blobs
from penstock.tools.failures import bounded
from penstock.tools.media import (
    IMAGES,
    SHORTEST,
    Placeholders,
    dimensions,
    may_hold_base64,
    sniff,
)
from penstock.tools.outputs import at_bytes

PREVIEW_CHARS = 200
"""Characters of the one line that people see of a result."""

Preview = Callable[[Any], str | None]
_BYTES_PER_CHARACTER = 4
_REPLACED = "\ufffd"
"""Replaces half of a UTF-16 surrogate pair, which no database stores."""


class LoggedOutcome(NamedTuple):
    """An outcome as it goes into the log."""

    envelope: Envelope
    context: str | None = None
    """The text for the model."""
    preview: str | None = None
    artifact_id: ArtifactId | None = None
    artifact_blob: BlobId | None = None
    total_characters: int | None = None
    files: tuple[StoredFile, ...] = ()
    is_text: bool = False
    """The context is the output itself: text, not JSON."""


class OutputForm(NamedTuple):
    """The declared form of the outputs of a tool."""

    preview: Preview | None = None
    schema: Json | None = None


ANY_FORM = OutputForm()


class Artifacts:
    """Makes outcomes readable, and keeps what does not fit."""

    def __init__(self, blobs: Blobs, limits: Limits, new_id: NewId) -> None:
        self._blobs = blobs
        self._limits = limits
        self._new_id = new_id

    async def show(
        self, envelope: Envelope, form: OutputForm = ANY_FORM, *, clip_at: int | None
    ) -> LoggedOutcome:
        """Return the outcome as its caller reads it; `clip_at` None: whole and as it is, for code.

        Raises InvalidOutput or OutputTooLarge when there is no such outcome.
        """
        if envelope.error is not None:
            return await self._failure(envelope, envelope.error)
        output, text = self._encode(envelope.output)
        if output is not envelope.output:
            envelope = Envelope.success(output)
        files: tuple[StoredFile, ...] = ()
        # The length first: most outcomes are short, and then nothing is searched.
        if clip_at is not None and len(text) >= SHORTEST and may_hold_base64(text):
            placeholders = Placeholders(self._limits)
            if form.schema is not None:
                output = at_bytes(output, form.schema, placeholders.of_bytes)
            output = placeholders.replace(output)
            if placeholders.has_replaced:
                envelope, text = Envelope.success(output), _text_of(output)
                files = await self._keep_all(placeholders)
        line = None if clip_at is None else self._preview(output, form.preview)
        shown = LoggedOutcome(envelope, text, line, files=files, is_text=type(output) is str)
        if clip_at is not None and len(text) > clip_at:
            return await self._clip(shown, text, clip_at=clip_at)
        if clip_at is None and len(text) > self._limits.body_bytes:
            return await self._apart(shown, text)
        return shown

    async def whole(self, settled: CallSettled) -> Envelope:
        """Return the envelope with all of its output, which may be kept apart from the event."""
        if settled.artifact_blob is None:
            return settled.envelope
        kept = await self._blobs.get(settled.artifact_blob)
        return Envelope.success(kept.decode() if settled.is_text else json.loads(kept))

    async def text(self, settled: CallSettled) -> str:
        """Return the whole text of which a model read the beginning."""
        if settled.artifact_blob is None:
            return settled.context or ""
        return (await self._blobs.get(settled.artifact_blob)).decode()

    async def keep(self, data: bytes, mime: str, *, name: str | None = None) -> StoredFile:
        """Keep bytes for people. Raises OutputTooLarge when they are too many."""
        if len(data) > self._limits.image_bytes:
            raise OutputTooLarge(
                f"{len(data)} bytes are too many to keep; at most {self._limits.image_bytes}"
            )
        width, height = dimensions(data) or (None, None)
        return StoredFile(
            blob_id=await self._blobs.put(data),
            mime_type=mime,
            size=len(data),
            is_image=mime in IMAGES and sniff(data) == mime,
            width=width,
            height=height,
            name=name,
        )

    def error_text(self, error: ErrorDetail) -> str:
        """Return a failure as a model reads it: error, code, suggestion, details."""
        most = ERROR_CHARS
        shown: dict[str, Any] = {"error": cut(error.message, most), "code": error.code}
        if error.suggestion:
            shown["suggestion"] = cut(error.suggestion, most)
        if error.details:
            details = compact(error.details)
            shown["details"] = error.details if len(details) <= most else cut(details, most)
        return compact(shown)

    async def _failure(self, envelope: Envelope, error: ErrorDetail) -> LoggedOutcome:
        files: tuple[StoredFile, ...] = ()
        message = error.message
        if may_hold_base64(message):
            placeholders = Placeholders(self._limits)
            message = placeholders.replace(message)
            files = await self._keep_all(placeholders)
        error = bounded(replace(error, message=message))
        return LoggedOutcome(
            Envelope(envelope.status, None, error), self.error_text(error), files=files
        )

    def _encode(self, output: Any) -> tuple[Any, str]:
        """Return the output as it is when it is read back from the log, and its text."""
        try:
            output, text = _kept(output)
        except RecursionError:
            raise self._too_deep() from None
        except (TypeError, ValueError) as error:
            raise InvalidOutput(f"the output is not JSON: {error}") from None
        most = self._limits.output_bytes
        # Encoding costs a copy of the text: only a text that could be too large is encoded.
        if len(text) * _BYTES_PER_CHARACTER > most and (size := len(text.encode())) > most:
            form = "" if type(output) is str else " as JSON"
            raise OutputTooLarge(f"the output has {size} bytes{form}; at most {most} are kept")
        # The brackets are an upper bound of the depth: only a text with many of them is walked.
        if text.count("[") + text.count("{") > JSON_DEPTH and is_deeper(output, JSON_DEPTH):
            raise self._too_deep()
        return output, text

    def _too_deep(self) -> CallError:
        return OutputTooLarge(f"the output is nested more than {JSON_DEPTH} deep")

    def _preview(self, output: Any, own_preview: Preview | None) -> str:
        own = own_preview(output) if own_preview else None
        return preview(output, PREVIEW_CHARS) if own is None else cut(one_line(own), PREVIEW_CHARS)

    async def _clip(self, shown: LoggedOutcome, text: str, *, clip_at: int) -> LoggedOutcome:
        """Keep the whole text apart; the event holds its beginning, and no output beside it."""
        artifact_id = ArtifactId(self._new_id("art"))
        marker = (
            f"\n[truncated: {len(text)} characters in all; full result in artifact {artifact_id}]"
        )
        context = text[: max(clip_at - len(marker), 0)] + marker
        return (await self._apart(shown, text))._replace(context=context, artifact_id=artifact_id)

    async def _apart(self, shown: LoggedOutcome, text: str) -> LoggedOutcome:
        """Keep the whole text apart, and nothing of it in the event."""
        blob_id = await self._blobs.put(text.encode())
        return shown._replace(
            envelope=Envelope.success(None),
            context=None,
            artifact_blob=blob_id,
            total_characters=len(text),
        )

    async def _keep_all(self, placeholders: Placeholders) -> tuple[StoredFile, ...]:
        kept = []
        for part in placeholders.taken_out:
            stored = await self.keep(part.content, part.mime)
            kept.append(replace(stored, is_image=part.is_image))
        return tuple(kept)


def _kept(output: Any) -> tuple[Any, str]:
    """Return null for NaN and U+FFFD for halves of pairs, as the log does; and the text."""
    if type(output) is str:
        text = _text_of(output)
        return text, text
    try:
        text = exact(output)
    except ValueError:
        text = compact(output)
        return json.loads(text), text
    return (json.loads(text) if _REPLACED in text else output), text


def _text_of(output: Any) -> str:
    """Return an output as a model reads it: JSON, but a text as it is.

    A text that is JSON would be encoded twice otherwise, and any text gains quotes and escapes.
    """
    if type(output) is str:
        return output if output.isascii() else without_surrogates(output)
    return compact(output)
