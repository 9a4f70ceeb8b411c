"""Parts of a ToolContext: kept values, files, secrets, and the checks of notes and questions.

Changes go through `_once`: the change and its record are one transaction, so a function that runs
again does not repeat it. The checks raise ValueError or TypeError, because a wrong argument is a
mistake of the tool's author and must not be recorded. Proof:
`tests/tools/python/test_capabilities.py`.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import ToolFailed, ToolNotConfigured, VaultNotFound
from penstock.core.envelope import Envelope, Json
from penstock.core.events.events import NOTE_LEVELS, CallSettled, NoteEmitted
from penstock.core.json_values.json_text import JSON_DEPTH, is_larger
from penstock.core.json_values.schema import Schema
from penstock.core.limits import KIB
from penstock.core.messages import StoredFile
from penstock.core.scopes import Scope, ScopeKind, parse_path
from penstock.core.stored.changes import Change, StateChange, StateVerb, WorkspaceChange
from penstock.core.task import Option, QuestionForm
from penstock.core.text import size_text
from penstock.engine.answers import OTHER
from penstock.resources.state import State
from penstock.tools.invocation import Invocation
from penstock.tools.outputs import given_json
from penstock.tools.redaction import check_key, check_value, note_given, redacted_files
from penstock.tools.tasks.task_values import (
    ALWAYS,
    AnyRevision,
    IfRevision,
    RecordedReads,
    StateWrite,
    ToolState,
    check_state_key,
    check_ttl,
)

KEEP = "artifacts.put"
"""The name of a stored file in the log."""
EVENT_BYTES = 32 * KIB
"""Most bytes of the payload of an event, as JSON."""
MAX_EVENTS = 1000
"""Most events that one attempt of a tool writes, with progress. More than a person reads, and at
most 32 MiB of payload in the log."""


class KeptState(RecordedReads):
    """A tool's values of a conversation or a profile, under its own keys or those of its family.

    Reads and writes are recorded: a function that runs again reads the same values, and writes
    nothing twice.
    """

    __slots__ = ("_scope",)

    def __init__(self, invocation: Invocation, scope: Scope) -> None:
        super().__init__(invocation)
        self._scope = scope

    @property
    def _name_of_reads(self) -> str:
        return f"state.{self._scope.kind}.get"

    async def _read(self, key: str) -> list[Any]:
        entry = await self._state.find(self._scope, self._own(key))
        # The call may have ended while the database was read: it must not record any more.
        self._invocation.check_running()
        return [] if entry is None else [entry.value]

    async def put(
        self, key: str, value: Any, ttl: float | None = None, *, if_revision: IfRevision = ALWAYS
    ) -> StateWrite:
        """Store a value for `ttl` seconds, or without a limit; None removes it.

        Args:
            key: 1 to 256 characters.
            value: JSON.
            ttl: Seconds until it expires, 1 to a year; None means never.
            if_revision: Store it only over this revision, or with None only if there is no value.

        Returns:
            Whether it was stored, and the revision that is there now.

        Raises:
            ValueError: The key or the time is out of bounds.
            TypeError: The value is not JSON.
            StateDenied: The key or the value contains a secret.
            ToolFailed: The value is too large.
        """
        check_state_key(key)
        check_ttl(ttl)
        invocation, _ = self._invocation, self._state
        value = given_json(value, JSON_DEPTH, "the value")
        check_key(invocation.caller.secrets, key)
        check_value(invocation.caller.secrets, value)
        expected = () if isinstance(if_revision, AnyRevision) else (if_revision,)
        change = StateChange(
            verb=StateVerb.DELETE if value is None else StateVerb.PUT,
            scope=self._scope,
            key=self._own(key),
            revision=invocation.edition.world.new_id("rev"),
            value=value,
            expected=expected,
            ttl_seconds=None if ttl is None or value is None else round(ttl),
        )
        shape = {"key": key, "value": value, "ttl": ttl, "if_revision": list(expected)}
        made = await _once(invocation, f"state.{self._scope.kind}.put", shape, change)
        entry = made.get("entry") or {}
        return StateWrite(made["ok"], entry.get("revision") or made.get("conflict_revision"))

    def _own(self, key: str) -> str:
        spec = self._invocation.spec
        # No id of a tool has a colon: a family shares nothing with a tool of its name.
        return f"{spec.state_family}:{key}" if spec.state_family else f"{spec.tool_id}/{key}"

    @property
    def _state(self) -> State:
        state = self._invocation.edition.resources.state
        if state is None:
            raise ToolNotConfigured("no values are kept here beyond a task")
        return state


class ToolFiles:
    """The files of the task and of its conversation, by `task://` and `session://`."""

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def read(self, uri: str) -> bytes:
        """Return the current contents of a file.

        Args:
            uri: `task://PATH` or `session://PATH`.

        Raises:
            ValueError: The address is malformed.
            ToolFailed: There is no such file, or it exceeds `limits.read_bytes`.
        """
        self._invocation.check_running()
        most = self._invocation.edition.world.limits.read_bytes
        return await self._invocation.workspace.read(parse_path(uri), most=most)

    async def write(self, uri: str, data: bytes) -> None:
        """Write a file, once even if the function runs again.

        Args:
            uri: `task://PATH` or `session://PATH`. A file that is there is replaced.
            data: Its new contents.

        Raises:
            TypeError: The data is not `bytes`.
            ValueError: The address is malformed.
            ToolFailed: The file or all files together exceed a limit.
        """
        if not isinstance(data, bytes):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        change = await self._invocation.workspace.write(parse_path(uri), data)
        shape = {"uri": uri, "bytes": blake2b(data, digest_size=16).hexdigest()}
        await _once(self._invocation, "workspace.write", shape, WorkspaceChange(files=(change,)))


class ToolMemory(ToolState):
    """A tool's values: of its task, its conversation and its profile."""

    __slots__ = ("profile", "session")

    def __init__(self, invocation: Invocation) -> None:
        super().__init__(invocation)
        log_id = invocation.ledger.held.state.log_id
        self.session = KeptState(invocation, Scope(ScopeKind.SESSION, log_id))
        """The tool's values of the conversation."""
        profile_id = invocation.caller.profile.profile_id
        self.profile = KeptState(invocation, Scope(ScopeKind.PROFILE, profile_id))
        """The tool's values of the profile."""


class OutputKeeper:
    """Stores bytes that a tool made.

    Each file has a record of its own, so that erasing the conversation finds its bytes even if the
    call failed or was cancelled before it had an outcome.
    """

    __slots__ = ("_invocation",)

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def put(self, data: bytes, mime: str, name: str | None = None) -> StoredFile:
        """Store bytes. People see them with the result, an image as an image.

        Args:
            data: The bytes.
            mime: Their type, such as `image/png`.
            name: A file name for people who download them.

        Returns:
            The file as the log names it.

        Raises:
            TypeError: The data is not `bytes`.
            ValueError: The type is malformed.
        """
        if not isinstance(data, bytes):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        invocation, mime = self._invocation, mime_of(mime)
        shape = {"mime": mime, "name": name, "bytes": blake2b(data, digest_size=16).hexdigest()}
        path = invocation.place(KEEP, shape, Effect.WRITE)
        settled = invocation.ledger.find(path)
        if settled is None:
            shown = invocation.caller.secrets.bytes(data)
            kept = await invocation.edition.resources.artifacts.keep(shown, mime, name=name)
            files = redacted_files((kept,), invocation.caller.secrets)
            settled = invocation.record(path, KEEP, Envelope.success(None), files=files)
        (stored,) = settled.files
        if stored not in invocation.files:
            invocation.files.append(stored)
        return stored


async def secret_of(invocation: Invocation, key: str, shared: str | None) -> str:
    """Return a secret. From now on it is redacted in all records of the task."""
    vault = invocation.edition.resources.vault
    if vault is None:
        raise ToolNotConfigured("no secrets are kept here")
    scope = Scope(ScopeKind.PROFILE, invocation.caller.profile.profile_id)
    if shared is not None:
        scope = Scope(ScopeKind.SHARED, shared)
    try:
        value = await vault.get(scope, key)
    except VaultNotFound:
        notes = [each for each in await vault.notes() if each.key == key]
        of_all = [each.scope for each in notes if each.scope.kind is ScopeKind.SHARED]
        if shared is not None or len(of_all) != 1:
            raise
        scope = of_all[0]
        value = await vault.get(scope, key)
    # Recorded and known to the redactor before the tool gets it, so no record can contain it.
    invocation.check_running()
    note_given(invocation.ledger, invocation.call.path, scope, key)
    invocation.caller.secrets.add(key, value)
    return value


async def _once(invocation: Invocation, name: str, shape: Json, change: Change) -> Json:
    """Make a change exactly once, in the transaction that records it."""
    path = invocation.place(name, shape, Effect.WRITE)
    settled = invocation.ledger.find(path)
    if settled is None:
        done = CallSettled(tool_id=name, envelope=Envelope.success(None), ran=False)
        settled = await invocation.ledger.change(path, done, change)
    if (error := settled.envelope.error) is not None:
        raise ToolFailed(error.message, details=error.details)
    made: Json = settled.envelope.output or {}
    return made


TYPE_CHARACTERS = 128
MESSAGE_CHARACTERS = 4096
MIME = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}(; ?[\w-]{1,64}=[\w.+-]{1,127}){0,4}", re.ASCII)


def checked_note(note: NoteEmitted) -> NoteEmitted:
    """Return a valid event for the timeline. Raises ValueError and TypeError."""
    event_type = _text(note.event_type, "event_type")
    if not 1 <= len(event_type) <= TYPE_CHARACTERS or any(map(str.isspace, event_type)):
        size = f"1 to {TYPE_CHARACTERS} characters without spaces"
        raise ValueError(f"event_type must have {size}, not {event_type!r}")
    if note.level not in NOTE_LEVELS:
        raise ValueError(f"level must be one of {', '.join(NOTE_LEVELS)}, not {note.level!r}")
    if note.message is not None and len(_text(note.message, "message")) > MESSAGE_CHARACTERS:
        raise ValueError(f"message must have at most {MESSAGE_CHARACTERS} characters")
    payload = given_json(note.payload, JSON_DEPTH, "payload")
    if is_larger(payload, EVENT_BYTES):
        raise ValueError(f"payload must have at most {size_text(EVENT_BYTES)} as JSON")
    return replace(note, payload=payload)


def question_form(
    options: Sequence[str | Option] | None, schema: Mapping[str, Any] | None
) -> QuestionForm:
    """Return how a question may be answered. Raises ValueError and TypeError."""
    chosen = tuple(_option(each) for each in options or ())
    values = [each.value for each in chosen]
    # Two equal values could not be told apart in the answer.
    if len(set(values)) < len(values):
        raise ValueError(f"options must be unique, found {values!r}")
    if schema is None:
        return QuestionForm(options=chosen, typed=_select(values) if values else None)
    if not isinstance(schema, Mapping):
        raise TypeError(f"schema must be a JSON Schema, not {schema!r}")
    try:
        Schema(dict(schema))
    except ValueError as error:
        raise ValueError(f"schema is not a JSON Schema: {error}") from None
    return QuestionForm(options=chosen, schema=dict(schema))


def _select(values: Sequence[str]) -> Json:
    """Return the type of a question with options. Free text is an answer only with OTHER."""
    return {"type": "select"} | ({"allowCustom": True} if OTHER in values else {})


def question_text(question: str) -> str:
    """Return the text of a question. Raises ValueError if it is blank, TypeError if no text."""
    if not _text(question, "question").strip():
        raise ValueError("question must not be blank")
    return question


def mime_of(mime: str) -> str:
    """Return a media type. Raises ValueError if it is malformed."""
    if not MIME.fullmatch(_text(mime, "mime")):
        raise ValueError(f"mime must be a type such as image/png, not {mime!r}")
    return mime


def _option(option: str | Option) -> Option:
    if isinstance(option, Option):
        return option
    if not _text(option, "an option").strip():
        raise ValueError("an option must not be blank")
    return Option(label=option, value=option)


def _text(value: Any, noun: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{noun} must be a text, not {value!r}")
    return value
