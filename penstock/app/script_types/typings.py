"""The `flo.d.ts` files of a project: their contents, and which ones are stale."""

from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

from penstock.app.project import Project
from penstock.core.errors import ConfigError, NameTaken
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.typings import MARK, Typings

FILE = "flo.d.ts"


class TypingFile(Struct, frozen=True, kw_only=True):
    """One file of declarations with its current contents."""

    path: Path
    text: str

    @property
    def is_stale(self) -> bool:
        """Whether the file on disk differs or is missing."""
        return _read(self.path) != self.text

    def write(self) -> None:
        """Write it, unless an author wrote one by hand. Raises NameTaken, ConfigError."""
        written = _read(self.path)
        if written is not None and not written.startswith(MARK):
            raise NameTaken(
                f"{self.path} was not written by `penstock types`: nothing was written there. "
                "Move it away, or name another file with --out."
            )
        if written != self.text:
            try:
                self.path.write_text(self.text, encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"{self.path} cannot be written: {error.strerror}.") from None


def typing_files(project: Project, out: Path | None = None) -> list[TypingFile]:
    """Return a file for each folder that holds manifests; or `out` alone, with all of it."""
    typings = project_typings(project)
    folders = typings.folders()
    if out is not None:
        return [TypingFile(path=out, text=typings.declare_for(folders))]
    return [
        TypingFile(path=project.root / folder / FILE, text=typings.declare_for([folder]))
        for folder in folders
    ]


def project_typings(project: Project) -> Typings:
    """Return the typings of a project."""
    skills = project.every_skill
    others = [each.spec for each in project.every_tool if each.spec.kind != SCRIPT]
    return Typings(project.bundle, skills, others, version("penstock"))


def _read(path: Path) -> str | None:
    """Return the text of a file; None if it is missing, empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""
