"""The files that a project loaded: they decide what runs, whatever their names are."""

import bisect
from collections.abc import Iterable
from typing import Protocol

from penstock.resources.project.folding import folded


class Finder(Protocol):
    """Knows what a project loaded."""

    def stamp(self) -> object:
        """Return a value that is equal as long as `find` would return the same; quick."""
        ...

    def find(self) -> Iterable[str]:
        """Return paths from the project's folder, without links; a folder stands for all below."""
        ...


class LoadedFiles:
    """A set of files and folders. Call `refresh` before what is written is judged by it."""

    __slots__ = ("_finder", "_folded", "_sorted", "_stamp", "paths")

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._finder: Finder | None = None
        self._stamp: object = None
        self._take(paths)

    def follow(self, finder: Finder) -> None:
        """Take the files from a finder."""
        self._finder, self._stamp = finder, None

    def refresh(self) -> None:
        """Find the files again if others were loaded since."""
        if self._finder is None:
            return
        stamp = self._finder.stamp()
        if stamp != self._stamp:
            self._take(self._finder.find())
            self._stamp = stamp

    def has(self, name: str) -> bool:
        """Whether a folded path is one of them, or is below one of them."""
        return name in self._folded or any(
            name[:at] in self._folded for at, char in enumerate(name) if char == "/"
        )

    def has_below(self, folder: str) -> bool:
        """Whether one of them is below a folded path."""
        start = f"{folder}/"
        at = bisect.bisect_left(self._sorted, start)
        return at < len(self._sorted) and self._sorted[at].startswith(start)

    def _take(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(each for each in paths if each)
        """As they are written."""
        self._folded = frozenset(map(folded, self.paths))
        self._sorted = sorted(self._folded)


NOTHING_LOADED = LoadedFiles()
"""Where no project was read."""
