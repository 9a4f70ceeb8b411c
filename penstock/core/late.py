"""Load a costly module when it is first needed. The only file that imports by name.

Every import of penstock loads this file, so it imports nothing that `typing` has not loaded.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

removed_entries: list[str] = []
"""Entries that `leave_working_folder` removed from `sys.path`."""


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


def leave_working_folder() -> None:
    """Remove the working folder that `python -m` put on `sys.path`.

    Its files must not shadow libraries. `app/protected_files.py` still protects modules already
    imported from it.
    """
    with suppress(FileNotFoundError):  # the folder may be gone
        here = os.getcwd()  # noqa: PTH109  every import of penstock would load pathlib, 4 ms
        if sys.path and sys.path[0] in {"", here}:
            removed_entries.append(sys.path.pop(0) or here)


def open_folder(folder: os.PathLike[str], name: str) -> None:
    """Register a folder as a package, so that its files can import each other.

    Modules loaded under this name are dropped.
    """
    if sys.modules.pop(name, None) is not None:  # else it has no modules: to look takes 0.3 ms
        inside = f"{name}."
        for loaded in [each for each in sys.modules if each.startswith(inside)]:
            del sys.modules[loaded]
    package = ModuleType(name)
    package.__path__ = [os.fspath(folder)]
    sys.modules[name] = package


def load_file(file: os.PathLike[str], name: str) -> ModuleType:
    """Run a Python file once, as the module of this name. Errors of the file are raised as is."""
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{os.fspath(file)} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
