"""Stored values, and the changes that calls make to values, files and media.

A change is written in the transaction that records the call which makes it. `changed` applies a
change to a value by the same rules in the database, in tests and in trials.
"""

import json
from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment, to_iso
from penstock.core.ids import BlobId, MediaId, ProfileId
from penstock.core.json_values.json_text import compact
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.subjects import SubjectChange


class StateVerb(StrEnum):
    """How a change writes a value."""

    PUT = "put"
    PATCH = "patch"
    APPEND = "append"
    DELETE = "delete"


class StateChange(Struct, frozen=True, kw_only=True):
    """One write to the State."""

    verb: StateVerb
    scope: Scope
    key: str
    revision: str
    """The revision of the new value. The caller chooses it, because a transaction may run twice."""
    value: Any = None
    """The new value, the patch, or the item to append."""
    expected: tuple[str | None, ...] = ()
    """The required current revision; `(None,)` requires no value, empty requires nothing."""
    ttl_seconds: int | None = None


class FileChange(Struct, frozen=True, kw_only=True):
    """A file to write completely, or to delete."""

    scope: Scope
    path: str
    blob_id: BlobId | None
    """The bytes, which are in the blob store already; None deletes the file."""
    size: int = 0
    replaces: bool = True
    """Whether an existing file may be replaced."""
    expected: tuple[str | None, ...] = ()
    """The required `name_of` the current bytes; `(None,)` requires no file, empty nothing."""


class WorkspaceChange(Struct, frozen=True, kw_only=True):
    """Files that are all written, or none of them."""

    files: tuple[FileChange, ...]


class Revert(Struct, frozen=True, kw_only=True, gc=False):
    """A revert that a tool declares, as the log has it beside the outcome of a call."""

    tool_id: str
    """The tool that takes the call back. It gets `{input, output}`."""
    input: str | None
    """The input that the tool ran with, as JSON; None if it contained a secret."""
    agent: str = ""
    """The agent whose call it was: the revert may be one of its own tools."""


class Replaced(Struct, frozen=True, kw_only=True, gc=False):
    """A value or a file that a change replaced, as the log has it for an undo.

    Bytes have the names of `name_of`: ids of blobs would count as references to them.
    """

    scope: Scope
    name: str
    """The key of the value, or the path of the file."""
    is_file: bool = False
    left: str | None = None
    """The revision or the bytes that the change left there; None if it removed them."""
    was: str | None = None
    """The revision or the bytes that were there; None if there was nothing."""
    text: str | None = None
    """The value that was there, as JSON; None if it had over UNDO_CHARACTERS."""
    expires_at: Moment | None = None
    """When the value that was there expires."""

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted with its task."""
        return self.scope.kind is ScopeKind.TASK


UNDO_CHARACTERS = 16 * 1024
"""Maximum length of a replaced value, as JSON, that the log keeps for an undo."""
BEFORE = "before"
"""The part of a scope that has replaced files, by the names of their bytes."""


def name_of(blob_id: BlobId) -> str:
    """Return a name for bytes that no search for references finds: half of their id."""
    return blob_id[:32]


class MediaChange(Struct, frozen=True, kw_only=True):
    """Bytes that a profile may use by an id until they expire."""

    media_id: MediaId
    """A new id."""
    profile_id: ProfileId
    blob_id: BlobId
    """The bytes, which are in the blob store already."""
    media_type: str
    size: int
    filename: str | None
    expires_at: Moment


Change = StateChange | WorkspaceChange | MediaChange | SubjectChange


TYPE_ERROR = "TYPE_ERROR"
"""The code of a change that does not fit the current value; scripts see a TypeError."""


class StateEntry(Struct, frozen=True, kw_only=True):
    """A stored value."""

    key: str
    text: str
    """The value as JSON."""
    revision: str
    expires_at: Moment | None = None

    @property
    def value(self) -> Any:
        """The value."""
        return json.loads(self.text)

    def is_over(self, at: Moment) -> bool:
        """Whether it has expired."""
        return self.expires_at is not None and self.expires_at <= at

    def to_wire(self) -> dict[str, Any]:
        """Return the entry for scripts, without the value."""
        wire: dict[str, Any] = {"key": self.key, "revision": self.revision}
        if self.expires_at is not None:
            wire["expires_at"] = to_iso(self.expires_at)
        return wire


class StateOutcome(Struct, frozen=True, kw_only=True):
    """The result of a change."""

    ok: bool
    entry: StateEntry | None = None
    """The new entry; None if there is no value."""
    conflict_revision: str | None = None
    """The current revision, if it is not the expected one."""
    tells_value: bool = False
    """The caller cannot know the new value, so the result contains it."""
    replaced: Replaced | None = None
    """The value that the change replaced; None if it changed nothing."""

    def to_wire(self) -> dict[str, Any]:
        """Return the stored form, without what the caller knows."""
        wire: dict[str, Any] = {"ok": self.ok}
        if self.entry is not None:
            wire["entry"] = self.entry.to_wire()
            if self.tells_value:
                wire["entry"]["value"] = self.entry.value
        if self.conflict_revision is not None:
            wire["conflict_revision"] = self.conflict_revision
        return wire


def changed(
    current: StateEntry | None, change: StateChange, at: Moment, limits: Limits
) -> StateOutcome:
    """Apply a change to the current value. The result says whether it was made.

    Raises ToolFailed with TYPE_ERROR if the current value has another type, or the new one is too
    large.
    """
    if current is not None and current.is_over(at):
        current = None
    revision = None if current is None else current.revision
    if change.expected and change.expected[0] != revision:
        conflict = None if _deletes_nothing(change) else revision
        return StateOutcome(ok=False, conflict_revision=conflict)
    if change.verb is StateVerb.DELETE:
        if current is None:
            return StateOutcome(ok=False)
        return StateOutcome(ok=True, replaced=_replaced(current, change, None))
    text = _text(current, change)
    if len(text.encode()) > limits.state_value_bytes:
        raise ToolFailed(
            f"a value of the state has at most {limits.state_value_bytes} bytes as JSON,"
            f" {change.key!r} would have {len(text.encode())}",
            TYPE_ERROR,
        )
    entry = StateEntry(
        key=change.key,
        text=text,
        revision=change.revision,
        expires_at=_expires_at(current, change, at),
    )
    return StateOutcome(
        ok=True,
        entry=entry,
        tells_value=change.verb is not StateVerb.PUT,
        replaced=_replaced(current, change, change.revision),
    )


def _replaced(current: StateEntry | None, change: StateChange, left: str | None) -> Replaced:
    if current is None or change.scope.kind is ScopeKind.TASK:
        return Replaced(scope=change.scope, name=change.key, left=left)
    return Replaced(
        scope=change.scope,
        name=change.key,
        left=left,
        was=current.revision,
        text=current.text if len(current.text) <= UNDO_CHARACTERS else None,
        expires_at=current.expires_at,
    )


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with a JSON merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _deletes_nothing(change: StateChange) -> bool:
    return change.verb is StateVerb.DELETE and change.expected == (None,)


def _text(current: StateEntry | None, change: StateChange) -> str:
    """Return the new value as JSON. Every error is a ToolFailed: it must not fail the append."""
    try:
        return compact(_value(current, change))
    except (RecursionError, TypeError, ValueError) as error:
        raise ToolFailed(
            f"the value under {change.key!r} is not JSON: {error}", TYPE_ERROR
        ) from None


def _value(current: StateEntry | None, change: StateChange) -> Any:
    if change.verb is StateVerb.PUT:
        return change.value
    if change.verb is StateVerb.PATCH:
        target = {} if current is None else current.value
        if not isinstance(target, dict):
            raise _unfit(change, "patch", "an object", target)
        return merge_patch(target, change.value)
    items = [] if current is None else current.value
    if not isinstance(items, list):
        raise _unfit(change, "append", "an array", items)
    return [*items, change.value]


def _unfit(change: StateChange, verb: str, expected: str, current: Any) -> ToolFailed:
    kind = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    shown = "null" if current is None else kind.get(type(current), "a number")
    return ToolFailed(
        f"{verb} requires {expected} under {change.key!r}, found {shown}; use put to replace it",
        TYPE_ERROR,
    )


def _expires_at(current: StateEntry | None, change: StateChange, at: Moment) -> Moment | None:
    if change.ttl_seconds is not None:
        return Moment(at + 1000 * change.ttl_seconds)
    if change.verb is StateVerb.PUT or current is None:
        return None
    return current.expires_at
