"""Finds the files that decide which code runs in a project; agents must not write them.

File names are not enough: a manifest can run any script, a flow can run any module, `tools` can be
a symbolic link, and a Python tool can import anything. So this collects what was loaded, and what
would be loaded if it existed: scripts and their imports, flows with the flows and handlers that
they refer to, folders of skills and handbooks, imported modules, everything importable from a
folder on Python's path, and the Python installation itself. The fixed names, such as
`penstock.toml` and `agents/`, are in `resources/project/access.py`.

It relies on `sys.modules` and `sys.path`, and resolves symbolic links, so another name of a
protected file is protected as well. `stamp` tells cheaply whether anything was loaded since.
Tests: tests/app/test_protected_files.py.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import ModuleType

from penstock.app.project import Project
from penstock.app.runtime import Runtime
from penstock.core.late import removed_entries
from penstock.flows.project.flows import ProjectFlows
from penstock.resources.project.access import Found, Modules
from penstock.resources.project.files import entries_below, never
from penstock.resources.project.globs import folded, glob

_LINKED = ("agents", "flows", "handbooks", "schedules", "tools", ".pi")
"""Folders that the project reads; the targets of symbolic links in them are read as well."""
_PENSTOCK = Path(__file__).parents[1]
_ENDINGS = (".py", ".pyc", ".so", ".pyd")
"""Endings of importable files."""
_TOP_FILES = ("*.pth", "*.egg-link")
_TOP_FOLDERS = ("*.dist-info", "*.egg-info", "EGG-INFO", "__pycache__")


class ProtectedFiles:
    """Finds the loaded files of the newest edition of a project."""

    def __init__(self, project: Project, flows: ProjectFlows) -> None:
        self.project = project
        self._flows = flows
        self._imported = _Imported(project.root)

    def stamp(self) -> object:
        """Return a value that stays equal while nothing new was loaded."""
        files = [file.root / file.path for file in self._flows.files().files.values()]
        return len(sys.modules), tuple(sys.path), tuple(map(_mark, files))

    def has_package(self, path: str) -> bool:
        """Whether a path is in a package that can be imported from the project."""
        return _is_in_package(self.project.root, path)

    def find(self) -> Iterator[Found]:
        """Yield the files that were loaded, and patterns of those that would be."""
        root = self.project.root
        written = {*self._of_manifests(), *self._flows.reached()}
        yield from written
        places: list[Path | str] = [root / each for each in written]
        places += [Path(sys.prefix), Path(sys.base_prefix), _PENSTOCK]
        places += self._of_plugins()
        places += [each.folder for each in self.project.handbooks]
        inside = _RealPaths(root)
        for place in (*places, *_links(root)):
            yield from inside.real_path(place)
        for module in [*sys.modules.values()]:
            yield from self._imported.files_of(module)
        for pattern in _importable_patterns(root):
            yield glob(folded(pattern))

    def _of_manifests(self) -> Iterator[str]:
        bundle = self.project.bundle
        yield from bundle.reached
        for tool in bundle.every_tool:
            yield tool.file
            if tool.execution.script_file:
                yield PurePosixPath(tool.folder, tool.execution.script_file).as_posix()
        for skill in bundle.skills.values():
            yield skill.file
            if skill.folder != ".":
                yield skill.folder
            if skill.instruction_file is not None:
                yield os.path.normpath(f"{skill.folder}/{skill.instruction_file}")

    def _of_plugins(self) -> list[Path]:
        plugins = self.project.plugins
        return [*plugins.agents_dirs, *plugins.flows_dirs, *plugins.skills_dirs]


def protect(runtime: Runtime, project: Project) -> None:
    """Forbid agents to write the files that this edition of a project loaded."""
    folder, flows = runtime.parts.flows.materials.folder, runtime.parts.flows.files
    if folder is not None and flows is not None:
        folder.loaded.follow(ProtectedFiles(project, flows))


def _links(root: Path) -> Iterator[Path]:
    """Yield the symbolic links in the folders that the project reads."""
    for name in _LINKED:
        folder = root / name
        if folder.is_symlink():
            yield folder
        for path, entry in entries_below(folder, never):
            if entry.is_symlink():
                yield folder / path


class _Imported:
    """Finds the files of imported modules, and remembers those of each module.

    A write that follows an import meets one new module among 2,000; resolving all takes 50 ms.
    """

    def __init__(self, root: Path) -> None:
        self._inside = _RealPaths(root)
        self._known: dict[int, tuple[ModuleType, tuple[Found, ...]]] = {}

    def files_of(self, module: ModuleType) -> tuple[Found, ...]:
        """Return the files of a module in the project, with all modules of a package."""
        known = self._known.get(id(module))
        if known is None or known[0] is not module:
            known = self._known[id(module)] = module, tuple(self._find_files(module))
        return known[1]

    def _find_files(self, module: ModuleType) -> Iterator[Found]:
        for file in _imported_files(module):
            yield from self._inside.real_path(file)
        for folder in _package_folders(module):
            yield from map(Modules, self._inside.real_path(folder))


class _RealPaths:
    """Resolves paths to real paths relative to the project's folder.

    Each folder is resolved once: 2,000 modules are in 200 folders, and resolving a path reads
    every folder above it.
    """

    def __init__(self, root: Path) -> None:
        self._start = f"{root}{os.sep}"
        self._folders: dict[str, str] = {}

    def real_path(self, place: Path | str) -> Iterator[str]:
        """Yield the real path; nothing if it is outside of the project's folder."""
        try:
            real = self._real(str(place))
        except (OSError, ValueError):
            return
        if real.startswith(self._start):
            yield Path(real.removeprefix(self._start)).as_posix()

    def _real(self, place: str) -> str:
        above, _, name = place.rpartition(os.sep)
        if not above or name in {"", ".", ".."} or _is_link(place):
            return os.path.realpath(place)
        if above not in self._folders:
            self._folders[above] = os.path.realpath(above)
        return f"{self._folders[above]}{os.sep}{name}"


def _is_link(place: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(place).st_mode)
    except OSError:
        return False


def _mark(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


# ---- what Python may import ----


def _imported_files(module: ModuleType) -> Iterator[str]:
    """Yield the files that a module was imported from, compiled files and archives included."""
    for name in ("__file__", "__cached__"):
        if isinstance(file := getattr(module, name, None), str):
            yield file
    if isinstance(archive := getattr(getattr(module, "__loader__", None), "archive", None), str):
        yield archive


def _package_folders(module: ModuleType) -> Iterator[str]:
    """Yield the folders of a package, also those outside `sys.path` (editable installs)."""
    if (places := getattr(module, "__path__", None)) is not None:
        with suppress(KeyError, TypeError):  # a namespace package without its parent
            yield from (each for each in places if isinstance(each, str))


def _import_folders(root: Path) -> tuple[str, ...]:
    """Return the entries of `sys.path` inside a folder, relative to it; `""` is the folder itself.

    Links in entries are resolved once and cached: each write to a project calls this.
    """
    entries = (each or str(Path.cwd()) for each in (*sys.path, *removed_entries))
    return _folders_inside(root, tuple(dict.fromkeys(entries)))


@lru_cache(maxsize=8)
def _folders_inside(root: Path, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return both the written and the resolved entries: a link in an entry is protected too."""
    real, folders = Path(os.path.realpath(root)), dict[str | None, None]()
    for path_entry in path:
        as_written = os.path.abspath(path_entry)  # noqa: PTH100  it must not resolve links
        for entry in (as_written, os.path.realpath(path_entry)):
            folders |= {_below(base, Path(entry)): None for base in (real, root)}
    return tuple(folder for folder in folders if folder is not None)


def _below(root: Path, entry: Path) -> str | None:
    if entry == root.parent:
        return ".."
    if not entry.is_relative_to(root):
        return None
    return "" if entry == root else entry.relative_to(root).as_posix()


def _is_in_package(root: Path, path: str) -> bool:
    """Whether a path below a folder is in a package that a process may import from there.

    Cost: one lookup for each entry of `sys.path`, whatever the number of packages.
    """
    for folder in _import_folders(root):
        place, start = (root.parent, root.name) if folder == ".." else (root / folder, folder)
        below = f"{root.name}/{path}" if folder == ".." else path
        if folder and folder != "..":
            if not below.lower().startswith(f"{start.lower()}/"):
                continue
            below = below[len(start) + 1 :]
        name, slash, _ = below.partition("/")
        if slash and (name in sys.modules or any(_inits(place / name))):
            return True
    return False


def _inits(folder: Path) -> Iterator[bool]:
    return (os.path.lexists(f"{folder}/__init__{ending}") for ending in (".py", ".pyc"))


def _importable_patterns(root: Path) -> Iterator[str]:
    """Yield patterns of the files below a folder that a process may import from it.

    Patterns also cover files that do not exist yet: a new `json.py` beside a program shadows the
    library, and a plugin's metadata name modules that the next start imports. An entry of
    `sys.path`, or a folder above it, may be replaced by an archive (PEP 273) or a link.
    """
    for folder in _import_folders(root):
        if folder == "..":
            yield from (f"__init__{ending}" for ending in _ENDINGS)
            continue
        start = f"{folder}/" if folder else ""
        yield from _each_name(folder)
        yield from (f"{start}{name}" for name in (*_TOP_FILES, *_TOP_FOLDERS))
        yield from (f"{start}{name}/**" for name in _TOP_FOLDERS)
        yield from (f"{start}*{ending}" for ending in _ENDINGS)
        yield from (f"{start}*/__init__{ending}" for ending in _ENDINGS)


def _each_name(folder: str) -> Iterator[str]:
    names = folder.split("/") if folder else []
    yield from ("/".join(names[:count]) for count in range(1, len(names) + 1))
