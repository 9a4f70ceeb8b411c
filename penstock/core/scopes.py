"""The owners of stored values, and the addresses of files.

A scope owns values. A file path is an address inside a task or a conversation, and names nothing
on the machine.
"""

import unicodedata
from enum import StrEnum

from msgspec import Struct


class ScopeKind(StrEnum):
    """The kinds of owners. The values are the wire format."""

    PROFILE = "profile"
    SESSION = "session"
    TASK = "task"
    SHARED = "shared"


class Scope(Struct, frozen=True):
    """The owner of values."""

    kind: ScopeKind
    id: str
    """The id of the profile, conversation or task; for a shared scope the name in the manifest.

    A task can have parts: `task_1/letter` is deleted with `task_1`.
    """

    def part(self, name: str) -> "Scope":
        """Return a scope that is deleted together with this one."""
        return Scope(self.kind, f"{self.id}/{name}")

    def __str__(self) -> str:
        """Return `kind:id`, for messages."""
        return f"{self.kind}:{self.id}"


MAX_BYTES = 512
MAX_SEGMENTS = 32
_MAX_CHARACTERS = 4 * MAX_BYTES
"""Checked before the text is normalized: normalizing a million combining marks takes minutes."""
_KINDS = {"task": ScopeKind.TASK, "session": ScopeKind.SESSION}


class FilePath(Struct, frozen=True):
    """An address in the tree of a task or a conversation; the empty path is the root."""

    kind: ScopeKind
    path: str

    @property
    def name(self) -> str:
        """The last segment."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, below: str) -> "FilePath":
        """Return a path below. Raises ValueError as `parse_path` does."""
        return parse_path(f"{self}/{below}" if self.path else f"{self}{below}")

    def __str__(self) -> str:
        """Return the URI."""
        return f"{self.kind}://{self.path}"


def parse_path(uri: str) -> FilePath:
    """Return the path of a URI. Raises ValueError with the reason if it is not valid."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in _KINDS:
        raise ValueError(f"a path begins with task:// or session://, found {uri!r}")
    if len(rest) > _MAX_CHARACTERS:
        raise ValueError(f"a path has at most {MAX_BYTES} bytes, this has {len(rest)} characters")
    try:
        path = unicodedata.normalize("NFC", rest)
        size = len(f"{scheme}://{path}".encode())
    except UnicodeEncodeError:
        raise ValueError(f"a path is Unicode text without lone surrogates: {uri!r}") from None
    if size > MAX_BYTES:
        raise ValueError(f"a path has at most {MAX_BYTES} bytes, this has {size}")
    if path:
        _check_segments(path, uri)
    return FilePath(_KINDS[scheme], path)


def parents(path: str) -> list[str]:
    """Return the directories above a path, outermost first, without the root."""
    segments = path.split("/")
    return ["/".join(segments[:count]) for count in range(1, len(segments))]


def _check_segments(path: str, uri: str) -> None:
    if "\\" in path or any(unicodedata.category(each) == "Cc" for each in path):
        raise ValueError(f"a path has no backslash and no control character: {uri!r}")
    segments = path.split("/")
    if len(segments) > MAX_SEGMENTS:
        raise ValueError(f"a path has at most {MAX_SEGMENTS} segments, this has {len(segments)}")
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"a path has no segment {segment!r}: {uri!r}")
