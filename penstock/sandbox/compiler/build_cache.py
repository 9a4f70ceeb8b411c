"""A cache of derived values by content hash: the latest in memory, all of them on disk.

Guarantees: a value is either complete and readable, or absent; threads and processes may use one
folder at the same time. Files are written in one step (`blobs.write_whole`) and never changed: the
key is a hash of everything that the value depends on, so two writers write the same content. The
folder must belong to this user alone (`blobs.open_cache`), because its contents become code that
runs. When the folder is opened with more than `max_files`, the older half is deleted. Proof:
tests/sandbox/compiler/test_build_cache.py.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from penstock.sandbox.blobs import open_cache, write_whole

MAX_CHARACTERS = 64 << 20
MAX_FILES = 20_000

Value = TypeVar("Value")


class BuildCache(Generic[Value]):
    """A cache of values that are expensive to compute. Without a folder it is in memory only.

    A file that is damaged, or of another version, counts as absent.
    """

    def __init__(
        self,
        folder: Path | None,
        to_json: Callable[[Value], dict[str, Any]],
        from_json: Callable[[dict[str, Any]], Value],
        *,
        max_characters: int = MAX_CHARACTERS,
        max_files: int = MAX_FILES,
    ) -> None:
        self._folder = folder
        self._to_json = to_json
        self._from_json = from_json
        self._max_characters = max_characters
        self._max_files = max_files
        self._is_open = False
        self._lock = Lock()
        self._latest: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._characters = 0

    def find(self, key: str) -> Value | None:
        """Return the value of a key, or None."""
        with self._lock:
            if key in self._latest:
                self._latest.move_to_end(key)
                return self._latest[key][0]
        return self._load(key)

    def keep(self, key: str, value: Value) -> None:
        """Store a value. The key must depend on everything that the value was computed from."""
        text = json.dumps(self._to_json(value), separators=(",", ":"))
        self._remember(key, value, len(text))
        if self._folder is not None:
            with suppress(OSError):  # a full disk makes the next start slow, not incorrect
                write_whole(self._opened(self._folder) / key, text.encode())

    def _load(self, key: str) -> Value | None:
        if self._folder is None:
            return None
        try:
            with open(f"{self._opened(self._folder)}/{key}", "rb") as file:  # noqa: PTH123  it is quicker
                text = file.read()
            value = self._from_json(json.loads(text))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        self._remember(key, value, len(text))
        return value

    def _remember(self, key: str, value: Value, characters: int) -> None:
        with self._lock:
            if key in self._latest:
                return
            self._latest[key] = value, characters
            self._characters += characters
            while self._characters > self._max_characters and len(self._latest) > 1:
                _, (_, freed) = self._latest.popitem(last=False)
                self._characters -= freed

    def _opened(self, folder: Path) -> Path:
        if not self._is_open:
            open_cache(folder)
            _make_room(folder, self._max_files)
            self._is_open = True
        return folder


def _make_room(folder: Path, most: int) -> None:
    """Delete the older half if there are more than `most` files."""
    files = list(os.scandir(folder))
    if len(files) > most:
        files.sort(key=lambda file: file.stat().st_mtime)
        for file in files[: len(files) // 2]:
            Path(file.path).unlink(missing_ok=True)
