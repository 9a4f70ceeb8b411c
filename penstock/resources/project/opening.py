"""Opens files of a project so that no link, created at the same time, leads out of it.

A path here was resolved before, so it contains no links. Each of its names is opened relative to
the descriptor of the folder above (`openat` with O_NOFOLLOW): a link that appeared since is an
error. Where the system has no `openat`, the path is resolved once more and compared, which leaves a
short race. A file is written under another name in the same folder and renamed, so that readers see
the old or the new one. Proof: tests/resources/project/test_opening.py.
"""

import itertools
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

STEP_BY_STEP = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_UNFOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NONBLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a named pipe would block until another process opens it."""
_MODE = 0o666
_numbers = itertools.count(1)
_UNFINISHED = ".penstock-"
_UNFINISHED_NAME = re.compile(r"\..*\.penstock-[0-9]+-[0-9]+", re.DOTALL)


def open_to_read(root: Path, path: str, *, by_steps: bool = STEP_BY_STEP) -> BinaryIO:
    """Open a regular file. Raises OSError; IsADirectoryError for anything but a regular file."""
    with folder_of(root, path, by_steps=by_steps) as (folder, name):
        place = os.open(name, os.O_RDONLY | _UNFOLLOWED | _NONBLOCKING, dir_fd=folder)
    file = os.fdopen(place, "rb")
    if not stat.S_ISREG(os.fstat(place).st_mode):
        file.close()
        raise IsADirectoryError(path)
    return file


def replace_file(root: Path, path: str, content: bytes, *, by_steps: bool = STEP_BY_STEP) -> bool:
    """Write a file whole or not at all, and make its folders; returns whether it is new.

    Raises OSError. An existing file keeps its permissions.
    """
    with folder_of(root, path, make=True, by_steps=by_steps) as (folder, name):
        before = _found(folder, name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise IsADirectoryError(path)
        unfinished = unfinished_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _UNFOLLOWED | getattr(os, "O_BINARY", 0)
        place = os.open(unfinished, flags, _MODE, dir_fd=folder)
        try:
            with os.fdopen(place, "wb") as file:
                if before is not None and hasattr(os, "fchmod"):
                    os.fchmod(place, stat.S_IMODE(before.st_mode))
                file.write(content)
            os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise
    return before is None


def set_folder_mode(root: Path, path: str, mode: int) -> None:
    """Change the mode of a folder, also of one that may not be read. Raises OSError.

    A link in its place is refused. Linux only: a mode is set by way of the descriptor in `/proc`,
    because `fchmod` needs a folder that was opened for reading.
    """
    with folder_of(root, path) as (folder, name):
        place = os.open(name, os.O_PATH | _FOLDER | _UNFOLLOWED, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{place}").chmod(mode)
    finally:
        os.close(place)


@contextmanager
def folder_of(
    root: Path, path: str, *, make: bool = False, by_steps: bool = STEP_BY_STEP
) -> Iterator[tuple[int | None, str]]:
    """Open the folder of a file; yields its descriptor and the name in it, or None and a path."""
    *folders, name = path.split("/")
    if not name:
        raise IsADirectoryError(path)
    if not by_steps:
        yield None, _looked_up(root, path, make=make)
        return
    place = os.open(root, os.O_RDONLY | _FOLDER)
    try:
        for folder in folders:
            below = _step(place, folder, make=make)
            os.close(place)
            place = below
        yield place, name
    finally:
        os.close(place)


def _step(place: int, name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=place)
    return os.open(name, os.O_RDONLY | _FOLDER | _UNFOLLOWED, dir_fd=place)


def _looked_up(root: Path, path: str, *, make: bool) -> str:
    whole = root / path
    if make:
        whole.parent.mkdir(parents=True, exist_ok=True)
    if os.path.realpath(whole) != str(whole):
        raise NotADirectoryError(path)
    return str(whole)


def _found(folder: int | None, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def remove_unfinished(root: Path, path: str) -> None:
    """Remove an unfinished file that a killed process left.

    The caller holds the lock of the folder, so no living process is writing it. Does nothing if it
    is a folder, or gone.
    """
    with suppress(OSError), folder_of(root, path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def is_unfinished(name: str) -> bool:
    """Whether a name comes from `unfinished_name`."""
    return _UNFINISHED in name and _UNFINISHED_NAME.fullmatch(name) is not None


def unfinished_name(name: str) -> str:
    """Return the name of a file while it is written: short, hidden, in the same folder."""
    head, tail = os.path.split(name)
    before = os.path.join(head, f".{tail[:40]}")  # noqa: PTH118  it may be relative to a descriptor
    return f"{before}{_UNFINISHED}{os.getpid()}-{next(_numbers)}"
