"""Which files of a project an agent may read and write: its patterns, and what is protected.

Three things protect a file from an agent. Its name: a pattern such as `*.tool.yaml` or `.env`
(`AUTHORED`, `_HIDDEN`). Its use: the project loaded it, whatever its name is (`LoadedFiles`). Its
inode: it is a hard link to a hidden file (`HiddenFiles`). Protection compares folded names
(`globs.folded`), so another spelling of a protected path on a disk that ignores case is protected
too. An agent's own patterns compare names exactly as they are.

A walk of the project finds the hidden files. It is not repeated for every file with several names:
in `node_modules` of pnpm every file has several. Making a link or renaming a file sets its
`st_ctime`, so a file that last changed before the walk began was judged by that walk. A file that
changed later causes another walk. This relies on the file system's clock to a tenth of a second. If
that clock is slower, or if a folder is renamed to a hidden name (which changes no file in it), the
result of a walk is at most `AGE_SECONDS` old.
Proof: tests/resources/project/test_access.py, tests/promises/test_ways_around.py.
"""

import bisect
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.clock import Clock, SystemClock
from penstock.core.ids import ASSISTANT
from penstock.resources.project.globs import Glob, folded, glob, union


class Modules(Struct, frozen=True):
    """Every Python module below a folder of the project, also one that is created later."""

    folder: str
    """Links resolved; the empty text is the project."""


Found = str | Glob | Modules
"""A file, or a folder with everything below, with links resolved; or a pattern of folded paths."""
_PYTHON = (".py", ".pyc", ".so", ".pyd")


class Finder(Protocol):
    """Finds what a project loaded."""

    def stamp(self) -> object:
        """Return a value that stays equal while `find` would return the same; quick."""
        ...

    def find(self) -> Iterable[Found]:
        """Return what was loaded, and what would have been loaded if it existed."""
        ...

    def has_package(self, path: str) -> bool:
        """Whether a path is in a package that could be imported; quick, its result is not kept."""
        ...


class LoadedFiles:
    """The files that a project loaded. Call `refresh` before you judge a write by them."""

    __slots__ = (
        *("_any_pattern", "_finder", "_folded", "_found", "_lock", "_modules", "_patterns"),
        *("_sorted", "paths"),
    )

    def __init__(self, paths: Iterable[Found] = ()) -> None:
        self._finder: Finder | None = None
        self._found: tuple[Finder, object] | None = None
        """The finder of the last result, and its stamp: two finders may have equal stamps."""
        self._lock = threading.Lock()
        self._take(paths)

    def follow(self, finder: Finder) -> None:
        """Take the files from a finder."""
        self._finder = finder

    def refresh(self) -> None:
        """Find the files again if others were loaded since. Slow: call it in a thread."""
        with self._lock:
            finder = self._finder
            if finder is None:
                return
            stamp, found = finder.stamp(), self._found
            if found is None or found[0] is not finder or found[1] != stamp:
                self._take(finder.find())
                self._found = finder, stamp

    def refresh_once(self) -> None:
        """Find the files unless this finder was asked before: only the first call is slow."""
        if self._found is None or self._found[0] is not self._finder:
            self.refresh()

    def has(self, name: str) -> bool:
        """Whether a folded path is loaded, or is below a loaded folder."""
        if name in self._folded or any(each in self._folded for each in above(name)):
            return True
        if name.endswith(_PYTHON) and self._has_modules_around(name):
            return True
        return self._any_pattern is not None and self._any_pattern.fullmatch(name) is not None

    def has_below(self, folder: str) -> bool:
        """Whether a loaded file is below a folded path, or could be."""
        if any(each.may_fit_below(folder) for each in self._patterns):
            return True
        start = f"{folder}/"
        at = bisect.bisect_left(self._sorted, start)
        is_above = at < len(self._sorted) and self._sorted[at].startswith(start)
        return is_above or self._has_modules_around(start)

    def could_import(self, path: str) -> bool:
        """Whether a path, not folded, is a module of a package on Python's path."""
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
        """Not folded."""
        self._folded = frozenset(map(folded, self.paths))
        self._sorted = sorted({*self._folded, *self._modules})


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the outermost first."""
    yield from (path[:at] for at, char in enumerate(path) if char == "/")


NOTHING_LOADED = LoadedFiles()
"""For use without a project."""


PROTECTED = "is protected."
_HIDDEN = re.compile(r"(?:^|/)\.(?:envrc|(?:env|penstock)(?![a-z0-9])[^/]*)(?=/|$)")
"""Names, at any depth, that no agent reads or writes, nor anything below them: state, key,
variables, and copies such as `.penstock.bak`."""
UNWRITTEN = tuple(map(glob, (".git", ".git/**")))
"""No agent writes these."""
_FOLDERS = ("agents", "flows", "handbooks", "schedules", ".pi/flows")
_ROOTED = (
    *map(glob, ("penstock.toml", *_FOLDERS, *(f"{each}/**" for each in _FOLDERS))),
    *(glob(f"tools/**/*{ending}") for ending in _PYTHON),
)
_NOUNS = ("tool", "skill", "permissions", "prompts", "schedule")
AUTHORED = (*_ROOTED, *(glob(f"**/*.{noun}.yaml") for noun in _NOUNS))
"""Files that decide what runs, or what it may do: an agent writes one only if one of its own
patterns matches it. Files with other names that the project reads are in `Access.loaded`."""
_ANY_AUTHORED = union(AUTHORED)
_ANY_UNWRITTEN = union(UNWRITTEN)


class Access(Struct, frozen=True, kw_only=True):
    """`access:` of an agent file; None allows everything that is not protected."""

    agent: str = ASSISTANT
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    """Patterns of commands that `bash` refuses."""
    private: tuple[str, ...] = ()
    """Folders of the runtime in the project, which are hidden as well."""
    loaded: LoadedFiles = NOTHING_LOADED
    """Files that the project loaded, whatever their names are."""
    is_trusted: bool = True
    """Whether its own patterns may open files that decide what runs: a person approved the call, or
    the agent belongs to a flow."""
    outer: "Access | None" = None
    """The access of the agent that called this one, whose patterns must match as well."""

    def within(self, outer: "Access") -> "Access":
        """Return this access, narrowed to the patterns, if any, of the agent that called this one.

        Without patterns of the caller, one that names files that decide what runs holds (G8).
        """
        deny = (*outer.deny, *self.deny)
        if {outer.read, outer.write, outer.outer} == {None}:
            return replace(self, deny=deny)
        if self.read is None and self.write is None:
            read, write, above = outer.read, outer.write, outer.outer
            return replace(self, read=read, write=write, deny=deny, outer=above)
        return replace(self, deny=deny, outer=outer)

    def why_unreadable(self, path: str) -> str:
        """Return the rest of the refusal that begins with the path; empty if it may be read."""
        if self.hides(path):
            return PROTECTED
        if self.outer is not None and (why := self.outer.why_unreadable(path)):
            return why
        if self.read is None or _any_fits(map(glob, self.read), path):
            return ""
        return self.not_readable

    def why_unwritable(self, path: str) -> str:
        """Return the rest of the refusal that begins with the path; empty if it may be written."""
        own = self.write is not None and _any_fits(map(glob, self.write), path)
        if self.hides(path) or _ANY_UNWRITTEN.fullmatch(folded(path)):
            return PROTECTED
        if self.outer is not None and (why := self.outer.why_unwritable(path)):
            return why
        if self.decides(path) and not (own and self.is_trusted):
            return PROTECTED
        if own or self.write is None:
            return ""
        return f'is not writable for agent "{self.agent}". access.write: {_listed(self.write)}.'

    def why_no_folder(self, path: str) -> str:
        """Return the rest of the refusal to make a folder; empty if it may be made.

        A folder may also be made above the files that one of the agent's own patterns matches.
        """
        if self.outer is not None and (why := self.outer.why_no_folder(path)):
            return why
        why = replace(self, outer=None).why_unwritable(path)
        if not why or self.hides(path) or _ANY_UNWRITTEN.fullmatch(folded(path)):
            return why
        own = (glob(each) for each in self.write or ())
        return "" if any(each.may_fit_below(path) for each in own) else why

    def why_no_link(self, path: str) -> str:
        """Return the rest of the refusal to make a link; empty if it may be made.

        A link in place of a folder of authored files would replace them with other files.
        """
        name = folded(path)
        if any(each.may_fit_below(name) for each in _ROOTED) or self.loaded.has_below(name):
            return PROTECTED
        if self.loaded.could_import(f"{path}/_.py"):
            return PROTECTED
        return self.why_unwritable(path)

    def decides(self, path: str) -> bool:
        """Whether a file decides what runs or what it may do."""
        name = folded(path)
        return is_authored(name) or self.loaded.has(name) or self.loaded.could_import(path)

    def hides(self, path: str) -> bool:
        """Whether a path is hidden from every agent."""
        return _hidden_with(self.private).search(folded(path)) is not None

    @property
    def not_readable(self) -> str:
        """The rest of the refusal of a path that no pattern lets the agent read."""
        if self.read is None and self.outer is not None:
            return self.outer.not_readable
        return f'is not readable for agent "{self.agent}". access.read: {_listed(self.read or ())}.'

    def may_read_below(self, folder: str) -> bool:
        """Whether a file below a folder could be readable; the empty text is the project."""
        if folder and self.hides(folder):
            return False
        if self.outer is not None and not self.outer.may_read_below(folder):
            return False
        return self.read is None or any(glob(each).may_fit_below(folder) for each in self.read)

    def writes_of_its_own(self, path: str) -> bool:
        """Whether one of the agent's own patterns matches a path, or could match one below it."""
        own = [glob(each) for each in self.write or ()]
        matches = any(each.fits(path) or each.may_fit_below(path) for each in own)
        return matches and (self.outer is None or self.outer.writes_of_its_own(path))

    @property
    def limits_reads(self) -> bool:
        """Whether patterns say what may be read."""
        return self.read is not None or (self.outer is not None and self.outer.limits_reads)

    @property
    def limits_writes(self) -> bool:
        """Whether patterns say what may be written."""
        return self.write is not None or (self.outer is not None and self.outer.limits_writes)

    @property
    def writable_places(self) -> tuple[str, ...]:
        """The folders and files that its patterns begin with; the empty text is the project."""
        above = ("",) if self.outer is None else self.outer.writable_places
        if self.write is None:
            return above
        own = dict.fromkeys(glob(each).literal for each in self.write if _has_sense(each))
        pairs = ((each, place) for each in own for place in above)
        return tuple(dict.fromkeys(chain.from_iterable(_common(*pair) for pair in pairs)))


OPEN = Access()
"""The access of an agent that declares none."""


@lru_cache(maxsize=64)
def _hidden_with(places: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for all hidden names: a walk matches it against each file."""
    every = "|".join(re.escape(folded(each)) for each in places)
    return re.compile(f"{_HIDDEN.pattern}|^(?:{every})(?=/|$)") if every else _HIDDEN


def is_authored(path: str) -> bool:
    """Whether a path is one of AUTHORED; fold it before if its spelling is not to matter."""
    return _ANY_AUTHORED.fullmatch(path) is not None


def _any_fits(globs: "tuple[Glob, ...] | map[Glob]", path: str) -> bool:
    return any(each.fits(path) for each in globs)


def _common(one: str, other: str) -> tuple[str, ...]:
    """Return the inner one of two places; neither if none is inside the other."""
    shorter, longer = sorted((one, other), key=len)
    is_inside = not shorter or longer == shorter or longer.startswith(f"{shorter}/")
    return (longer,) if is_inside else ()


def _has_sense(text: str) -> bool:
    return glob(text).may_fit_below("")


def _listed(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns) or "none"


# ---- hidden files and their hard links ----

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
