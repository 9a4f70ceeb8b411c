"""Outputs as a model and people read them: serialised, images taken out, clipped, kept whole."""

import json
from dataclasses import dataclass
from typing import Any

from penstock.core.call import Call
from penstock.core.envelope import Envelope
from penstock.core.events import StoredFile
from penstock.core.ids import ArtifactId, BlobId, NewId
from penstock.core.limits import Limits
from penstock.core.text import cut, preview
from penstock.store.blobs import Blobs
from penstock.tools.tool import Tool

_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An outcome as it goes into the log."""

    envelope: Envelope
    context: str | None = None
    """What a model reads."""
    preview: str | None = None
    artifact_id: ArtifactId | None = None
    artifact_blob: BlobId | None = None
    total_characters: int | None = None
    files: tuple[StoredFile, ...] = ()


class Artifacts:
    """Makes outcomes readable, and keeps what does not fit."""

    def __init__(self, blobs: Blobs, limits: Limits, new_id: NewId) -> None:
        self._blobs = blobs
        self._limits = limits
        self._new_id = new_id

    async def show(
        self, tool: Tool | None, call: Call, envelope: Envelope, *, clip_at: int | None
    ) -> Shown:
        """Return the outcome as its caller reads it; `clip_at` None: whole, for code."""
        if envelope.error is not None:
            return Shown(envelope=envelope, context=self.error_text(envelope))
        text = _encode(envelope.output)
        return Shown(
            envelope=envelope,
            context=text,
            preview=preview(envelope.output, self._limits.preview_chars),
        )

    def error_text(self, envelope: Envelope) -> str:
        """Return a failure as a model reads it: error, code, suggestion, details."""
        error = envelope.error
        assert error is not None  # noqa: S101  only failures have this form
        said: dict[str, Any] = {
            "error": cut(error.message, self._limits.error_chars),
            "code": error.code,
        }
        if error.suggestion:
            said["suggestion"] = error.suggestion
        return _encode(said)
