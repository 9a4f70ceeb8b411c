"""Which files of a project an agent may read and write: its own patterns, and what is protected.

Protection compares folded names (`folding.py`), so another spelling of a protected path on a disk
that ignores case is protected too. An agent's own patterns compare names exactly as they are.
"""

import re
from functools import lru_cache

from msgspec import Struct

from penstock.core.ids import ASSISTANT
from penstock.resources.project.folding import folded
from penstock.resources.project.globs import Glob, glob, union
from penstock.resources.project.loaded import NOTHING_LOADED, LoadedFiles

PROTECTED = "is protected."
_HIDDEN = re.compile(r"(?:^|/)\.(?:envrc|(?:env|penstock)(?![a-z0-9])[^/]*)(?=/|$)")
"""Names, at any depth, that no agent reads or writes, with all below: state, key, variables, and
copies such as `.penstock.bak`."""
UNWRITTEN = tuple(map(glob, (".git", ".git/**")))
"""What no agent writes."""
_FOLDERS = ("agents", "flows", "handbooks", "schedules", ".pi/flows")
_ROOTED = tuple(
    map(
        glob,
        (
            *("penstock.toml", *_FOLDERS, *(f"{each}/**" for each in _FOLDERS)),
            *(f"tools/**/*{ending}" for ending in (".py", ".pyc", ".so", ".pyd")),
        ),
    )
)
AUTHORED = (
    *_ROOTED,
    *(
        glob(f"**/*.{noun}.yaml")
        for noun in ("tool", "skill", "permissions", "prompts", "schedule")
    ),
)
"""What decides what runs, or what it may do: an agent writes it only if one of its own patterns
says so. Files with other names that the project reads are in `Access.loaded`."""
_ANY_AUTHORED = union(AUTHORED)
_ANY_UNWRITTEN = union(UNWRITTEN)


class Access(Struct, frozen=True, kw_only=True):
    """What an agent file says under `access:`; None is everything that is not protected."""

    agent: str = ASSISTANT
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    """Patterns of commands that `bash` refuses."""
    private: tuple[str, ...] = ()
    """Places of the runtime's own in the project, which are hidden as well."""
    loaded: LoadedFiles = NOTHING_LOADED
    """Files that the project loaded, whatever their names are."""
    is_trusted: bool = True
    """Whether its own patterns may name what decides what runs: a person approved the call, or the
    agent is one of a flow."""

    def why_unreadable(self, path: str) -> str:
        """Return what a refusal says behind the path; nothing if it may be read."""
        if self.hides(path):
            return PROTECTED
        if self.read is None or _any_fits(map(glob, self.read), path):
            return ""
        return self.not_readable

    def why_unwritable(self, path: str) -> str:
        """Return what a refusal says behind the path; nothing if it may be written."""
        own = self.write is not None and _any_fits(map(glob, self.write), path)
        if self.hides(path) or _ANY_UNWRITTEN.fullmatch(folded(path)):
            return PROTECTED
        if self.decides(path) and not (own and self.is_trusted):
            return PROTECTED
        if own or self.write is None:
            return ""
        return f'is not writable for agent "{self.agent}". access.write: {_listed(self.write)}.'

    def why_no_folder(self, path: str) -> str:
        """Return what a refusal says behind a folder that is to be made; nothing if it may be.

        A folder may also be made on the way to what one of the agent's own patterns names.
        """
        why = self.why_unwritable(path)
        if not why or self.hides(path) or _ANY_UNWRITTEN.fullmatch(folded(path)):
            return why
        own = (glob(each) for each in self.write or ())
        return "" if any(each.may_fit_below(path) for each in own) else why

    def why_no_link(self, path: str) -> str:
        """Return what a refusal says behind a link that is to be made; nothing if it may be.

        A link in the place of a folder of authored files would put other files in their places.
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
        """Whether no agent reads or writes what is there."""
        return _hidden_with(self.private).search(folded(path)) is not None

    @property
    def not_readable(self) -> str:
        """What is said of a path that no pattern lets it read."""
        return f'is not readable for agent "{self.agent}". access.read: {_listed(self.read or ())}.'

    def may_read_below(self, folder: str) -> bool:
        """Whether something below a folder could be read; the empty text is the project."""
        if folder and self.hides(folder):
            return False
        return self.read is None or any(glob(each).may_fit_below(folder) for each in self.read)

    def writes_of_its_own(self, path: str) -> bool:
        """Whether one of its own patterns is for this path, or for something below it."""
        own = [glob(each) for each in self.write or ()]
        return any(each.fits(path) or each.may_fit_below(path) for each in own)

    @property
    def writable_places(self) -> tuple[str, ...]:
        """The folders and files below which its patterns lie; the empty text is the project."""
        if self.write is None:
            return ("",)
        return tuple(dict.fromkeys(glob(each).literal for each in self.write if _has_sense(each)))


OPEN = Access()
"""Of an agent that says nothing about it."""


@lru_cache(maxsize=64)
def _hidden_with(places: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds a hidden name: one expression, because walks ask for each file."""
    every = "|".join(re.escape(folded(each)) for each in places)
    return re.compile(f"{_HIDDEN.pattern}|^(?:{every})(?=/|$)") if every else _HIDDEN


def is_authored(path: str) -> bool:
    """Whether a path, folded if its spelling is not to matter, is one of AUTHORED."""
    return _ANY_AUTHORED.fullmatch(path) is not None


def _any_fits(globs: "tuple[Glob, ...] | map[Glob]", path: str) -> bool:
    return any(each.fits(path) for each in globs)


def _has_sense(text: str) -> bool:
    return glob(text).may_fit_below("")


def _listed(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns) or "none"
