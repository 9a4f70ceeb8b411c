"""Bytes by the hash of their content: in a directory, in memory, or in a bucket."""

import asyncio
import os
import re
from collections.abc import Awaitable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from penstock.core.errors import (
    ConfigError,
    NotFound,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from penstock.core.ids import BlobId

_Found = TypeVar("_Found")
_ID = re.compile(r"[0-9a-f]{64}")
_TRIED = "tried"
_SMALL = 256 * 1024
"""Bytes that are hashed faster than a thread is asked to."""


class Blobs:
    """Bytes that are kept once, whoever puts them, and are on disk when `put` returns.

    Those that were put more than once have a mark beside them. An event that names bytes has put
    them, so what has no mark is named by one event at most.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.folder = store.prefix if isinstance(store, LocalStore) else None
        """Where they lie on this machine, if they do."""

    async def put(self, data: bytes) -> BlobId:
        """Keep the bytes; the same bytes have the same id."""
        blob_id = await _hash(data)
        try:
            await _asked(obstore.put_async(self._store, blob_id, data, mode="create"))
        except AlreadyExistsError:
            await self._mend(blob_id, data)
            await _asked(obstore.put_async(self._store, _mark(blob_id), b"", mode="overwrite"))
            await self._flush(_mark(blob_id))
        await self._flush(blob_id)
        return blob_id

    async def is_shared(self, blob_id: BlobId) -> bool:
        """Whether the bytes were put more than once, so that several may have them."""
        return await self._is_there(_mark(blob_id))

    async def get(self, blob_id: BlobId) -> bytes:
        """Return the bytes. Raises NotFound, or StoreCorrupt when they are not what was put."""
        data = await self._find(blob_id)
        if data is None:
            raise _missing(blob_id)
        if await _hash(data) != blob_id:
            raise StoreCorrupt(
                f"blob {blob_id} has other bytes than were put; restore it from a copy"
            )
        return data

    async def exists(self, blob_id: BlobId) -> bool:
        """Whether there are such bytes."""
        return _is_id(blob_id) and await self._is_there(blob_id)

    async def delete(self, blob_id: BlobId) -> None:
        """Remove the bytes; nothing happens if they are not there."""
        if not _is_id(blob_id):
            return
        for name in (_mark(blob_id), blob_id):
            with suppress(FileNotFoundError):
                await _asked(obstore.delete_async(self._store, name))

    async def try_write(self) -> None:
        """Write a little and take it away, to learn whether anything can be. Raises StoreError."""
        await _asked(obstore.put_async(self._store, _TRIED, b"", mode="overwrite"))
        with suppress(FileNotFoundError):
            await _asked(obstore.delete_async(self._store, _TRIED))

    async def _is_there(self, name: str) -> bool:
        try:
            await _asked(obstore.head_async(self._store, name))
        except FileNotFoundError:
            return False
        return True

    async def _find(self, blob_id: BlobId) -> bytes | None:
        if not _is_id(blob_id):
            return None
        try:
            found = await _asked(obstore.get_async(self._store, blob_id))
            return bytes(await _asked(found.bytes_async()))
        except FileNotFoundError:
            return None

    async def _mend(self, blob_id: BlobId, data: bytes) -> None:
        """Replace what a crash cut off before it was on disk."""
        if self.folder is not None and await self._find(blob_id) != data:
            await _asked(obstore.put_async(self._store, blob_id, data, mode="overwrite"))

    async def _flush(self, name: str) -> None:
        """Wait for the disk: obstore itself leaves that to the system."""
        if self.folder is None:
            return
        await _asked(asyncio.to_thread(_sync, self.folder / name, self.folder))


def open_blobs(url: str) -> Blobs:
    """Return the blobs at a path, `file:///dir`, `memory:///`, or `s3://bucket/prefix`."""
    try:
        if "://" not in url:
            return Blobs(LocalStore(Path(url).absolute(), mkdir=True))
        if url.startswith("file:"):
            return Blobs(LocalStore.from_url(url, mkdir=True))
        return Blobs(from_url(url))
    except PermissionError as error:
        raise StoreReadOnly(f"the blobs at {url!r} cannot be written: {error}") from error
    except (BaseError, OSError, ValueError) as error:
        wanted = "a directory, file:///dir, memory:/// or s3://bucket/prefix"
        raise ConfigError(f"blobs: wanted {wanted}, found {url!r}: {_brief(error)}") from error


async def _asked(work: Awaitable[_Found]) -> _Found:
    """Await what the store does, and say what its failure means."""
    try:
        return await work
    except (AlreadyExistsError, FileNotFoundError):
        raise
    except NotFoundError as error:
        raise FileNotFoundError(_brief(error)) from error
    except (BaseError, OSError) as error:
        raise _failure(error) from error


def _failure(error: Exception) -> StoreError:
    said = _brief(error)
    if "No space left" in said or "quota" in said.lower():
        return StoreFull(f"no space is left for blobs; nothing was lost: {said}")
    if isinstance(error, PermissionError) or "Read-only" in said or "Permission" in said:
        return StoreReadOnly(f"the blobs cannot be written: {said}")
    return StoreError(f"the blobs cannot be reached: {said}")


def _brief(error: Exception) -> str:
    """Return the first line: obstore adds its own data structures to it."""
    return str(error).partition("\n")[0]


async def _hash(data: bytes) -> BlobId:
    if len(data) <= _SMALL:
        return BlobId(sha256(data).hexdigest())
    return BlobId((await asyncio.to_thread(sha256, data)).hexdigest())


def _sync(*paths: Path) -> None:
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _mark(blob_id: BlobId) -> str:
    return f"{blob_id}.shared"


def _is_id(blob_id: str) -> bool:
    return _ID.fullmatch(blob_id) is not None


def _missing(blob_id: str) -> NotFound:
    return NotFound(f"there is no blob {blob_id!r}")
