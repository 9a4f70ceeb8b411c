"""Redaction of everything that a call returns, emits and stores.

It guarantees that a secret which the task received is replaced before an envelope, an event, a file
name or a question reaches the log, a client or a model. The invoker applies it to outcomes, the
Invocation to questions and events, the Recording to host calls: no other code writes for a call.

It relies on the Redactor of the task (`given_secrets`) and on its forms of a secret (decision 024).
It is a net, not a wall: a script can transform a secret so that no form matches. Keys and file
names are refused, not redacted: two redacted keys could collide, and others could read them.

Proof: `tests/tools/results/test_redaction.py`, `tests/journeys/test_secrets.py`.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from penstock.core.call_errors import StateDenied
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.events import NoteEmitted, StoredFile
from penstock.core.state import Change, FileChanges, MediaChange
from penstock.resources.redact import Redactor


def redacted(envelope: Envelope, secrets: Redactor) -> Envelope:
    """Return the envelope without secrets; the same object if the task received none."""
    if not secrets.has_any:
        return envelope
    if envelope.error is None:
        return Envelope(envelope.status, secrets.json(envelope.output))
    return Envelope(envelope.status, error=redacted_error(envelope.error, secrets))


def redacted_error(error: ErrorDetail, secrets: Redactor) -> ErrorDetail:
    """Return the error without secrets in its message, suggestion and details."""
    suggestion = None if error.suggestion is None else secrets.text(error.suggestion)
    return replace(
        error,
        message=secrets.text(error.message),
        suggestion=suggestion,
        details=None if error.details is None else secrets.json(dict(error.details)),
    )


def redacted_note(note: NoteEmitted, secrets: Redactor) -> NoteEmitted:
    """Return an author's event without secrets."""
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
    """Return the files of a call without secrets in their names."""
    if not secrets.has_any:
        return tuple(files)
    return tuple(replace(file, name=secrets.json(file.name)) for file in files)


def check_key(secrets: Redactor, *names: str, what: str = "a key") -> None:
    """Raise StateDenied if a name contains a secret: names are shown, and are not encrypted."""
    if any(map(secrets.holds_secret, names)):
        raise StateDenied(f"{what} may not hold a secret: secrets belong in the vault")


def check_change(change: Change | None, secrets: Redactor) -> None:
    """Raise StateDenied if a call would store something under a name that contains a secret."""
    match change:
        case FileChanges(files=files):
            check_key(secrets, *(file.path for file in files), what="the path of a file")
        case MediaChange(filename=str(name)):
            check_key(secrets, name, what="the name of a file")
        case _:
            pass
