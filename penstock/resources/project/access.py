"""Which files of a project an agent may read and write: its own patterns, and what is protected."""

from msgspec import Struct

from penstock.core.ids import ASSISTANT
from penstock.resources.project.globs import Glob, glob

PROTECTED = "is protected."
HIDDEN = (".penstock", ".env")
"""What no agent reads or writes, with all below; neither `.env.*`."""
UNWRITTEN = tuple(map(glob, (".git", ".git/**")))
"""What no agent writes."""
AUTHORED = tuple(
    map(
        glob,
        (
            *("penstock.toml", "agents", "agents/**", "flows", "flows/**", "handbooks"),
            *("handbooks/**", ".pi/flows", ".pi/flows/**", "**/*.tool.yaml", "**/*.skill.yaml"),
        ),
    )
)
"""What an agent writes only if one of its own patterns says so: it decides what agents may do."""


class Access(Struct, frozen=True, kw_only=True):
    """What an agent file says under `access:`; None is everything that is not protected."""

    agent: str = ASSISTANT
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    """Patterns of commands that `bash` refuses."""
    private: tuple[str, ...] = ()
    """Places of the runtime's own in the project, which are hidden as well."""

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
        if self.hides(path) or _any_fits(UNWRITTEN, path):
            return PROTECTED
        if not own and _any_fits(AUTHORED, path):
            return PROTECTED
        if own or self.write is None:
            return ""
        return f'is not writable for agent "{self.agent}". access.write: {_listed(self.write)}.'

    def hides(self, path: str) -> bool:
        """Whether no agent reads or writes what is there."""
        first = path.partition("/")[0]
        if first in HIDDEN or first.startswith(".env."):
            return True
        return any(path == each or path.startswith(f"{each}/") for each in self.private)

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


def _any_fits(globs: "tuple[Glob, ...] | map[Glob]", path: str) -> bool:
    return any(each.fits(path) for each in globs)


def _has_sense(text: str) -> bool:
    return glob(text).may_fit_below("")


def _listed(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns) or "none"
