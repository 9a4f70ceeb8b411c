"""The files that a project loaded: they decide what runs, whatever their names are."""

import bisect
import threading
from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from penstock.resources.project.folding import folded
from penstock.resources.project.globs import Glob, union


class Modules(Struct, frozen=True):
    """Every module of Python below a folder of the project, those that are new included."""

    folder: str
    """Without links; the empty text is the project."""


Found = str | Glob | Modules
"""A file or a folder with all below, by its path without links; or a pattern of folded paths."""
_PYTHON = (".py", ".pyc", ".so", ".pyd")


class Finder(Protocol):
    """Knows what a project loaded."""

    def stamp(self) -> object:
        """Return a value that is equal as long as `find` would return the same; quick."""
        ...

    def find(self) -> Iterable[Found]:
        """Return what was loaded, and what would have been if it was there."""
        ...

    def has_package(self, path: str) -> bool:
        """Whether a path is in a package that could be imported; quick, for it is not kept."""
        ...


class LoadedFiles:
    """A set of files and folders. Call `refresh` before what is written is judged by it."""

    __slots__ = (
        *("_any_pattern", "_finder", "_folded", "_found", "_lock", "_modules", "_patterns"),
        *("_sorted", "paths"),
    )

    def __init__(self, paths: Iterable[Found] = ()) -> None:
        self._finder: Finder | None = None
        self._found: tuple[Finder, object] | None = None
        """By whom, and its stamp: two editions may have one stamp."""
        self._lock = threading.Lock()
        self._take(paths)

    def follow(self, finder: Finder) -> None:
        """Take the files from a finder."""
        self._finder = finder

    def refresh(self) -> None:
        """Find the files again if others were loaded since; it may take long, so in a thread."""
        with self._lock:
            finder = self._finder
            if finder is None:
                return
            stamp, found = finder.stamp(), self._found
            if found is None or found[0] is not finder or found[1] != stamp:
                self._take(finder.find())
                self._found = finder, stamp

    def refresh_once(self) -> None:
        """Find the files unless those of this edition were found: quick, but for the first call."""
        if self._found is None or self._found[0] is not self._finder:
            self.refresh()

    def has(self, name: str) -> bool:
        """Whether a folded path is one of them, or is below one of them."""
        if name in self._folded or any(each in self._folded for each in above(name)):
            return True
        if name.endswith(_PYTHON) and self._has_modules_around(name):
            return True
        return self._any_pattern is not None and self._any_pattern.fullmatch(name) is not None

    def has_below(self, folder: str) -> bool:
        """Whether one of them is below a folded path, or could be."""
        if any(each.may_fit_below(folder) for each in self._patterns):
            return True
        start = f"{folder}/"
        at = bisect.bisect_left(self._sorted, start)
        is_above = at < len(self._sorted) and self._sorted[at].startswith(start)
        return is_above or self._has_modules_around(start)

    def could_import(self, path: str) -> bool:
        """Whether a path, as it is spelled, is a module of a package on Python's path."""
        is_python = folded(path).endswith(_PYTHON)
        return is_python and self._finder is not None and self._finder.has_package(path)

    def _has_modules_around(self, name: str) -> bool:
        return any(each in self._modules for each in ("", *above(name)))

    def _take(self, found: Iterable[Found]) -> None:
        every = [*found]
        self._patterns = [each for each in every if isinstance(each, Glob)]
        self._any_pattern = union(self._patterns) if self._patterns else None
        self._modules = {folded(each.folder) for each in every if isinstance(each, Modules)}
        self.paths = frozenset(each for each in every if isinstance(each, str) and each)
        """As they are written."""
        self._folded = frozenset(map(folded, self.paths))
        self._sorted = sorted({*self._folded, *self._modules})


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the outermost first."""
    yield from (path[:at] for at, char in enumerate(path) if char == "/")


NOTHING_LOADED = LoadedFiles()
"""Where no project was read."""
