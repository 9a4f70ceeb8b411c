"""The hidden files of a project by device and number, to know them under other names (hard links).

A walk of the project finds them. It is not repeated for each file with two names, of which
`node_modules` of pnpm has nothing else: making a link, or renaming a file, sets the time of change
(`st_ctime`) of what has the name. So what was last changed before the walk began has been
judged by it. What was changed since is reason for another walk.

It relies on the clock of the file system, up to a tenth of a second: where that is slower, and for
folders that get a hidden name, which changes no file in them, `AGE_SECONDS` is the bound.
Proof: tests/resources/project/test_hidden.py.
"""

import os
from collections.abc import Callable, Iterable

from msgspec import Struct

from penstock.core.clock import Clock, SystemClock

AGE_SECONDS = 10
"""A walk is repeated after that, when it is needed."""
_MARGIN_MS = 100
"""File systems tell the time in ticks of up to 10 ms."""
_AHEAD_MS = 1000
_MS = 1_000_000
_TELLS_LINKS = os.name == "posix"
"""Elsewhere `st_ctime` is another time."""
_CLOCK = SystemClock()
FileId = tuple[int, int]
"""The numbers of a device, and of a file on it."""
Walk = Callable[[], Iterable[os.stat_result]]
"""Yields what is known of each hidden file."""


class _Seen(Struct, frozen=True):
    began: int
    every: frozenset[FileId]


class HiddenFiles:
    """What one project hides; all who look into the project share it, in any thread."""

    __slots__ = ("_clock", "_seen")

    def __init__(self, clock: Clock = _CLOCK) -> None:
        self._clock = clock
        self._seen = _Seen(0, frozenset())

    def has(self, file: os.stat_result, walk: Walk) -> bool:
        """Whether a file is hidden, by whatever name it was opened."""
        seen = self._seen
        if self._is_outdated(seen, file):
            seen, _ = self._look(walk)
        return id_of(file) in seen.every

    def has_once(self, file: os.stat_result, walk: Walk) -> bool:
        """Whether the last walk found a file hidden: quick, but for the first call."""
        seen = self._seen if self._seen.began else self._look(walk)[0]
        return id_of(file) in seen.every

    def linked(self, walk: Walk) -> frozenset[FileId]:
        """Walk now; returns the hidden files that have other names."""
        return self._look(walk)[1]

    def _is_outdated(self, seen: _Seen, file: os.stat_result) -> bool:
        now, changed = self._clock.now(), file.st_ctime_ns // _MS
        age = now - seen.began
        if not 0 <= age < AGE_SECONDS * 1000 or not _TELLS_LINKS:
            return True
        is_ahead = changed > now + _MARGIN_MS  # such files are walked for once in a second
        return changed >= seen.began - _MARGIN_MS and (not is_ahead or age > _AHEAD_MS)

    def _look(self, walk: Walk) -> tuple[_Seen, frozenset[FileId]]:
        began, files = self._clock.now(), [*walk()]
        seen = self._seen = _Seen(began, frozenset(map(id_of, files)))
        return seen, frozenset(id_of(each) for each in files if each.st_nlink > 1)


def id_of(file: os.stat_result) -> FileId:
    """Return what two names of one file have in common."""
    return file.st_dev, file.st_ino
