"""Named bytes as the files of one folder."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from penstock.core.clock import Moment
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.ids import new_id
from penstock.store.blobs.objects import failure

_Found = TypeVar("_Found")
_PART = "part"


class Disk:
    """A folder with a file for each name; it is made if it is not there. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return self._folder

    async def put(self, name: str, content: bytes, *, anew: bool = False) -> bool:
        """Keep the bytes, in place of others; False if they are to be new and the name is taken."""
        return await _asked(lambda: self._put(name, content, anew=anew))

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, if there are any."""
        return await _asked(lambda: _read(self._folder / name))

    async def exists(self, name: str) -> bool:
        """Whether the name is taken."""
        return await _asked(lambda: _is_there(self._folder / name))

    async def delete(self, name: str) -> None:
        """Free the name; nothing happens if it is free."""
        await _asked(lambda: (self._folder / name).unlink(missing_ok=True))

    async def tidy(self, before: Moment) -> None:
        """Remove what was begun before then and cut off."""
        await _asked(lambda: _remove_parts(self._folder, before))

    def _put(self, name: str, content: bytes, *, anew: bool) -> bool:
        """Write beside it, then give it the name: nobody sees a part, whatever happens."""
        path, part = self._folder / name, self._folder / new_id(_PART)
        is_new = not (anew and _is_there(path))
        try:
            if is_new:
                _write(part, content)
                if anew:
                    path.hardlink_to(part)
                else:
                    part.replace(path)
        except FileExistsError:
            is_new = False
        finally:
            part.unlink(missing_ok=True)
        if not is_new:
            _sync(path)
        _sync(self._folder)
        return is_new


async def _asked(work: Callable[[], _Found]) -> _Found:
    """Do it in a thread, and say what its failure means."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise failure(error) from error
    except RuntimeError as error:  # no thread could be started
        raise_exhaustion(error)
        raise


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _remove_parts(folder: Path, before: Moment) -> None:
    for part in folder.glob(f"{_PART}_*"):
        with suppress(FileNotFoundError):
            if 1000 * part.stat().st_mtime < before:
                part.unlink()


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    """Wait for the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
