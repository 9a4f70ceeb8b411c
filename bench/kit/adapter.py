"""The adapter that a measuring process was told to load, and how its figures get out."""

import importlib
import importlib.metadata
import json
import sqlite3
import sys
from typing import Any

from bench.kit import calibrate


def load(name: str) -> Any:
    """Import an adapter by the name of its module."""
    return importlib.import_module(name)


def report(adapter: Any, figures: dict[str, Any]) -> None:
    """Print what was measured, where the process that waits for it will look."""
    about = {
        "version": _version(adapter.DISTRIBUTION),
        "python": sys.version.split()[0],
        "quiet_ms": calibrate.best_ms(),
    }
    print("RESULT " + json.dumps(figures | about), flush=True)


def _version(distribution: str) -> str:
    if distribution == "sqlite3":
        return sqlite3.sqlite_version
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
