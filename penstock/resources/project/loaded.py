"""The files that a project loaded: they decide what runs, whatever their names are."""

import bisect
import threading
from collections.abc import Iterable
from typing import Protocol

from penstock.resources.project.folding import folded
from penstock.resources.project.globs import Glob


class Finder(Protocol):
    """Knows what a project loaded."""

    def stamp(self) -> object:
        """Return a value that is equal as long as `find` would return the same; quick."""
        ...

    def find(self) -> Iterable[str | Glob]:
        """Return paths from the project's folder, without links, and patterns of folded ones.

        A folder stands for all below.
        """
        ...


class LoadedFiles:
    """A set of files and folders. Call `refresh` before what is written is judged by it."""

    __slots__ = ("_finder", "_folded", "_found", "_lock", "_patterns", "_sorted", "paths")

    def __init__(self, paths: Iterable[str] = ()) -> None:
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
        return (
            name in self._folded
            or any(name[:at] in self._folded for at, char in enumerate(name) if char == "/")
            or any(each.fits(name) for each in self._patterns)
        )

    def has_below(self, folder: str) -> bool:
        """Whether one of them is below a folded path."""
        if any(each.may_fit_below(folder) for each in self._patterns):
            return True
        start = f"{folder}/"
        at = bisect.bisect_left(self._sorted, start)
        return at < len(self._sorted) and self._sorted[at].startswith(start)

    def _take(self, found: Iterable[str | Glob]) -> None:
        every = [*found]
        self._patterns = [each for each in every if isinstance(each, Glob)]
        self.paths = frozenset(each for each in every if isinstance(each, str) and each)
        """As they are written."""
        self._folded = frozenset(map(folded, self.paths))
        self._sorted = sorted(self._folded)


NOTHING_LOADED = LoadedFiles()
"""Where no project was read."""
