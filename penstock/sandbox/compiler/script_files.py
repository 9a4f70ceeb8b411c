"""Reads the files of a script from one folder only.

Guarantees that no content outside the folder is returned, for any name and any symlinks. It
resolves the real path, compares it with the real path of the folder, and then opens it. No other
file of the sandbox reads authors' files. It runs in the host before a script starts; a
script cannot reach it. Relies on names without `..`, and on authors not replacing folders by
symlinks between the check and the open. Proof: tests/sandbox/compiler/test_script_files.py.
"""

import io
import os
import stat
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Protocol

MAX_NAMES = 500
_LOOK = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ReadFailure(StrEnum):
    """Why a file could not be read."""

    MISSING = "missing"
    ESCAPES = "escapes"
    """A symlink in the path leads out of the folder."""


class Files(Protocol):
    """The files of one folder; names are relative to it, with `/`.

    Contract: no content outside the folder is returned, for any name and any symlinks. Names
    contain no `..` and do not end with `/`.
    """

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return the content of a file, at most its first `most` bytes."""
        ...

    def names(self) -> Iterable[str]:
        """Return names of existing files, for suggestions. The list may be incomplete."""
        ...


class TrackedFiles:
    """The files of a folder. Records each requested name, including names of missing files."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.asked: set[str] = set()

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return the content of a file and record its name."""
        self.asked.add(name)
        return self._files.read(name, most)

    def names(self) -> Iterable[str]:
        """Return names of existing files."""
        return self._files.names()


class Folder:
    """Files on disk."""

    def __init__(self, root: Path, *, max_names: int = MAX_NAMES) -> None:
        self._root = os.path.realpath(root)
        self._max_names = max_names

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return the content of a file. Anything but a regular file counts as missing."""
        try:
            # Strict: a loop of symlinks raises OSError.
            real = os.path.realpath(f"{self._root}/{name}", strict=True)
            if os.path.commonpath((real, self._root)) != self._root:
                return ReadFailure.ESCAPES
            with open(os.open(real, _LOOK), "rb", buffering=0) as file:  # noqa: PTH123  a pipe must not block
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return ReadFailure.MISSING
                return _read(file, status.st_size, most)
        except (OSError, ValueError):
            return ReadFailure.MISSING

    def names(self) -> Iterable[str]:
        """Walk the folder, without following symlinks."""
        return list(islice(self._walk(), self._max_names))

    def _walk(self) -> Iterable[str]:
        for place, folders, files in os.walk(self._root):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            relative = Path(place).relative_to(self._root)
            yield from ((relative / each).as_posix() for each in sorted(files))


def _read(file: io.FileIO, size: int, most: int) -> bytes:
    """Read to the end, also if the file grows meanwhile. Allocates its size, not `most`."""
    content = file.read(min(size + 1, most)) or b""
    while 0 < len(content) < most and (more := file.read(min(1 << 16, most - len(content)))):
        content += more
    return content
