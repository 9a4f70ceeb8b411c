"""Applies the changes of a shell command to the project, where the agent may write.

A command never writes to the project itself. It writes to the upper folder of an overlayfs mount.
When all its processes have ended, `take_changes` walks that folder and applies each change that
`write` could make with the same Access: every file, link and removal is judged by its own path. How
the command made the change (a renamed parent, a link, an archive) does not matter.

It relies on the format of overlayfs with the option `userxattr` (overlayfs.rst in the kernel's
documentation): a removed name is a character device 0:0, a folder that replaces another has the
attribute `user.overlay.opaque`, and a renamed folder is a copy. It relies on no process running in
the upper folder. A file is moved if both folders are on one file system, else copied without its
holes.

A process that is killed here leaves some changes unapplied: each file and link is either old or
new, and nothing applies the rest. An interrupted copy stays beside its file, under a name of
`unfinished_name`, until the fence of the next command removes it.
Proof: tests/promises/test_ways_around.py, tests/promises/test_killed_takeover.py.
"""

import filecmp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from penstock.resources.project.access import PROTECTED, FileId, id_of
from penstock.resources.project.files import ProjectFiles, file_lock, takeover_lock
from penstock.resources.project.opening import folder_of, set_folder_mode, unfinished_name

NO_FILE = "is not a file, folder or link."
MAX_DEPTH = 256
_OPAQUE, _OWN_ATTRIBUTES = "user.overlay.opaque", "user.overlay."
_RIGHTS = 0o777
"""The bits of a mode that are applied: no set-user-id, no set-group-id."""
_REACHABLE = 0o700
_CHUNK = 1 << 20
_OTHER_DISK = 18


class Refused(Struct, frozen=True, kw_only=True):
    """A change that was not applied."""

    path: str
    """Relative to the project's folder."""
    why: str
    """The rest of the sentence that begins with the path."""

    def __str__(self) -> str:
        """Return the sentence, whatever bytes the name is made of."""
        return f'"{os.fsencode(self.path).decode(errors="backslashreplace")}" {self.why}'


def take_changes(files: ProjectFiles, upper: Path) -> list[Refused]:
    """Apply the changes of the upper folder, and return those that were refused, by path.

    It holds the project's takeover lock, so no other takeover replaces a file that was judged here.
    """
    with takeover_lock(files.root):
        files.access.loaded.refresh()
        return _Taking(files, upper).done()


class _Taking:
    def __init__(self, files: ProjectFiles, upper: Path) -> None:
        self._files, self._access, self._root = files, files.access, files.root
        self._upper = upper
        self._refused: dict[str, str] = {}
        self._twins: frozenset[FileId] | None = None
        """Hidden files with several names; None until the walk meets a file with several names."""
        self._modes: list[tuple[str, int]] = []
        """Modes of folders, set last: a read-only folder must first receive its files."""

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
            with os.scandir(place) as listed:
                return sorted(listed, key=lambda entry: entry.name)
        return []

    def _take(self, path: str, changed: os.stat_result) -> bool:
        """Apply the change of one name; returns whether it is a folder to walk."""
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
        present = self._there(path)
        if present is not None and not stat.S_ISDIR(present.st_mode):
            if not self._remove(path):
                return False
            present = None
        if present is None:
            why = self._access.why_no_folder(path)
            if path.count("/") >= MAX_DEPTH:
                why = f"is below more than {MAX_DEPTH} folders."
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
        if stat.S_IMODE(present.st_mode) & _RIGHTS != mode:
            self._chmod_later(path, mode)
        return True

    def _chmod_later(self, path: str, mode: int) -> None:
        """Set the mode of an existing folder at the end, unless the folder is protected."""
        why = self._access.why_no_link(path)
        if why:
            self._refused[path] = why
        else:
            self._modes.append((path, mode))

    def _put(self, path: str, why: str) -> None:
        """Put a file or a link into the project; `why` is the reason to refuse it, or empty."""
        present = self._there(path)
        if why := why or self._why_hidden(present):
            # a hidden file is not compared: the outcome would confirm a guess of its content
            is_hidden = self._access.hides(path) or self._why_hidden(present)
            if is_hidden or not self._is_same(path):
                self._refused[path] = why
            return
        if present is not None and stat.S_ISDIR(present.st_mode) and not self._remove(path):
            return
        source = self._upper / path
        if not source.is_symlink():
            _strip(source)
        with file_lock(self._root, path), folder_of(self._root, path) as (folder, name):
            _move(source, folder, name)

    def _remove(self, path: str) -> bool:
        """Remove a name with everything below it; returns whether all of it is gone.

        It does not recurse: folders may be nested deeper than Python's call stack.
        """
        below, waiting = list[str](), [path]
        while waiting:
            below.append(each := waiting.pop())
            present = self._there(each)
            if present is not None and stat.S_ISDIR(present.st_mode):
                self._unlock(each, stat.S_IMODE(present.st_mode))
                waiting += [f"{each}/{name}" for name in self._names(each)]
        for name in reversed(below):
            with self._noting(name):
                self._remove_one(name)
        return self._there(path) is None

    def _unlock(self, path: str, mode: int) -> None:
        """Make a folder readable and writable, so that it can be emptied and removed."""
        if mode & _REACHABLE != _REACHABLE and not self._access.why_no_folder(path):
            set_folder_mode(self._root, path, mode | _REACHABLE)

    def _remove_one(self, path: str) -> None:
        present = self._there(path)
        if present is None:
            return
        is_folder = stat.S_ISDIR(present.st_mode)
        judge = self._access.why_no_folder if is_folder else self._access.why_unwritable
        if why := judge(path) or self._why_hidden(present):
            self._refused[path] = why
            return
        with file_lock(self._root, path), folder_of(self._root, path) as (folder, name):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif not self._names(path):
                os.rmdir(name, dir_fd=folder)

    def _why_hidden(self, present: os.stat_result | None) -> str:
        """Return why a hard link of a hidden file is refused; an empty text for any other file.

        It walks the project once for all names. `HiddenFiles.has` would walk again after each
        removal, because removing one name changes the `st_ctime` of the others.
        """
        if present is None or stat.S_ISDIR(present.st_mode) or present.st_nlink == 1:
            return ""
        if self._twins is None:
            self._twins = self._files.hidden_twins()
        return PROTECTED if id_of(present) in self._twins else ""

    def _names(self, path: str) -> list[str]:
        return sorted(each.name for each in (self._root / path).iterdir())

    def _there(self, path: str) -> os.stat_result | None:
        try:
            return (self._root / path).lstat()
        except FileNotFoundError:
            return None

    def _is_same(self, path: str) -> bool:
        """Whether a file was copied up but has its old mode and content."""
        mine, theirs, present = self._root / path, self._upper / path, self._there(path)
        if present is None or present.st_mode != theirs.lstat().st_mode:
            return False
        if stat.S_ISLNK(present.st_mode):
            return mine.readlink() == theirs.readlink()
        return stat.S_ISREG(present.st_mode) and filecmp.cmp(mine, theirs, shallow=False)

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """Record an error of the system as a refusal, and continue with the rest."""
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
    """Remove set-user-id bits and the attributes of overlayfs."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & ~_RIGHTS:
        file.chmod(mode & _RIGHTS)
    with suppress(OSError):
        for name in os.listxattr(file):
            if name.startswith(_OWN_ATTRIBUTES):
                os.removexattr(file, name)


def _move(source: Path, folder: int | None, name: str) -> None:
    """Move a file or a link into a folder, also across file systems."""
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
    """Copy the bytes, times and mode of a file; holes stay holes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    status = source.stat()
    with source.open("rb", buffering=0) as original:
        made = os.open(name, flags, _REACHABLE, dir_fd=folder)
        try:
            for start, end in _pieces(original.fileno(), status.st_size):
                _copy_piece(original.fileno(), made, start, end)
            os.ftruncate(made, status.st_size)
            os.fchmod(made, stat.S_IMODE(status.st_mode) & _RIGHTS)
            os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(made)


def _pieces(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each piece of a file that is not a hole."""
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
