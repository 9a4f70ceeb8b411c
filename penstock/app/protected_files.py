"""Which files of a project decide what runs there, found from what was read and imported.

Names are not enough: a manifest may run any script, a flow any module, `tools` may be a link, and a
Python tool may import what it likes. So this asks what was loaded, and what would have been if it
was there: scripts with their imports, flows with those they refer to and their handlers, folders of
skills and handbooks, imported modules and whatever could be imported from a folder
on Python's path, the environment of
Python itself. `penstock.toml`, `agents/`
and other names that every project has are in `resources/project/access.py`.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType

from penstock.app.project import Project
from penstock.app.runtime import Runtime
from penstock.core.late import (
    importable_patterns,
    imported_files,
    is_in_package,
    package_folders,
)
from penstock.flows.project.flows import ProjectFlows
from penstock.resources.project.files import entries_below, never
from penstock.resources.project.folding import folded
from penstock.resources.project.globs import glob
from penstock.resources.project.loaded import Found, Modules

_LINKED = ("agents", "flows", "handbooks", "schedules", "tools", ".pi")
"""Folders that are read; what a link in them leads to is read as well."""
_PENSTOCK = Path(__file__).parents[1]


class ProtectedFiles:
    """Finds the loaded files of the newest edition of a project."""

    def __init__(self, project: Project, flows: ProjectFlows) -> None:
        self.project = project
        self._flows = flows
        self._imported = _Imported(project.root)

    def stamp(self) -> object:
        """Return what is equal as long as nothing else was loaded."""
        files = [each.root / each.path for each in self._flows.files().files.values()]
        return len(sys.modules), tuple(sys.path), tuple(map(_mark, files))

    def has_package(self, path: str) -> bool:
        """Whether a path is in a package that could be imported from the project."""
        return is_in_package(self.project.root, path)

    def find(self) -> Iterator[Found]:
        """Yield what was loaded, and what would have been."""
        root = self.project.root
        written = {*self._of_manifests(), *self._flows.reached()}
        yield from written
        places: list[Path | str] = [root / each for each in written]
        places += [Path(sys.prefix), Path(sys.base_prefix), _PENSTOCK]
        places += self._of_plugins()
        places += [each.folder for each in self.project.handbooks]
        inside = _Inside(root)
        for place in (*places, *_links(root)):
            yield from inside.of(place)
        for module in [*sys.modules.values()]:
            yield from self._imported.of(module)
        for pattern in importable_patterns(root):
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
    """Protect the files that this edition of a project loaded from agents."""
    folder, flows = runtime.parts.materials.folder, runtime.parts.flow_files
    if folder is not None and flows is not None:
        folder.loaded.follow(ProtectedFiles(project, flows))


def _links(root: Path) -> Iterator[Path]:
    """Yield the links in the folders that are read."""
    for name in _LINKED:
        folder = root / name
        if folder.is_symlink():
            yield folder
        for path, entry in entries_below(folder, never):
            if entry.is_symlink():
                yield folder / path


class _Imported:
    """Says what was imported from the project, looking at each module once.

    Of 2,000 modules one is new when a write follows an import; to look where all of them are takes
    50 ms.
    """

    def __init__(self, root: Path) -> None:
        self._inside = _Inside(root)
        self._known: dict[int, tuple[ModuleType, tuple[Found, ...]]] = {}

    def of(self, module: ModuleType) -> tuple[Found, ...]:
        """Return the files of a module and, of a package, the modules in it."""
        known = self._known.get(id(module))
        if known is None or known[0] is not module:
            known = self._known[id(module)] = module, tuple(self._look(module))
        return known[1]

    def _look(self, module: ModuleType) -> Iterator[Found]:
        for file in imported_files(module):
            yield from self._inside.of(file)
        for folder in package_folders(module):
            yield from map(Modules, self._inside.of(folder))


class _Inside:
    """Says where places really are, from the project's folder.

    Each folder is resolved once: 2,000 modules lie in 200, and a name takes a look at each above.
    """

    def __init__(self, root: Path) -> None:
        self._start = f"{root}{os.sep}"
        self._folders: dict[str, str] = {}

    def of(self, place: Path | str) -> Iterator[str]:
        """Yield the place; nothing if it is not below the project's folder."""
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
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
