"""The bytes of a file that somebody wrote, up to a limit."""

import stat
from pathlib import Path

from msgspec import Struct

from penstock.core.exhaustion import raise_exhaustion

TOO_LARGE = "file-too-large"


class UnreadReason(Struct, frozen=True, kw_only=True):
    """Why a file was not read, as a finding says it."""

    code: str
    message: str
    is_missing: bool = False
    """There is nothing of that name."""


def read_bounded(path: Path, most: int, what: str = "the file") -> bytes | UnreadReason:
    """Return the whole of a file of at most so many bytes; no more than that is ever read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _unreadable("it is no file")
        with path.open("rb") as opened:
            content = opened.read(most + 1)
        size = max(path.stat().st_size, len(content))
    except OSError as error:
        raise_exhaustion(error)  # it is no mistake in the file
        return _unreadable(error.strerror, is_missing=isinstance(error, FileNotFoundError))
    if len(content) <= most:
        return content
    message = f"{what} has {size} bytes; the limit is {most}"
    return UnreadReason(code=TOO_LARGE, message=message)


def _unreadable(why: str | None, *, is_missing: bool = False) -> UnreadReason:
    message = f"the file cannot be read: {why}"
    return UnreadReason(code="file-unreadable", message=message, is_missing=is_missing)
