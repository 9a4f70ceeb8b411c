"""Stored values and files: their owners, their addresses, and the changes that calls make to them.

A scope owns values. A file path is an address inside a task or a conversation, and names nothing
on the machine. A change is written in the transaction that records the call which makes it.
"""

import unicodedata
from enum import StrEnum
from typing import Any

from msgspec import Struct

from penstock.core.clock import Moment
from penstock.core.ids import BlobId, MediaId, ProfileId


class ScopeKind(StrEnum):
    """The kinds of owners. The values are the wire format."""

    PROFILE = "profile"
    SESSION = "session"
    TASK = "task"
    SHARED = "shared"


class Scope(Struct, frozen=True):
    """An owner of values."""

    kind: ScopeKind
    id: str
    """Of the profile, the conversation or the task; of what is shared the name that authors gave.

    What belongs to a task may be kept in parts: `task_1/letter` goes with `task_1`.
    """

    def part(self, name: str) -> "Scope":
        """Return a scope beside this one that goes when this one goes."""
        return Scope(self.kind, f"{self.id}/{name}")

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.kind}:{self.id}"


MOST_BYTES = 512
MOST_SEGMENTS = 32
_MOST_CHARACTERS = 4 * MOST_BYTES
"""Before marks are put together with their letters: to sort a million of them takes minutes."""
_KINDS = {"task": ScopeKind.TASK, "session": ScopeKind.SESSION}


class FilePath(Struct, frozen=True):
    """A place in one of the two trees; the empty path is the root."""

    kind: ScopeKind
    path: str

    @property
    def name(self) -> str:
        """The last segment."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, below: str) -> "FilePath":
        """Return a place below; raises ValueError as `parse` does."""
        return parse_path(f"{self}/{below}" if self.path else f"{self}{below}")

    def __str__(self) -> str:
        """Return the URI."""
        return f"{self.kind}://{self.path}"


def parse_path(uri: str) -> FilePath:
    """Read a URI. Raises ValueError that says what is wrong with it."""
    scheme, found, rest = uri.partition("://")
    if not found or scheme not in _KINDS:
        raise ValueError(f"a path begins with task:// or session://, found {uri!r}")
    if len(rest) > _MOST_CHARACTERS:
        raise ValueError(f"a path has at most {MOST_BYTES} bytes, this has {len(rest)} characters")
    try:
        path = unicodedata.normalize("NFC", rest)
        size = len(f"{scheme}://{path}".encode())
    except UnicodeEncodeError:
        raise ValueError(f"a path is Unicode text without lone surrogates: {uri!r}") from None
    if size > MOST_BYTES:
        raise ValueError(f"a path has at most {MOST_BYTES} bytes, this has {size}")
    if path:
        _check_segments(path, uri)
    return FilePath(_KINDS[scheme], path)


def parents(path: str) -> list[str]:
    """Return the directories above a path, the root left out, outermost first."""
    segments = path.split("/")
    return ["/".join(segments[:count]) for count in range(1, len(segments))]


def _check_segments(path: str, uri: str) -> None:
    if "\\" in path or any(unicodedata.category(each) == "Cc" for each in path):
        raise ValueError(f"a path has no backslash and no control character: {uri!r}")
    segments = path.split("/")
    if len(segments) > MOST_SEGMENTS:
        raise ValueError(f"a path has at most {MOST_SEGMENTS} segments, this has {len(segments)}")
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"a path has no segment {segment!r}: {uri!r}")


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
