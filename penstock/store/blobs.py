"""Bytes by the hash of their content: in a directory, in memory, or in a bucket.

Guarantees: bytes are on disk when `put` returns, completely or not at all; equal bytes are stored
once. `Objects` is the port below: named bytes in a folder (`Disk`) or in a bucket (`bucket.py`).

How it works. Bytes that were put more than once have a mark beside them with the time of the last
put. An event that names bytes has put them, so bytes without a mark are named by one event at most,
and deleting them needs no search. A file gets its name after its content is on disk.

Proof: tests/store/test_blobs.py, tests/contracts/test_objects.py.
"""

import asyncio
import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from penstock.core.clock import Clock, Moment, SystemClock
from penstock.core.errors import (
    ConfigError,
    NotFound,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from penstock.core.exhaustion import exhaustion_of, raise_exhaustion
from penstock.core.ids import BlobId, new_id
from penstock.core.late import late
from penstock.store.failures import FULL

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Objects(Protocol):
    """Bytes under flat names, whole or not there at all.

    Contract: what is put is on disk, and seen by all, when `put` returns; of several who put the
    same name anew at once, one succeeds. Whatever fails is a StoreError.
    """

    @property
    def folder(self) -> Path | None:
        """Where they lie on this machine, if they do."""
        ...

    async def put(self, name: str, content: bytes, *, anew: bool = False) -> bool:
        """Keep the bytes, in place of others; False if they are to be new and the name is taken."""
        ...

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, if there are any."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether the name is taken."""
        ...

    async def delete(self, name: str) -> None:
        """Free the name; nothing happens if it is free."""
        ...

    async def tidy(self, before: Moment) -> None:
        """Remove what was begun before then and cut off, if such is left at all."""
        ...


def failure(error: Exception) -> StoreError:
    """Return what went wrong with the place as a whole."""
    if (lack := exhaustion_of(error)) is not None:
        return lack
    said, number = brief(error), error.errno if isinstance(error, OSError) else None
    if number in FULL or "No space left" in said or "quota" in said.lower():
        return StoreFull(f"no space is left for blobs; nothing was lost: {said}")
    refused = number in _REFUSED or isinstance(error, PermissionError)
    if refused or "Read-only" in said or "Permission" in said:
        return StoreReadOnly(f"the blobs cannot be written: {said}")
    return StoreError(f"the blobs cannot be reached: {said}")


def brief(error: Exception) -> str:
    """Return the first line: some libraries add their own data structures to it."""
    return str(error).partition("\n")[0]


_ID = re.compile(r"[0-9a-f]{64}")
_TRIED = "tried"
_SMALL = 256 * 1024
"""Bytes that are hashed faster than a thread is asked to."""


class Blobs:
    """Bytes that are kept once, whoever puts them, and are on disk when `put` returns.

    Those that were put more than once have a mark beside them, which says when that was last. An
    event that names bytes has put them, so what has no mark is named by one event at most.
    """

    def __init__(self, objects: Objects, clock: Clock | None = None) -> None:
        self._objects = objects
        self._clock = clock or SystemClock()
        self._abandoned: set[BlobId] = set()

    @property
    def folder(self) -> Path | None:
        """Where they lie on this machine, if they do."""
        return self._objects.folder

    async def put(self, data: bytes) -> BlobId:
        """Store the bytes, and return their id: equal bytes have the same id.

        If the caller is cancelled meanwhile, the write may still finish in its thread. No event
        will name these bytes, so they are noted for `take_abandoned`. They are not deleted here:
        another caller may have put the same bytes in between, and its event would name nothing.
        """
        blob_id = await _hash(data)
        putting = asyncio.ensure_future(self._objects.put(blob_id, data, anew=True))
        try:
            is_new = await asyncio.shield(putting)
        except asyncio.CancelledError:
            putting.add_done_callback(partial(self._abandon, blob_id))
            raise
        if not is_new:
            await self.share(blob_id)
            await self._mend(blob_id, data)
        return blob_id

    async def share(self, blob_id: BlobId) -> None:
        """Note that several may have the bytes: who is to delete them looks for those first."""
        await self._objects.put(_mark(blob_id), b"%d" % self._clock.now())

    async def is_shared(self, blob_id: BlobId) -> bool:
        """Whether the bytes were put more than once, so that several may have them."""
        return await self._objects.exists(_mark(blob_id))

    async def is_wanted_since(self, blob_id: BlobId, since: Moment) -> bool:
        """Whether somebody has put the bytes again since then, who may not have noted it yet."""
        mark = await self._objects.find(_mark(blob_id))
        return mark is not None and mark.isdigit() and int(mark) >= since

    async def get(self, blob_id: BlobId) -> bytes:
        """Return the bytes. Raises NotFound, or StoreCorrupt when they are not what was put."""
        data = await self._objects.find(blob_id) if _is_id(blob_id) else None
        if data is None:
            raise NotFound(f"there is no blob {blob_id!r}")
        if await _hash(data) != blob_id:
            raise StoreCorrupt(
                f"blob {blob_id} has other bytes than were put; restore it from a copy"
            )
        return data

    async def exists(self, blob_id: BlobId) -> bool:
        """Whether there are such bytes."""
        return _is_id(blob_id) and await self._objects.exists(blob_id)

    async def delete(self, blob_id: BlobId) -> None:
        """Remove the bytes; nothing happens if they are not there."""
        if not _is_id(blob_id):
            return
        for name in (_mark(blob_id), blob_id):
            await self._objects.delete(name)

    async def tidy(self, before: Moment) -> None:
        """Remove what was begun before then and cut off, as by the end of the process."""
        await self._objects.tidy(before)

    async def try_write(self) -> None:
        """Write a little and take it away, to learn whether anything can be. Raises StoreError."""
        await self._objects.put(_TRIED, b"")
        await self._objects.delete(_TRIED)

    def take_abandoned(self) -> set[BlobId]:
        """Return, once, the bytes whose put was cancelled and finished all the same.

        They may be in use: another caller may have put them too.
        """
        abandoned, self._abandoned = self._abandoned, set()
        return abandoned

    def _abandon(self, blob_id: BlobId, putting: "asyncio.Future[bool]") -> None:
        if not putting.cancelled() and putting.exception() is None:
            self._abandoned.add(blob_id)

    async def _mend(self, blob_id: BlobId, data: bytes) -> None:
        """Replace what a crash cut off before it was on disk, or somebody deleted just now."""
        if self.folder is not None and await self._objects.find(blob_id) != data:
            await self._objects.put(blob_id, data)


def open_blobs(url: str, clock: Clock | None = None) -> Blobs:
    """Return the blobs at a path, `file:///dir`, `memory:///`, or `s3://bucket/prefix`."""
    try:
        return Blobs(_objects(url), clock)
    except PermissionError as error:
        raise StoreReadOnly(f"the blobs at {url!r} cannot be written: {error}") from error
    except (OSError, ValueError) as error:
        wanted = "a directory, file:///dir, memory:/// or s3://bucket/prefix"
        raise ConfigError(f"blobs: wanted {wanted}, found {url!r}: {brief(error)}") from error


def _objects(url: str) -> Objects:
    if url.startswith("file:"):
        return Disk(_folder_of(url))
    if "://" not in url:
        if re.match(r"[a-z][a-z0-9+]+:", url):  # else "memory:" would make a folder of this name
            raise ValueError("a scheme is followed by //")
        return Disk(Path(url).absolute())
    open_bucket: Callable[[str], Objects] = late("penstock.store.bucket:open_bucket")
    return open_bucket(url)


def _folder_of(url: str) -> Path:
    parts = urlsplit(url)
    folder = Path(unquote(parts.path))
    if parts.netloc not in {"", "localhost"} or not folder.is_absolute():
        raise ValueError("a file URL has three slashes and the whole path")
    return folder


async def _hash(data: bytes) -> BlobId:
    if len(data) <= _SMALL:
        return BlobId(sha256(data).hexdigest())
    return BlobId((await asyncio.to_thread(sha256, data)).hexdigest())


def _mark(blob_id: BlobId) -> str:
    return f"{blob_id}.shared"


def _is_id(blob_id: str) -> bool:
    return _ID.fullmatch(blob_id) is not None


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
