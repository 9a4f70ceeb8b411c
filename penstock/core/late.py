"""Load a costly module when it is first needed. The only file that imports by name."""

from importlib import import_module
from typing import Any

from penstock.core.errors import ConfigError


def late(path: str, *, extra: str = "") -> Any:
    """Return what "package.module:name" names; the caller annotates what it gets."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if not extra:
            raise
        raise ConfigError(
            f"{path} needs {error.name!r}, which is not installed: pip install 'penstock[{extra}]'"
        ) from error
