"""Load a costly module when it is first needed. The only file that imports by name."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core.errors import ConfigError


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


def importable_files(root: Path) -> Iterator[Path]:
    """Yield the places below a folder from which the next process would import what this one has.

    A file beside a program, such as `json.py`, comes before the library of that name. Folders
    elsewhere are passed over at once: a thousand names in each took 20 ms.
    """
    names = {each.partition(".")[0] for each in [*sys.modules]}
    for entry in dict.fromkeys(sys.path):
        folder = Path(entry or ".").absolute()
        if folder != root.parent and not folder.is_relative_to(root):
            continue
        for name in (*sorted(names), "sitecustomize", "usercustomize"):
            for file in (folder / f"{name}.py", folder / name / "__init__.py"):
                if file.is_relative_to(root):
                    yield file


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
