"""Load a costly module when it is first needed. The only file that imports by name."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.exhaustion import raise_exhaustion

_LEFT: list[str] = []
"""What was taken off the path."""
_PYTHON = (".py", ".pyc", ".so", ".*.so", ".pyd", ".*.pyd")
_TOP_FILES = ("*.pth", "*.egg-link")
_TOP_FOLDERS = ("*.dist-info", "*.egg-info", "__pycache__")


def late(path: str, *, extra: str = "", what: str = "") -> Any:
    """Return what "package.module:name" names; the caller annotates what it gets.

    `what` people call it, who may have to install the extra.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise ConfigError(
            f"{what or path} needs {error.name!r}, which is not installed: "
            f"pip install 'penstock[{extra}]'"
        ) from error


def is_installed(package: str) -> bool:
    """Whether a package could be imported; nothing of it is."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):
        return False  # a parent is missing, or its module was hidden


@contextmanager
def hidden(module: str) -> Iterator[None]:
    """Keep a library from loading a module that it can do without; one that is loaded stays."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def imported_files() -> Iterator[str]:
    """Yield the files of all modules that this process has imported, compiled ones too."""
    for module in [*sys.modules.values()]:
        for name in ("__file__", "__cached__"):
            if isinstance(file := getattr(module, name, None), str):
                yield file


def leave_working_folder() -> None:
    """Take off the path what `python -m` put there: files of the working folder are no libraries.

    What was imported before came from there if it was there, so it stays importable for
    `importable_patterns`.
    """
    with suppress(FileNotFoundError):  # the folder may be gone
        if sys.path and sys.path[0] in {"", str(Path.cwd())}:
            _LEFT.append(sys.path.pop(0) or str(Path.cwd()))


def import_folders(root: Path) -> tuple[str, ...]:
    """Return what of the path is in a folder, relative to it; the empty text is the folder."""
    real = Path(os.path.realpath(root))
    entries = [Path(os.path.realpath(each or ".")) for each in dict.fromkeys([*sys.path, *_LEFT])]
    inside = [each.relative_to(real) for each in entries if each.is_relative_to(real)]
    found = ["" if each == Path() else each.as_posix() for each in inside]
    return (*found, "..") if real.parent in entries else tuple(found)


def import_packages(root: Path) -> frozenset[str]:
    """Return the packages that lie in these folders, relative to the root."""
    found = []
    for folder in import_folders(root):
        place = root.parent if folder == ".." else root / folder
        names = [root.name] if folder == ".." else _names_in(place)
        found += [
            "" if folder == ".." else f"{folder}/{name}".lstrip("/")
            for name in names
            if name in sys.modules or (place / name / "__init__.py").exists()
        ]
    return frozenset(found)


def importable_patterns(root: Path) -> Iterator[str]:
    """Yield patterns of the files below a folder that a process may import from it.

    By pattern, not by what is there: a file beside a program, such as `json.py`, comes before the
    library of that name, and metadata of a plugin name what is imported at the next start.
    """
    for folder in import_folders(root):
        if folder == "..":
            yield from (f"__init__{ending}" for ending in _PYTHON)
            continue
        start = f"{folder}/" if folder else ""
        yield from (f"{start}{name}" for name in (*_TOP_FILES, *_TOP_FOLDERS))
        yield from (f"{start}{name}/**" for name in _TOP_FOLDERS)
        yield from (f"{start}*{ending}" for ending in _PYTHON)
        yield from (f"{start}*/__init__{ending}" for ending in _PYTHON)
    for package in import_packages(root):
        start = f"{package}/" if package else ""
        yield from (f"{start}**/*{ending}" for ending in _PYTHON)


def _names_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError as error:
        raise_exhaustion(error)
        return []


def open_folder(folder: Path, name: str) -> None:
    """Make a folder a package of this name, so that its files can be loaded and see each other.

    What was loaded from it before under this name is forgotten.
    """
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[loaded]
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def load_file(file: Path, name: str) -> ModuleType:
    """Run a Python file as the module of this name, once; raises whatever the file raises."""
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
