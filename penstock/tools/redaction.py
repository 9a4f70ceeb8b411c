"""What a call answers, without the secrets that its task was given."""

from dataclasses import replace

from penstock.core.envelope import Envelope, ErrorDetail
from penstock.resources.redact import Redactor


def redacted(envelope: Envelope, secrets: Redactor) -> Envelope:
    """Return the envelope with no secret in it; the same one while none was given out."""
    if not secrets.has_any:
        return envelope
    if envelope.error is None:
        return Envelope(envelope.status, secrets.json(envelope.output))
    return Envelope(envelope.status, error=redacted_error(envelope.error, secrets))


def redacted_error(error: ErrorDetail, secrets: Redactor) -> ErrorDetail:
    """Return the error with no secret in its words and details."""
    suggestion = None if error.suggestion is None else secrets.text(error.suggestion)
    return replace(
        error,
        message=secrets.text(error.message),
        suggestion=suggestion,
        details=None if error.details is None else secrets.json(dict(error.details)),
    )
