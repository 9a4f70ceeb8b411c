"""What a call answers, tells and keeps, without the secrets that its task was given."""

from collections.abc import Iterable

from msgspec.structs import replace

from penstock.core.call_errors import StateDenied
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.events import NoteEmitted, StoredFile
from penstock.core.state.changes import Change, FileChanges, MediaChange
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


def redacted_note(note: NoteEmitted, secrets: Redactor) -> NoteEmitted:
    """Return the event of an author with no secret in it."""
    if not secrets.has_any:
        return note
    return replace(
        note,
        event_type=secrets.text(note.event_type),
        title=secrets.json(note.title),
        message=secrets.json(note.message),
        payload=secrets.json(note.payload),
    )


def redacted_files(files: Iterable[StoredFile], secrets: Redactor) -> tuple[StoredFile, ...]:
    """Return what a call kept, with no secret in its names."""
    if not secrets.has_any:
        return tuple(files)
    return tuple(replace(each, name=secrets.json(each.name)) for each in files)


def check_key(secrets: Redactor, *names: str, what: str = "a key") -> None:
    """Raise StateDenied if a secret stands in a name: others see it, and it is not encrypted."""
    if any(map(secrets.holds_secret, names)):
        raise StateDenied(f"{what} may not hold a secret: secrets belong in the vault")


def check_change(change: Change | None, secrets: Redactor) -> None:
    """Raise StateDenied if a call would keep something under a name with a secret in it."""
    match change:
        case FileChanges(files=files):
            check_key(secrets, *(each.path for each in files), what="the path of a file")
        case MediaChange(filename=str(name)):
            check_key(secrets, name, what="the name of a file")
        case _:
            pass
