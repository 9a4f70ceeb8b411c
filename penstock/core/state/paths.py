"""The addresses of files: `task://` and `session://`, and nothing of the machine."""

import unicodedata

from msgspec import Struct

from penstock.core.state.scope import ScopeKind

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
