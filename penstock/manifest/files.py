"""Access to the files of a project: discovery, bounded reads, the folder of a manifest.

`discover` sorts files by the bytes of their paths, so that every machine reports the same
diagnostics in the same order. Symlinked folders are not followed: they could form cycles or leave
the project. At most 2,000 manifests are read. Names that nearly match get a warning, because a file
that is never read looks like a tool that is broken.

`read_bounded` refuses anything but a regular file. It checks the type before it opens the file,
since opening a named pipe would block. It reads at most `most` + 1 bytes, however large the file is
or grows. An error that means "too many open files" is raised and not reported as a mistake in the
file, both here and in `walk`: a project that looks empty would lose its tools.

`ManifestFolder` holds authors to their own folder; `paths` says how. Shown by
tests/manifest/test_files.py.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.exhaustion import raise_exhaustion

NOUNS = ("tool", "skill", "permissions", "prompts", "schedule")
NOT_SEARCHED = frozenset({"node_modules", "__pycache__"})
MAX_MANIFESTS = 2000
TOO_LARGE = "file-too-large"


class FoundManifests(Struct, frozen=True, kw_only=True):
    """The manifests of a project, and diagnostics about file names."""

    files: Sequence[tuple[str, str]] = ()
    """Kind, such as `tool`, and path relative to the project with `/`, for each manifest."""
    diagnostics: Sequence[Diagnostic] = ()


def discover(root: Path) -> FoundManifests:
    """Return every manifest below a folder, sorted by the bytes of its path."""
    files: list[tuple[str, str]] = []
    diagnostics: list[Diagnostic] = []
    named = (path for path in walk(root) if path[-4:].lower() in {"yaml", ".yml"})
    for path in sorted(named, key=os.fsencode):
        name = path.rpartition("/")[2]
        noun = next((kind for kind in NOUNS if name.endswith(f".{kind}.yaml")), None)
        if noun:
            files.append((noun, path))
        elif near := _near_miss(name, path):
            message = f'looks like a manifest but is not read; rename it to "{near}"'
            diagnostics.append(_warning("near-miss-name", path, message))
    if len(files) > MAX_MANIFESTS:
        message = f"the project has {len(files)} manifests; the limit is {MAX_MANIFESTS}"
        beyond = shown(files[MAX_MANIFESTS][1])
        diagnostics.append(Diagnostic(code="bundle-too-large", message=message, file=beyond))
    return FoundManifests(files=files[:MAX_MANIFESTS], diagnostics=diagnostics)


def shown(path: str) -> str:
    """Return a printable form of a path; undecodable bytes are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_searched(name: str) -> bool:
    """Return whether a file or folder of this name is searched."""
    return not name.startswith(".") and name not in NOT_SEARCHED


def leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a folder or a link to one; False for a loop of links."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def walk(root: Path) -> Iterator[str]:
    """Yield the files below a folder; skip symlinked, hidden and third-party folders."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError as error:
            raise_exhaustion(error)  # too many open files must not look like an empty folder
            continue
        for entry in entries:
            if not is_searched(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{folder}{entry.name}/")
            else:
                yield f"{folder}{entry.name}"


def _near_miss(name: str, path: str) -> str | None:
    """Return the correct name if this one nearly matches a manifest's."""
    stem, _, noun = name.lower().removesuffix(".yml").removesuffix(".yaml").rpartition(".")
    if noun not in NOUNS:
        return None
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return f"{shown(name[: len(stem)] or folder or 'my')}.{noun}.yaml"


def _warning(code: str, path: str, fault: str) -> Diagnostic:
    file = shown(path)
    message = f'"{file}" {fault}'
    return Diagnostic(code=code, message=message, file=file, severity=Severity.WARNING)


class UnreadReason(Struct, frozen=True, kw_only=True):
    """Why a file was not read, as code and message of a diagnostic."""

    code: str
    message: str
    is_missing: bool = False
    """The file does not exist."""


def read_bounded(path: Path, most: int, what: str = "the file") -> bytes | UnreadReason:
    """Return the content of a file of at most `most` bytes, or why it was not read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _unreadable("it is not a file")
        with path.open("rb") as opened:
            content = opened.read(most + 1)
        size = max(path.stat().st_size, len(content))
    except OSError as error:
        raise_exhaustion(error)
        return _unreadable(error.strerror, is_missing=isinstance(error, FileNotFoundError))
    if len(content) <= most:
        return content
    message = f"{what} has {size} bytes; the limit is {most}"
    return UnreadReason(code=TOO_LARGE, message=message)


def _unreadable(why: str | None, *, is_missing: bool = False) -> UnreadReason:
    message = f"the file cannot be read: {why}"
    return UnreadReason(code="file-unreadable", message=message, is_missing=is_missing)


class ManifestFolder(Struct, frozen=True, kw_only=True, dict=True):
    """The folder that contains a manifest, which may name files below this folder only."""

    folder: Path
    shown: str
    """Relative to the project; `.` is the project itself."""

    @cached_property
    def real(self) -> str:
        """Return the folder without symlinks."""
        return os.path.realpath(self.folder)

    def is_relative(self, path: str) -> bool:
        """Return whether a path, as written, stays below the folder."""
        parts = PurePosixPath(path).parts
        is_odd = not parts or "\\" in path or "\0" in path or path[1:2] == ":"
        return not is_odd and not path.startswith("/") and ".." not in parts

    def leads_out(self, path: str) -> bool:
        """Return whether symlinks lead a relative path out of the folder."""
        parts = PurePosixPath(path).parts
        steps = [self.folder.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
        if not any(map(os.path.islink, steps)):
            return False
        return not os.path.realpath(steps[-1]).startswith(self.real.rstrip("/") + "/")

    def has_file(self, path: str) -> bool:
        """Return whether the path is a regular file (no folder, no pipe)."""
        try:
            return stat.S_ISREG((self.folder / path).stat().st_mode)
        except OSError:
            return False


NO_FOLDER = ManifestFolder(folder=Path(), shown=".")
"""The folder of files whose fields name no others."""
