"""A project's folder as one agent sees it: where a path leads, and whether the agent may use it.

A path is judged by the place it leads to, with all links resolved, never by its text, and it is
opened name by name without following links (`opening.py`): a link that another process puts there
in between makes the call fail instead of leading out of the project. A hard link to a hidden file
is refused like the file. Reading, changing and writing back a file is one step: `file_lock` is held
in this process and, where the system can, on the file's folder across processes (`flock.py`).
Proof: tests/resources/project/test_files.py, tests/promises/test_ways_around.py.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NoReturn, TypeVar

from msgspec import Struct

from penstock.core.call_errors import CallError, NotPermitted, tool_failure
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.late import late
from penstock.resources.project.access import OPEN, PROTECTED, Access, FileId, HiddenFiles, Walk
from penstock.resources.project.opening import open_to_read, replace_file

T = TypeVar("T")
Judge = Callable[[os.stat_result, Walk], bool]
LockFolder = Callable[[Path], AbstractContextManager[Any]]

MAX_WRITTEN = 1 << 20
_GIT = ".git"
_STATE = ".penstock"
"""No agent writes below it, so no `file_lock` locks it."""
_ABSENT = {errno.ENOENT, errno.EINVAL}
_IN_THE_WAY = {errno.ENOTDIR, errno.ELOOP}
_COUNT = 64
"""A fixed number of locks for all files: nothing to clean up; two files may share one."""
_file_locks = tuple(threading.Lock() for _ in range(_COUNT))
_takeover_locks = tuple(threading.Lock() for _ in range(_COUNT))
_lock_folder: LockFolder = (
    late("penstock.resources.project.flock:held")
    if os.name == "posix"
    else lambda folder: nullcontext()
)


class ProjectPath(Struct, frozen=True, kw_only=True):
    """A path in a project, with all links resolved."""

    named: str
    """As the caller named it."""
    real: str
    """From the project's folder, with `/`; the folder itself is the empty text."""

    @property
    def shown(self) -> str:
        """The name that lists show."""
        return self.real or "."


class ProjectFiles:
    """The files of a project, for one agent. A path that it may not use raises NotPermitted."""

    __slots__ = ("_hidden", "access", "root")

    def __init__(
        self, root: Path, access: Access = OPEN, hidden: HiddenFiles | None = None
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.access = access
        self._hidden = HiddenFiles() if hidden is None else hidden

    def at(self, named: str) -> ProjectPath:
        """Return where a path leads. A path outside of the project is refused."""
        try:
            whole = self.root / named
            unresolved = os.path.normpath(whole)
            real = self._inside(os.path.realpath(whole))
        except (OSError, ValueError):
            raise tool_failure("not_found", f"{named!r} is not a path of a file") from None
        if real is None:
            raise NotPermitted(f'"{named}" is outside the project.')
        name = self._inside(unresolved)
        if name is not None and name != real and self.is_hidden(name):
            raise NotPermitted(f'"{named}" {PROTECTED}')
        if _is_loop(whole):
            raise tool_failure(
                "link_loop",
                f"{named!r} leads through a loop of links, or too many; name the file itself",
            )
        return ProjectPath(named=named, real=real)

    def readable(self, named: str) -> ProjectPath:
        """Return where a path leads; refuse one that the agent may not read.

        For checks before a call, on the event loop; `opened` checks hard links again.
        """
        path = self.at(named)
        if why := self.access.why_unreadable(path.real):
            raise NotPermitted(f'"{named}" {why}')
        self._check_plain(path, self._hidden.has_once)
        return path

    def writable(self, named: str) -> ProjectPath:
        """Return where a path leads; refuse one that the agent may not write.

        It may walk the project, so call it in a thread.
        """
        self.access.loaded.refresh()
        path = self.seems_writable(named)
        self.check_plain(path)
        return path

    def seems_writable(self, named: str) -> ProjectPath:
        """Do the same with what the last walk found, which is quick.

        For checks before a call, on the event loop; a write calls `writable`.
        """
        path = self.at(named)
        self.access.loaded.refresh_once()
        if why := self.access.why_unwritable(path.real):
            raise NotPermitted(f'"{named}" {why}')
        self._check_plain(path, self._hidden.has_once)
        return path

    def check_plain(self, path: ProjectPath) -> None:
        """Refuse a pipe, socket or device, and a hard link to a hidden file.

        It may walk the project, so call it in a thread. Folders pass: opening one fails later.
        """
        self._check_plain(path, self._hidden.has)

    def _check_plain(self, path: ProjectPath, is_hidden: Judge) -> None:
        try:
            status = os.lstat(self.whole(path))
        except (OSError, ValueError):
            return  # the operation that follows reports the error
        if stat.S_ISDIR(status.st_mode):
            return
        if not stat.S_ISREG(status.st_mode):
            raise _no_plain_file(path)
        if status.st_nlink > 1 and is_hidden(status, self._hidden_files):
            raise NotPermitted(f'"{path.named}" {PROTECTED}')

    def start(self, named: str) -> ProjectPath:
        """Return where a search begins: a readable file, or a folder with readable files."""
        path = self.at(named)
        whole = self.whole(path)
        with as_call_errors(path):
            is_folder, exists = whole.is_dir(), whole.exists()
        if is_folder:
            if not self.access.may_read_below(path.real):
                self.refuse(path)
            return path
        self.readable(named)
        if not exists:
            raise tool_failure("not_found", f"there is no {named!r} in the project")
        return path

    def refuse(self, folder: ProjectPath) -> NoReturn:
        """Refuse a folder in which nothing is readable."""
        is_hidden = folder.real and self.is_hidden(folder.real)
        why = PROTECTED if is_hidden else self.access.not_readable
        raise NotPermitted(f'"{folder.named}" {why}')

    def whole(self, path: ProjectPath) -> Path:
        """Return the absolute path."""
        return self.root / path.real

    def sees(self, real: str) -> bool:
        """Whether the agent may read a path in which links are resolved."""
        return not self.access.why_unreadable(real)

    def is_hidden(self, path: str) -> bool:
        """Whether a path is protected from every agent."""
        return self.access.hides(path)

    def real_of(self, whole: str) -> str | None:
        """Return where an absolute path leads, relative to the project; None if it leads out."""
        try:
            return self._inside(os.path.realpath(whole))
        except OSError:
            return None

    def hidden_twins(self) -> frozenset[FileId]:
        """Walk the project for hidden files that have other names, which may be anywhere."""
        return self._hidden.linked(self._hidden_files)

    def read(self, path: ProjectPath, most: int) -> bytes:
        """Return the bytes of a file; a longer one is refused."""
        with self.opened(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise tool_failure("too_large", f"{path.named!r} has more than {most} bytes")
        return content

    @contextmanager
    def opened(self, path: ProjectPath) -> Iterator[BinaryIO]:
        """Open a file for reading; a hard link to a hidden file is refused."""
        with as_call_errors(path), open_to_read(self.root, path.real) as file:
            if self.is_twin(os.fstat(file.fileno())):
                raise NotPermitted(f'"{path.named}" {PROTECTED}')
            yield file

    def is_twin(self, status: os.stat_result) -> bool:
        """Whether a file is a hard link to a hidden one."""
        is_linked = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
        return is_linked and self._hidden.has(status, self._hidden_files)

    def write(self, path: ProjectPath, content: bytes) -> bool:
        """Write a file whole or not at all, and make its folders; returns whether it is new."""
        with file_lock(self.root, path.real):
            return self._replace(path, content)

    def change(self, path: ProjectPath, changed: Callable[[bytes], tuple[bytes, T]]) -> T:
        """Read, modify and write a file under its lock.

        `changed` returns the new bytes and a value, which is returned.
        """
        with file_lock(self.root, path.real):
            content, value = changed(self.read(path, MAX_WRITTEN))
            self._replace(path, content)
        return value

    def _replace(self, path: ProjectPath, content: bytes) -> bool:
        if len(content) > MAX_WRITTEN:
            raise tool_failure(
                "too_large", f"a file has at most {MAX_WRITTEN} bytes, this has {len(content)}"
            )
        self.check_plain(path)
        with as_call_errors(path):
            return replace_file(self.root, path.real, content)

    def _hidden_files(self) -> Iterator[os.stat_result]:
        places = [self.root / each for each in self.access.private]
        every = entries_below(self.root, self.access.hides)
        places += [self.root / path for path, _ in every if self.access.hides(path)]
        for place in places:
            with suppress(OSError):
                status = place.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    yield status
            for _, entry in entries_below(place, never):
                with suppress(OSError):
                    yield entry.stat(follow_symlinks=False)

    def _inside(self, whole: str) -> str | None:
        place = PurePath(whole)
        if not place.is_relative_to(self.root):
            return None
        real = place.relative_to(self.root).as_posix()
        return "" if real == "." else real


@contextmanager
def file_lock(root: Path, path: str) -> Iterator[bool]:
    """Lock a file against other writers of this process and, if possible, of other processes.

    Yields whether the folder is locked across processes. The path must contain no links. The lock
    is not reentrant.
    """
    whole = root / path
    with _file_locks[hash(str(whole)) % _COUNT], _lock_folder(whole.parent) as is_locked:
        yield bool(is_locked)


@contextmanager
def takeover_lock(root: Path) -> Iterator[None]:
    """Lock a project against other takeovers; single files still have their own locks.

    Other processes are excluded if the project has a `.penstock` folder to lock.
    """
    with _takeover_locks[hash(str(root)) % _COUNT], _lock_folder(root / _STATE):
        yield


def entries_below(
    root: Path, closed: Callable[[str], bool]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry below a folder, without those in closed folders and in `.git`.

    Links are not followed; a folder that cannot be listed is skipped.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as listed:
                entries = [*listed]
        except OSError as error:
            raise_exhaustion(error)  # else a protected file in it would be missed
            continue
        start = f"{folder}/" if folder else ""
        for entry in entries:
            path = start + entry.name
            yield path, entry
            if entry.is_dir(follow_symlinks=False) and entry.name != _GIT and not closed(path):
                waiting.append(path)


def never(_: str) -> bool:
    """Close no folder."""
    return False


def is_there(place: Path) -> bool:
    """Whether a path leads to something; a loop of links does not."""
    try:
        return place.exists()
    except (OSError, RuntimeError):
        return False


def _is_loop(place: Path) -> bool:
    try:
        os.stat(place)  # noqa: PTH116  the quickest: it runs for each path that a tool names
    except OSError as error:
        return error.errno == errno.ELOOP
    except ValueError:
        return False
    return False


@contextmanager
def as_call_errors(path: ProjectPath) -> Iterator[None]:
    """Convert errors of the system into failures that a model can act on."""
    try:
        yield
    except OSError as error:
        raise _call_error(error, path) from error


def _call_error(error: OSError, path: ProjectPath) -> CallError:
    if isinstance(error, IsADirectoryError):
        return _no_plain_file(path)
    if error.errno == errno.ENAMETOOLONG:
        message = f"there is no {path.named!r} in the project: its name is too long"
        return tool_failure("not_found", message)
    if error.errno in _ABSENT:
        return tool_failure("not_found", f"there is no {path.named!r} in the project")
    if error.errno in _IN_THE_WAY:
        return tool_failure(
            "not_a_directory", f"a file or a link is where {path.named!r} needs a folder"
        )
    reason = error.strerror or type(error).__name__
    return tool_failure("not_accessible", f"{path.named!r} cannot be opened: {reason}")


def _no_plain_file(path: ProjectPath) -> CallError:
    return tool_failure("is_directory", f"{path.named!r} is a directory, or no plain file")
