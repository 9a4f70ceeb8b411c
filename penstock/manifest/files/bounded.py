"""Reads files of authors with a size limit; anything but a regular file is refused.

The type is checked before opening, since opening a named pipe would block. At most `most` + 1 bytes
are read, however large the file is or grows. An error that means "too many open files" is raised
and not reported as a mistake in the file. Shown by tests/manifest/files/test_bounded.py.
"""

import stat
from pathlib import Path

from msgspec import Struct

from penstock.core.exhaustion import raise_exhaustion

TOO_LARGE = "file-too-large"


class UnreadReason(Struct, frozen=True, kw_only=True):
    """Why a file was not read, as code and message of a diagnostic."""

    code: str
    message: str
    is_missing: bool = False
    """The file does not exist."""


def read_bounded(path: Path, most: int, what: str = "the file") -> bytes | UnreadReason:
    """Return the content of a file of at most `most` bytes, or why it was not read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _unreadable("it is no file")
        with path.open("rb") as opened:
            content = opened.read(most + 1)
        size = max(path.stat().st_size, len(content))
    except OSError as error:
        raise_exhaustion(error)
        return _unreadable(error.strerror, is_missing=isinstance(error, FileNotFoundError))
    if len(content) <= most:
        return content
    message = f"{what} has {size} bytes; the limit is {most}"
    return UnreadReason(code=TOO_LARGE, message=message)


def _unreadable(why: str | None, *, is_missing: bool = False) -> UnreadReason:
    message = f"the file cannot be read: {why}"
    return UnreadReason(code="file-unreadable", message=message, is_missing=is_missing)
