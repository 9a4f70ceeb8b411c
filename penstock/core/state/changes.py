"""What a call changes in the stores of the runtime, written in the transaction that records it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.ids import BlobId, MediaId, ProfileId
from penstock.core.state.scope import Scope


class StateVerb(StrEnum):
    """What is done to a value."""

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
    """A new name for what will be there, from whoever asks: a transaction may run twice."""
    value: Any = None
    """What is put, the patch, or the item."""
    expected: tuple[str | None, ...] = ()
    """The revision that must be there, None for nothing; empty: whatever is there."""
    ttl_seconds: int | None = None


class FileChange(Struct, frozen=True, kw_only=True):
    """One file written whole, or removed."""

    scope: Scope
    path: str
    blob_id: BlobId | None
    """The bytes, which are in the blob store already; None removes the file."""
    size: int = 0
    replaces: bool = True
    """A file that is there already may be written over."""


class FileChanges(Struct, frozen=True, kw_only=True):
    """Files that are written together, or none of them."""

    files: tuple[FileChange, ...]


class MediaChange(Struct, frozen=True, kw_only=True):
    """Bytes that a profile may use by an id, for a while."""

    media_id: MediaId
    """A new one."""
    profile_id: ProfileId
    blob_id: BlobId
    """The bytes, which are in the blob store already."""
    media_type: str
    size: int
    filename: str | None
    expires_at: Moment


Change = StateChange | FileChanges | MediaChange
