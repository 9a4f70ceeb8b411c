"""A project's folder as an agent sees it: where a path leads, and whether it may go there."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import BinaryIO, NoReturn, TypeVar

from msgspec import Struct

from penstock.core.call_errors import CallError, NotPermitted, tool_failure
from penstock.core.exhaustion import raise_exhaustion
from penstock.resources.project.access import OPEN, PROTECTED, Access
from penstock.resources.project.hidden import FileId, HiddenFiles, Walk
from penstock.resources.project.opening import open_to_read, replace_file
from penstock.resources.project.turns import turn

T = TypeVar("T")
Judge = Callable[[os.stat_result, Walk], bool]

MOST_WRITTEN = 1 << 20
_GIT = ".git"
_ABSENT = {errno.ENOENT, errno.EINVAL}
_IN_THE_WAY = {errno.ENOTDIR, errno.ELOOP}


class ProjectPath(Struct, frozen=True, kw_only=True):
    """One place in a project, links resolved."""

    told: str
    """As the caller named it."""
    real: str
    """From the project's folder, with `/`; the folder itself is the empty text."""

    @property
    def shown(self) -> str:
        """How it is called in a list."""
        return self.real or "."


class ProjectFiles:
    """The files of a project, for one agent. What is refused raises NotPermitted."""

    __slots__ = ("_hidden", "access", "root")

    def __init__(
        self, root: Path, access: Access = OPEN, hidden: HiddenFiles | None = None
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.access = access
        self._hidden = HiddenFiles() if hidden is None else hidden

    def at(self, told: str) -> ProjectPath:
        """Return where a path leads: one outside of the project is refused."""
        try:
            whole = self.root / told
            named = os.path.normpath(whole)
            real = self._inside(os.path.realpath(whole))
        except (OSError, ValueError):
            raise tool_failure("not_found", f"{told!r} is no path of a file") from None
        if real is None:
            raise NotPermitted(f'"{told}" is outside the project.')
        name = self._inside(named)
        if name is not None and name != real and self.is_hidden(name):
            raise NotPermitted(f'"{told}" {PROTECTED}')
        if _is_loop(whole):
            raise tool_failure(
                "link_loop",
                f"{told!r} leads through a loop of links, or too many; name the file itself",
            )
        return ProjectPath(told=told, real=real)

    def readable(self, told: str) -> ProjectPath:
        """Return where a path leads that the agent may read, if what is there can be read.

        For looks before a call, on the event loop; `opened` asks about hard links again.
        """
        path = self.at(told)
        if why := self.access.why_unreadable(path.real):
            raise NotPermitted(f'"{told}" {why}')
        self._check_plain(path, self._hidden.has_once)
        return path

    def writable(self, told: str) -> ProjectPath:
        """Return where a path leads that the agent may write. It may take long, so in a thread."""
        self.access.loaded.refresh()
        path = self.seems_writable(told)
        self.check_plain(path)
        return path

    def seems_writable(self, told: str) -> ProjectPath:
        """Return where a path leads that the agent may write, by what was known before.

        For looks before a call, on the event loop; what writes asks `writable`.
        """
        path = self.at(told)
        self.access.loaded.refresh_once()
        if why := self.access.why_unwritable(path.real):
            raise NotPermitted(f'"{told}" {why}')
        self._check_plain(path, self._hidden.has_once)
        return path

    def check_plain(self, path: ProjectPath) -> None:
        """Refuse what is there if it is a pipe, socket or device, or another name of a hidden file.

        It may take long, so in a thread. Folders pass: what opens a file refuses them.
        """
        self._check_plain(path, self._hidden.has)

    def _check_plain(self, path: ProjectPath, is_hidden: Judge) -> None:
        try:
            found = os.lstat(self.whole(path))
        except (OSError, ValueError):
            return  # whatever is done next says why
        if stat.S_ISDIR(found.st_mode):
            return
        if not stat.S_ISREG(found.st_mode):
            raise _no_plain_file(path)
        if found.st_nlink > 1 and is_hidden(found, self._hidden_files):
            raise NotPermitted(f'"{path.told}" {PROTECTED}')

    def start(self, told: str) -> ProjectPath:
        """Return where a search may begin: a file that is readable, or a folder with such files."""
        path = self.at(told)
        whole = self.whole(path)
        with as_call_errors(path):
            is_folder, is_there = whole.is_dir(), whole.exists()
        if is_folder:
            if not self.access.may_read_below(path.real):
                self.refuse(path)
            return path
        self.readable(told)
        if not is_there:
            raise tool_failure("not_found", f"there is no {told!r} in the project")
        return path

    def refuse(self, folder: ProjectPath) -> NoReturn:
        """Refuse a folder in which nothing is readable."""
        is_hidden = folder.real and self.is_hidden(folder.real)
        why = PROTECTED if is_hidden else self.access.not_readable
        raise NotPermitted(f'"{folder.told}" {why}')

    def whole(self, path: ProjectPath) -> Path:
        """Return the place on the machine."""
        return self.root / path.real

    def sees(self, real: str) -> bool:
        """Whether the agent may read the file at a path without links."""
        return not self.access.why_unreadable(real)

    def is_hidden(self, path: str) -> bool:
        """Whether a path is protected from every agent."""
        return self.access.hides(path)

    def real_of(self, whole: str) -> str | None:
        """Return where a place on the machine leads, from the project; None if it leads out."""
        try:
            return self._inside(os.path.realpath(whole))
        except OSError:
            return None

    def hidden_twins(self) -> frozenset[FileId]:
        """Walk the project for hidden files that have other names, which may be anywhere."""
        return self._hidden.linked(self._hidden_files)

    def read(self, path: ProjectPath, most: int) -> bytes:
        """Return the bytes of a file of at most so many."""
        with self.opened(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise tool_failure("too_large", f"{path.told!r} has more than {most} bytes")
        return content

    @contextmanager
    def opened(self, path: ProjectPath) -> Iterator[BinaryIO]:
        """Open a file to read it; another name of a hidden file is refused as that file is."""
        with as_call_errors(path), open_to_read(self.root, path.real) as file:
            if self.is_twin(os.fstat(file.fileno())):
                raise NotPermitted(f'"{path.told}" {PROTECTED}')
            yield file

    def is_twin(self, found: os.stat_result) -> bool:
        """Whether a file is another name of a hidden one (a hard link)."""
        is_linked = found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)
        return is_linked and self._hidden.has(found, self._hidden_files)

    def write(self, path: ProjectPath, content: bytes) -> bool:
        """Write a file, whole or not at all, and the folders above; returns whether it is new."""
        with turn(self.root, path.real):
            return self._replace(path, content)

    def change(self, path: ProjectPath, changed: Callable[[bytes], tuple[bytes, T]]) -> T:
        """Write what becomes of the bytes of a file, and return what else is told of it.

        Nobody who writes files of projects comes between.
        """
        with turn(self.root, path.real):
            content, told = changed(self.read(path, MOST_WRITTEN))
            self._replace(path, content)
        return told

    def _replace(self, path: ProjectPath, content: bytes) -> bool:
        if len(content) > MOST_WRITTEN:
            raise tool_failure(
                "too_large", f"a file has at most {MOST_WRITTEN} bytes, this has {len(content)}"
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
                found = place.lstat()
                if not stat.S_ISDIR(found.st_mode):
                    yield found
            for _, entry in entries_below(place, never):
                with suppress(OSError):
                    yield entry.stat(follow_symlinks=False)

    def _inside(self, whole: str) -> str | None:
        place = PurePath(whole)
        if not place.is_relative_to(self.root):
            return None
        real = place.relative_to(self.root).as_posix()
        return "" if real == "." else real


def entries_below(
    root: Path, closed: Callable[[str], bool]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every name below a folder, but for what is in closed folders and in `.git`.

    Links are not followed; a folder that cannot be listed is passed over.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as found:
                entries = [*found]
        except OSError as error:
            raise_exhaustion(error)  # what is in it is protected, perhaps
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
    """Whether something is at a place, wherever links lead; a loop of links is nothing."""
    try:
        return place.exists()
    except (OSError, RuntimeError):
        return False


def _is_loop(place: Path) -> bool:
    try:
        os.stat(place)  # noqa: PTH116  the quickest: each path that a tool names is looked at
    except OSError as error:
        return error.errno == errno.ELOOP
    except ValueError:
        return False
    return False


@contextmanager
def as_call_errors(path: ProjectPath) -> Iterator[None]:
    """Make words for the model of what the system says about a file."""
    try:
        yield
    except OSError as error:
        raise _told(error, path) from error


def _told(error: OSError, path: ProjectPath) -> CallError:
    if isinstance(error, IsADirectoryError):
        return _no_plain_file(path)
    if error.errno == errno.ENAMETOOLONG:
        said = f"there is no {path.told!r} in the project, nor can be: its name is too long"
        return tool_failure("not_found", said)
    if error.errno in _ABSENT:
        return tool_failure("not_found", f"there is no {path.told!r} in the project")
    if error.errno in _IN_THE_WAY:
        return tool_failure(
            "not_a_directory", f"a file or a link stands in the way of {path.told!r}"
        )
    said = error.strerror or type(error).__name__
    return tool_failure("not_accessible", f"the system does not give {path.told!r}: {said}")


def _no_plain_file(path: ProjectPath) -> CallError:
    return tool_failure("is_directory", f"{path.told!r} is a directory, or no plain file")
