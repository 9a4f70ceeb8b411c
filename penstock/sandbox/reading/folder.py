"""Where the files of a script come from: a folder, and nothing outside it.

This is the one file of the sandbox that reads what authors wrote. It reads on behalf of the host,
before a script runs; a script itself never sees it.
"""

import io
import os
import stat
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Protocol

MOST_NAMES = 500
_LOOK = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ReadFailure(StrEnum):
    """Why there is no content."""

    MISSING = "missing"
    ESCAPES = "escapes"
    """A symlink on the way leads out of the folder."""


class Files(Protocol):
    """The files of one folder; names are relative to it, with `/`.

    Contract: nothing outside the folder is ever returned, whatever the name and wherever symlinks
    lead. A name ends in no `/` and has no `..` in it.
    """

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return what a file holds, or the first bytes of it, `most` at most."""
        ...

    def names(self) -> Iterable[str]:
        """Return names of files that are there, for a hint; not all of them if they are many."""
        ...


class TrackedFiles:
    """The files of a folder; each name that was asked for is noted, also if it is missing."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.asked: set[str] = set()

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return what the file holds."""
        self.asked.add(name)
        return self._files.read(name, most)

    def names(self) -> Iterable[str]:
        """Return names of files that are there."""
        return self._files.names()


class Folder:
    """Files on disk."""

    def __init__(self, root: Path, *, most_names: int = MOST_NAMES) -> None:
        self._root = os.path.realpath(root)
        self._most_names = most_names

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return what a file holds; what is no file, such as a pipe, is missing."""
        try:
            # Strict, so a loop of symlinks is an error here and not a wait.
            real = os.path.realpath(f"{self._root}/{name}", strict=True)
            if os.path.commonpath((real, self._root)) != self._root:
                return ReadFailure.ESCAPES
            with open(os.open(real, _LOOK), "rb", buffering=0) as file:  # noqa: PTH123  a pipe must not block
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return ReadFailure.MISSING
                return _read(file, found.st_size, most)
        except (OSError, ValueError):
            return ReadFailure.MISSING

    def names(self) -> Iterable[str]:
        """Walk the folder, without following symlinks."""
        return list(islice(self._walk(), self._most_names))

    def _walk(self) -> Iterable[str]:
        for place, folders, files in os.walk(self._root):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            relative = Path(place).relative_to(self._root)
            yield from ((relative / each).as_posix() for each in sorted(files))


def _read(file: io.FileIO, size: int, most: int) -> bytes:
    """Read to the end, also of a file that grows meanwhile; memory is taken for what is there."""
    content = file.read(min(size + 1, most)) or b""
    while 0 < len(content) < most and (more := file.read(min(1 << 16, most - len(content)))):
        content += more
    return content
