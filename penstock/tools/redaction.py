"""The secrets that a task has received, and their redaction from everything that a call records.

It guarantees that a secret which the task received is replaced before an envelope, an event, a file
name or a question reaches the log, a client or a model. The invoker applies it to outcomes, the
Invocation to questions and events, the Recording to host calls: no other code writes for a call.

Every call of a task shares one Redactor. It knows each secret that any call of the task received,
because a tool may pass a secret on to the next tool, whose output would then contain it. The log
holds the names of the secrets, never their values. A process that takes a task over reads the names
from the log and the current values from the vault. A secret that was deleted from the vault in
between is not redacted any more: its value is unknown. The redactors are dropped with the HeldLog,
so a secret stays in memory only as long as its log is held.

It relies on the Redactor's forms of a secret (decision 024). It is a net, not a wall: a script can
transform a secret so that no form matches. Keys and file names are refused, not redacted: two
redacted keys could collide, and others could read them.

Proof: `tests/tools/test_redaction.py`, `tests/journeys/test_secrets.py`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.call_errors import StateDenied, VaultNotFound
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.events import NoteEmitted, SecretGiven
from penstock.core.ids import TaskId
from penstock.core.messages import StoredFile
from penstock.core.scopes import Scope
from penstock.core.stored.changes import Change, MediaChange, WorkspaceChange
from penstock.core.task import Option, QuestionForm
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.resources.redact import Redactor
from penstock.resources.vault import Vault
from penstock.tools.policy import Caller

_USE_VAULT = "secrets belong in the vault"


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


def redacted_form(form: QuestionForm, secrets: Redactor) -> QuestionForm:
    """Return the form of a question without secrets."""
    if not secrets.has_any:
        return form
    text = secrets.text
    options = [
        Option(label=text(o.label), value=text(o.value), aliases=tuple(map(text, o.aliases)))
        for o in form.options
    ]
    return QuestionForm(
        options=tuple(options),
        schema=secrets.json(form.schema),
        context=secrets.json(form.context),
        typed=secrets.json(form.typed),
    )


def check_key(secrets: Redactor, *names: str, what: str = "a key") -> None:
    """Raise StateDenied if a name contains a secret: names are shown, and are not encrypted."""
    if any(map(secrets.holds_secret, names)):
        raise StateDenied(f"{what} may not hold a secret: {_USE_VAULT}")


def check_value(secrets: Redactor, value: Any) -> None:
    """Raise StateDenied if a value contains a secret: stored values are not encrypted."""
    if secrets.holds_secret(value):
        raise StateDenied(_USE_VAULT)


def check_change(change: Change | None, secrets: Redactor) -> None:
    """Raise StateDenied if a call would store something under a name that contains a secret."""
    match change:
        case WorkspaceChange(files=files):
            check_key(secrets, *(file.path for file in files), what="the path of a file")
        case MediaChange(filename=str(name)):
            check_key(secrets, name, what="the name of a file")
        case _:
            pass


class TaskSecrets:
    """The redactor of one task."""

    __slots__ = ("_newest", "_original", "redactor")

    def __init__(self) -> None:
        self.redactor = Redactor()
        self._original: Caller | None = None
        self._newest: Caller | None = None

    def add_to(self, caller: Caller) -> Caller:
        """Return the caller with the task's redactor."""
        # Most calls of a task have the same caller: the copy is made once.
        if self._newest is None or self._original is not caller:
            self._original, self._newest = caller, replace(caller, secrets=self.redactor)
        return self._newest


class GivenSecrets:
    """The redactors of all tasks whose logs this process holds."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[HeldLog, dict[TaskId, TaskSecrets]] = WeakKeyDictionary()

    async def load(self, ledger: Ledger, vault: Vault | None) -> TaskSecrets:
        """Return a task's secrets, with those that earlier entries received."""
        known = self._of.setdefault(ledger.held, {})
        task = ledger.task
        if task.task_id in known:
            return known[task.task_id]
        secrets = TaskSecrets()
        if vault is not None:
            await _add_recorded(secrets.redactor, tuple(task.records.secrets), vault)
        # Another call of the task may have filled it while this one waited for the vault.
        return known.setdefault(task.task_id, secrets)


def note_given(ledger: Ledger, path: CallPath, scope: Scope, key: str) -> None:
    """Record in the log, once per task, that a call received a secret."""
    event = SecretGiven(scope=scope, key=key)
    if event not in ledger.task.records.secrets:
        ledger.add(event, path)


async def _add_recorded(redactor: Redactor, events: Iterable[SecretGiven], vault: Vault) -> None:
    for event in events:
        with suppress(VaultNotFound):
            redactor.add(event.key, await vault.get(event.scope, event.key))
