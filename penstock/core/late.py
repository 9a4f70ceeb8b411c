"""Load a costly module when it is first needed. The only file that imports by name."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

_removed_entries: list[str] = []
"""Entries removed from `sys.path`."""
PYTHON = (".py", ".pyc", ".so", ".pyd")
"""Endings of importable files."""
_TOP_FILES = ("*.pth", "*.egg-link")
_TOP_FOLDERS = ("*.dist-info", "*.egg-info", "EGG-INFO", "__pycache__")


def late(path: str, *, extra: str = "", what: str = "") -> Any:
    """Import `package.module:name` and return it; the caller annotates the type.

    `what` is the name in the error if the extra is missing.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise late("penstock.core.errors:ConfigError")(
            f"{what or path} needs {error.name!r}, which is not installed: "
            f"pip install 'penstock[{extra}]'"
        ) from error


def is_installed(package: str) -> bool:
    """Whether a package could be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):
        return False  # a parent is missing, or its module was hidden


@contextmanager
def hidden(module: str) -> Iterator[None]:
    """Prevent the import of a module inside the block; an already loaded one stays."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def imported_files(module: ModuleType) -> Iterator[str]:
    """Yield the files that a module was imported from, compiled files and archives included."""
    for name in ("__file__", "__cached__"):
        if isinstance(file := getattr(module, name, None), str):
            yield file
    if isinstance(archive := getattr(getattr(module, "__loader__", None), "archive", None), str):
        yield archive


def package_folders(module: ModuleType) -> Iterator[str]:
    """Yield the folders of a package, also those outside `sys.path` (editable installs)."""
    if (places := getattr(module, "__path__", None)) is not None:
        with suppress(KeyError, TypeError):  # a namespace package without its parent
            yield from (each for each in places if isinstance(each, str))


def leave_working_folder() -> None:
    """Remove the working folder that `python -m` put on `sys.path`.

    Its files must not shadow libraries. `importable_patterns` still protects modules already
    imported from it.
    """
    with suppress(FileNotFoundError):  # the folder may be gone
        if sys.path and sys.path[0] in {"", str(Path.cwd())}:
            _removed_entries.append(sys.path.pop(0) or str(Path.cwd()))


def import_folders(root: Path) -> tuple[str, ...]:
    """Return the entries of `sys.path` inside a folder, relative to it; `""` is the folder itself.

    Links in entries are resolved once and cached: each write to a project calls this.
    """
    entries = (each or str(Path.cwd()) for each in (*sys.path, *_removed_entries))
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


def is_in_package(root: Path, path: str) -> bool:
    """Whether a path below a folder is in a package that a process may import from there.

    Cost: one lookup for each entry of `sys.path`, whatever the number of packages.
    """
    for folder in import_folders(root):
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


def importable_patterns(root: Path) -> Iterator[str]:
    """Yield patterns of the files below a folder that a process may import from it.

    Patterns also cover files that do not exist yet: a new `json.py` beside a program shadows the
    library, and a plugin's metadata name modules that the next start imports. An entry of
    `sys.path`, or a folder above it, may be replaced by an archive (PEP 273) or a link.
    """
    for folder in import_folders(root):
        if folder == "..":
            yield from (f"__init__{ending}" for ending in PYTHON)
            continue
        start = f"{folder}/" if folder else ""
        yield from _each_name(folder)
        yield from (f"{start}{name}" for name in (*_TOP_FILES, *_TOP_FOLDERS))
        yield from (f"{start}{name}/**" for name in _TOP_FOLDERS)
        yield from (f"{start}*{ending}" for ending in PYTHON)
        yield from (f"{start}*/__init__{ending}" for ending in PYTHON)


def _each_name(folder: str) -> Iterator[str]:
    names = folder.split("/") if folder else []
    yield from ("/".join(names[:count]) for count in range(1, len(names) + 1))


def open_folder(folder: Path, name: str) -> None:
    """Register a folder as a package, so that its files can import each other.

    Modules loaded under this name are dropped.
    """
    inside = f"{name}."
    for loaded in [each for each in sys.modules if each == name or each.startswith(inside)]:
        del sys.modules[loaded]
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def load_file(file: Path, name: str) -> ModuleType:
    """Run a Python file once, as the module of this name. Errors of the file are raised as is."""
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
