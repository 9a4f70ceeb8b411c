"""What a command changed in its copy of a project, taken over where the agent may write.

An enclosed command never writes to the project. It writes to the upper folder of an overlayfs
mount, and when all its processes have ended, `take_changes` walks that folder and does to the
project what the same Access lets `write` do: each file, link and removal is judged by its own path.
How a command arrived at a change, by renaming a parent, a link, an archive, does not matter.

It relies on the format of overlayfs with the option `userxattr` (overlayfs.rst of the kernel's
documentation): a removed name is a character device 0:0, a folder that hides another has the mark
 `user.overlay.opaque`, and renames of folders are copies. It relies on nothing else running
in the upper folder. Files are moved where both lie on one file system, else copied without holes.

A process that is killed here leaves some changes undone: each file and link is as it was or as it
was to be, and nothing goes on with the rest. A copy that was cut lies beside its file, under a name
of `unfinished_name`, until the fence of the next command finds it.
Proof: tests/promises/test_ways_around.py, tests/promises/test_killed_takeover.py.
"""

import filecmp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from penstock.resources.project.access import PROTECTED
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.hidden import FileId, id_of
from penstock.resources.project.opening import folder_of, set_folder_mode, unfinished_name
from penstock.resources.project.turns import takeover, turn

NO_FILE = "is no file, folder or link."
MOST_DEPTH = 256
_OPAQUE, _OWN_ATTRIBUTES = "user.overlay.opaque", "user.overlay."
_RIGHTS = 0o777
"""Of a mode that are kept: no set-user-id, no set-group-id."""
_REACHABLE = 0o700
_CHUNK = 1 << 20
_OTHER_DISK = 18


class Refused(Struct, frozen=True, kw_only=True):
    """A change that was not taken over."""

    path: str
    """From the project's folder."""
    why: str
    """What a refusal says behind the path."""

    def __str__(self) -> str:
        """Return the sentence, whatever bytes the name is made of."""
        return f'"{os.fsencode(self.path).decode(errors="backslashreplace")}" {self.why}'


def take_changes(files: ProjectFiles, upper: Path) -> list[Refused]:
    """Do to the project what was done in the upper folder; returns what was not done, by path.

    Of one project one at a time: what this has judged, no other takeover replaces meanwhile.
    """
    with takeover(files.root):
        files.access.loaded.refresh()
        return _Taking(files, upper).done()


class _Taking:
    def __init__(self, files: ProjectFiles, upper: Path) -> None:
        self._files, self._access, self._root = files, files.access, files.root
        self._upper = upper
        self._refused: dict[str, str] = {}
        self._twins: frozenset[FileId] | None = None
        """Hidden files that have other names; None until a file with other names is met."""
        self._modes: list[tuple[str, int]] = []
        """Of new folders: a folder that may not be written is closed when all is in it."""

    def done(self) -> list[Refused]:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            for entry in self._entries(folder):
                path = f"{folder}/{entry.name}" if folder else entry.name
                with self._noting(path):
                    if self._take(path, entry.stat(follow_symlinks=False)):
                        waiting.append(path)
        for path, mode in reversed(self._modes):
            with self._noting(path):
                set_folder_mode(self._root, path, mode)
        return [Refused(path=path, why=why) for path, why in sorted(self._refused.items())]

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        place = self._upper / folder
        with self._noting(folder):
            place.chmod(stat.S_IMODE(place.stat().st_mode) | _REACHABLE)
            with os.scandir(place) as found:
                return sorted(found, key=lambda entry: entry.name)
        return []

    def _take(self, path: str, changed: os.stat_result) -> bool:
        """Take over one name; returns whether it is a folder to look into."""
        mode = changed.st_mode
        if stat.S_ISDIR(mode):
            return self._take_folder(path, stat.S_IMODE(mode) & _RIGHTS)
        if stat.S_ISCHR(mode) and changed.st_rdev == 0:
            self._remove(path)
        elif stat.S_ISLNK(mode):
            self._put(path, self._access.why_no_link(path))
        elif stat.S_ISREG(mode):
            self._put(path, self._access.why_unwritable(path))
        else:
            self._refused[path] = NO_FILE
        return False

    def _take_folder(self, path: str, mode: int) -> bool:
        there = self._there(path)
        if there is not None and not stat.S_ISDIR(there.st_mode):
            if not self._remove(path):
                return False
            there = None
        if there is None:
            why = self._access.why_no_folder(path)
            if path.count("/") >= MOST_DEPTH:
                why = f"is below more than {MOST_DEPTH} folders."
            if why:
                self._refused[path] = why
                return False
            with folder_of(self._root, path) as (folder, name):
                os.mkdir(name, _REACHABLE, dir_fd=folder)
            set_folder_mode(self._root, path, mode | _REACHABLE)
            if mode & _REACHABLE != _REACHABLE:
                self._modes.append((path, mode))
            return True
        if _is_opaque(self._upper / path):
            kept = {entry.name for entry in self._entries(path)}
            for name in sorted({*self._names(path)} - kept):
                self._remove(f"{path}/{name}")
        if stat.S_IMODE(there.st_mode) & _RIGHTS != mode:
            self._chmod_later(path, mode)
        return True

    def _chmod_later(self, path: str, mode: int) -> None:
        """Change the mode of a folder that was there, unless authored files depend on it."""
        why = self._access.why_no_link(path)
        if why:
            self._refused[path] = why
        else:
            self._modes.append((path, mode))

    def _put(self, path: str, why: str) -> None:
        """Put a file or a link in its place, unless there is a reason not to."""
        there = self._there(path)
        if why := why or self._why_hidden(there):
            # no comparison with what is hidden: its outcome would confirm a guess
            is_hidden = self._access.hides(path) or self._why_hidden(there)
            if is_hidden or not self._is_same(path):
                self._refused[path] = why
            return
        if there is not None and stat.S_ISDIR(there.st_mode) and not self._remove(path):
            return
        source = self._upper / path
        if not source.is_symlink():
            _strip(source)
        with turn(self._root, path), folder_of(self._root, path) as (folder, name):
            _move(source, folder, name)

    def _remove(self, path: str) -> bool:
        """Remove what was there, with all below; returns whether nothing is left of it.

        Folders may be nested deeper than calls can be.
        """
        below, waiting = list[str](), [path]
        while waiting:
            below.append(each := waiting.pop())
            there = self._there(each)
            if there is not None and stat.S_ISDIR(there.st_mode):
                self._unlock(each, stat.S_IMODE(there.st_mode))
                waiting += [f"{each}/{name}" for name in self._names(each)]
        for each in reversed(below):
            with self._noting(each):
                self._remove_one(each)
        return self._there(path) is None

    def _unlock(self, path: str, mode: int) -> None:
        """Let a folder be listed and emptied that is to be removed, if its mode is in the way."""
        if mode & _REACHABLE != _REACHABLE and not self._access.why_no_folder(path):
            set_folder_mode(self._root, path, mode | _REACHABLE)

    def _remove_one(self, path: str) -> None:
        there = self._there(path)
        if there is None:
            return
        is_folder = stat.S_ISDIR(there.st_mode)
        judge = self._access.why_no_folder if is_folder else self._access.why_unwritable
        if why := judge(path) or self._why_hidden(there):
            self._refused[path] = why
            return
        with turn(self._root, path), folder_of(self._root, path) as (folder, name):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif not self._names(path):
                os.rmdir(name, dir_fd=folder)

    def _why_hidden(self, there: os.stat_result | None) -> str:
        """Return what a refusal says of another name of a hidden file; nothing of all others.

        One walk for all: each removal of a name changes the file's time, which `HiddenFiles.has`
        takes for a reason to walk again.
        """
        if there is None or stat.S_ISDIR(there.st_mode) or there.st_nlink == 1:
            return ""
        if self._twins is None:
            self._twins = self._files.hidden_twins()
        return PROTECTED if id_of(there) in self._twins else ""

    def _names(self, path: str) -> list[str]:
        return sorted(each.name for each in (self._root / path).iterdir())

    def _there(self, path: str) -> os.stat_result | None:
        try:
            return (self._root / path).lstat()
        except FileNotFoundError:
            return None

    def _is_same(self, path: str) -> bool:
        """Whether a file was opened to be written, and was not changed."""
        mine, theirs, there = self._root / path, self._upper / path, self._there(path)
        if there is None or there.st_mode != theirs.lstat().st_mode:
            return False
        if stat.S_ISLNK(there.st_mode):
            return mine.readlink() == theirs.readlink()
        return stat.S_ISREG(there.st_mode) and filecmp.cmp(mine, theirs, shallow=False)

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """Note what the system does not do, and go on with the rest."""
        try:
            yield
        except OSError as error:
            self._refused[path] = f"cannot be changed: {error.strerror or error}."


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _strip(file: Path) -> None:
    """Take from a file what only overlayfs, or a user of other rights, has use for."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & ~_RIGHTS:
        file.chmod(mode & _RIGHTS)
    with suppress(OSError):
        for name in os.listxattr(file):
            if name.startswith(_OWN_ATTRIBUTES):
                os.removexattr(file, name)


def _move(source: Path, folder: int | None, name: str) -> None:
    """Move a file or a link into a folder, also from another disk."""
    try:
        os.rename(source, name, dst_dir_fd=folder)
    except OSError as error:
        if error.errno != _OTHER_DISK:
            raise
        _copy(source, folder, name)


def _copy(source: Path, folder: int | None, name: str) -> None:
    unfinished = unfinished_name(name)
    try:
        if source.is_symlink():
            os.symlink(source.readlink(), unfinished, dir_fd=folder)
        else:
            _copy_file(source, folder, unfinished)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _copy_file(source: Path, folder: int | None, name: str) -> None:
    """Copy bytes, times and rights of a file, and leave its holes out."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    found = source.stat()
    with source.open("rb", buffering=0) as given:
        made = os.open(name, flags, _REACHABLE, dir_fd=folder)
        try:
            for start, end in _pieces(given.fileno(), found.st_size):
                _copy_piece(given.fileno(), made, start, end)
            os.ftruncate(made, found.st_size)
            os.fchmod(made, stat.S_IMODE(found.st_mode) & _RIGHTS)
            os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(made)


def _pieces(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of a file are that are no hole."""
    at = 0
    while at < size:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(file, start, os.SEEK_HOLE)
        yield start, at


def _copy_piece(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        content = os.pread(source, min(_CHUNK, end - start), start)
        if not content:
            return
        start += os.pwrite(target, content, start)
