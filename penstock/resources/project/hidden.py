"""The hidden files of a project by device and inode, so that hard links to them are recognized.

A walk of the project finds them. It is not repeated for every file with several names; in
`node_modules` of pnpm every file has several. Making a link or renaming a file sets its `st_ctime`,
so a file that last changed before the walk began was judged by that walk. A file that changed later
causes another walk.

It relies on the file system's clock to a tenth of a second. If that clock is slower, or if a folder
is renamed to a hidden name (which changes no file in it), a walk is at most `AGE_SECONDS` old.
Proof: tests/resources/project/test_hidden.py.
"""

import os
from collections.abc import Callable, Iterable

from msgspec import Struct

from penstock.core.clock import Clock, SystemClock

AGE_SECONDS = 10
"""The result of a walk is used for at most this long."""
_MARGIN_MS = 100
"""File systems keep time in ticks of up to 10 ms."""
_AHEAD_MS = 1000
_MS = 1_000_000
_TELLS_LINKS = os.name == "posix"
"""On Windows `st_ctime` is the time of creation."""
_CLOCK = SystemClock()
FileId = tuple[int, int]
"""Device and inode."""
Walk = Callable[[], Iterable[os.stat_result]]
"""Yields the `stat` of each hidden file."""


class _Seen(Struct, frozen=True):
    began: int
    every: frozenset[FileId]


class HiddenFiles:
    """The hidden files of one project; shared by all its readers, safe in any thread."""

    __slots__ = ("_clock", "_seen")

    def __init__(self, clock: Clock = _CLOCK) -> None:
        self._clock = clock
        self._seen = _Seen(0, frozenset())

    def has(self, file: os.stat_result, walk: Walk) -> bool:
        """Whether a file is hidden, under any of its names."""
        seen = self._seen
        if self._is_outdated(seen, file):
            seen, _ = self._look(walk)
        return id_of(file) in seen.every

    def has_once(self, file: os.stat_result, walk: Walk) -> bool:
        """Whether the last walk found the file hidden; only the first call walks."""
        seen = self._seen if self._seen.began else self._look(walk)[0]
        return id_of(file) in seen.every

    def linked(self, walk: Walk) -> frozenset[FileId]:
        """Walk now, and return the hidden files that have several names."""
        return self._look(walk)[1]

    def _is_outdated(self, seen: _Seen, file: os.stat_result) -> bool:
        now, changed = self._clock.now(), file.st_ctime_ns // _MS
        age = now - seen.began
        if not 0 <= age < AGE_SECONDS * 1000 or not _TELLS_LINKS:
            return True
        is_ahead = changed > now + _MARGIN_MS  # its clock is ahead: walk at most once a second
        return changed >= seen.began - _MARGIN_MS and (not is_ahead or age > _AHEAD_MS)

    def _look(self, walk: Walk) -> tuple[_Seen, frozenset[FileId]]:
        began, files = self._clock.now(), [*walk()]
        seen = self._seen = _Seen(began, frozenset(map(id_of, files)))
        return seen, frozenset(id_of(each) for each in files if each.st_nlink > 1)


def id_of(file: os.stat_result) -> FileId:
    """Return the identity of a file, the same for all its names."""
    return file.st_dev, file.st_ino
