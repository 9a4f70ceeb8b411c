"""Bytes by the hash of their content: in a folder, in memory, or in a bucket.

Guarantees: bytes are stored durably when `put` returns, completely or not at all; equal bytes are
stored once; `get` returns what was put, or raises.

How it works. `Objects` is the port: named bytes in a folder (`Disk`), in this process (`Memory`) or
in a bucket (`bucket.py`). Bytes that were put more than once have a mark, a second object with the
time of the last put. Every event that names bytes has put them, so bytes without a mark are named
by one event at most, and deleting them needs no search through the events.

Relies on: a hard link fails if the name exists, so one of several writers wins; a rename replaces a
file atomically. A file system without these two could show parts of a file.

Proof: tests/store/test_blobs.py, tests/contracts/test_objects.py.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from penstock.core.clock import Clock, Moment, SystemClock
from penstock.core.errors import ConfigError, NotFound, StoreCorrupt, StoreReadOnly
from penstock.core.exhaustion import blob_failure, brief, raise_exhaustion
from penstock.core.ids import BlobId, new_id
from penstock.core.late import late

_Found = TypeVar("_Found")

_ID = re.compile(r"[0-9a-f]{64}")
IN_MEMORY = "memory:///"
_PROBE, _PART, _SHARED = "tried", "part", ".shared"
_SMALL = 256 * 1024
"""Up to this size, hashing takes less time than handing the bytes to a thread."""


class StoredObject(NamedTuple):
    """A name, and when it was last written."""

    name: str
    at: Moment


class Objects(Protocol):
    """Bytes under flat names.

    Contract: when `put` returns, all bytes are stored durably, and every reader sees all of them or
    none. Of several writers that put the same name with `only_if_new` at once, one succeeds. Every
    failure is a StoreError.
    """

    @property
    def folder(self) -> Path | None:
        """The folder on this machine, if there is one."""
        ...

    async def put(self, name: str, content: bytes, *, only_if_new: bool = False) -> bool:
        """Store the bytes, replacing others; with `only_if_new` return False if the name exists."""
        ...

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, or None if the name does not exist."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether the name exists."""
        ...

    async def delete(self, name: str) -> None:
        """Delete the name; do nothing if it does not exist."""
        ...

    async def stored(self) -> Sequence[StoredObject]:
        """Return everything that is stored."""
        ...

    async def tidy(self, before: Moment) -> None:
        """Delete what is left of writes that started before then and were interrupted."""
        ...


class Blobs:
    """Stores bytes under their hash, once; see the module for the marks of shared bytes."""

    def __init__(self, objects: Objects, clock: Clock | None = None) -> None:
        self._objects = objects
        self._clock = clock or SystemClock()
        self._abandoned: set[BlobId] = set()

    @property
    def folder(self) -> Path | None:
        """The folder on this machine, if there is one."""
        return self._objects.folder

    async def put(self, data: bytes) -> BlobId:
        """Store the bytes, and return their id: equal bytes have the same id.

        If the caller is cancelled meanwhile, the write may still finish in its thread. No event
        will name these bytes, so they are noted for `take_abandoned`. They are not deleted here:
        another caller may have put the same bytes in between, and its event would name nothing.
        """
        blob_id = await _hash(data)
        putting = asyncio.ensure_future(self._objects.put(blob_id, data, only_if_new=True))
        try:
            is_new = await asyncio.shield(putting)
        except asyncio.CancelledError:
            putting.add_done_callback(partial(self._abandon, blob_id))
            raise
        if not is_new:
            # marked before the check: a sweep that runs between the two then keeps the bytes
            await self.share(blob_id)
            await self._mend(blob_id, data)
        return blob_id

    async def share(self, blob_id: BlobId) -> None:
        """Mark bytes as possibly named by several events, so that a sweep searches for these."""
        await self._objects.put(_mark(blob_id), b"%d" % self._clock.now())

    async def is_shared(self, blob_id: BlobId) -> bool:
        """Whether the bytes were put more than once, so that several events may name them."""
        return await self._objects.exists(_mark(blob_id))

    async def is_wanted_since(self, blob_id: BlobId, since: Moment) -> bool:
        """Whether the bytes were put again since then; the event that names them may come later."""
        mark = await self._objects.find(_mark(blob_id))
        return mark is not None and mark.isdigit() and int(mark) >= since

    async def get(self, blob_id: BlobId) -> bytes:
        """Return the bytes. Raises NotFound, or StoreCorrupt if their hash is another one."""
        data = await self._objects.find(blob_id) if _is_id(blob_id) else None
        if data is None:
            raise NotFound(f"there is no blob {blob_id!r}")
        # checked at every read: a damaged disk must not put other text into a conversation
        if await _hash(data) != blob_id:
            raise StoreCorrupt(
                f"blob {blob_id} contains other bytes than were stored; restore it from a copy"
            )
        return data

    async def exists(self, blob_id: BlobId) -> bool:
        """Whether bytes with this id are stored."""
        return _is_id(blob_id) and await self._objects.exists(blob_id)

    async def delete(self, blob_id: BlobId) -> None:
        """Delete the bytes and their mark; do nothing if they are not stored."""
        if not _is_id(blob_id):
            return
        for name in (_mark(blob_id), blob_id):
            await self._objects.delete(name)

    async def unwritten_since(self, before: Moment) -> set[BlobId]:
        """Return all bytes that were last put before then."""
        stored = await self._objects.stored()
        young = {each.name.removesuffix(_SHARED) for each in stored if each.at >= before}
        return {BlobId(name) for name, _ in stored if _is_id(name) and name not in young}

    async def tidy(self, before: Moment) -> None:
        """Delete what is left of writes that started before then and were interrupted."""
        await self._objects.tidy(before)

    async def try_write(self) -> None:
        """Write and delete an empty object. Raises StoreError if nothing can be written."""
        await self._objects.put(_PROBE, b"")
        await self._objects.delete(_PROBE)

    def abandon(self, blob_ids: Iterable[BlobId]) -> None:
        """Note bytes that were put for an event which was never written."""
        self._abandoned.update(blob_ids)

    def take_abandoned(self) -> set[BlobId]:
        """Return, once, the bytes that no event of their caller names; another's event may."""
        abandoned, self._abandoned = self._abandoned, set()
        return abandoned

    def _abandon(self, blob_id: BlobId, putting: "asyncio.Future[bool]") -> None:
        if not putting.cancelled() and putting.exception() is None:
            self._abandoned.add(blob_id)

    async def _mend(self, blob_id: BlobId, data: bytes) -> None:
        """Store the bytes again if a power cut damaged their file, or a sweep just deleted it."""
        if self.folder is not None and await self._objects.find(blob_id) != data:
            await self._objects.put(blob_id, data)


def open_blobs(url: str, clock: Clock | None = None) -> Blobs:
    """Return the blobs at a path, `file:///dir`, `memory:///`, or `s3://bucket/prefix`.

    Raises ConfigError if the address is not valid, or its library is not installed.
    """
    try:
        return Blobs(_objects(url), clock)
    except PermissionError as error:
        raise StoreReadOnly(f"the blobs at {url!r} cannot be written: {error}") from error
    except (OSError, ValueError) as error:
        forms = "a directory, file:///dir, memory:/// or s3://bucket/prefix"
        raise ConfigError(f"blobs: expected {forms}, found {url!r}: {brief(error)}") from error


def _objects(url: str) -> Objects:
    if url.startswith("file:"):
        return Disk(_folder_of(url))
    if url == IN_MEMORY:
        return Memory()
    if "://" not in url:
        if re.match(r"[a-z][a-z0-9+]+:", url):  # else "memory:" would make a folder of this name
            raise ValueError("a scheme is followed by //")
        return Disk(Path(url).absolute())
    open_bucket: Callable[[str], Objects] = late(
        "penstock.store.bucket:open_bucket", extra="s3", what=f"blobs = {url!r}"
    )
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
    return f"{blob_id}{_SHARED}"


def _is_id(blob_id: str) -> bool:
    return _ID.fullmatch(blob_id) is not None


# ---- in this process ----


class Memory:
    """Bytes in this process, for tests, dry runs and trials."""

    folder = None

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    async def put(self, name: str, content: bytes, *, only_if_new: bool = False) -> bool:
        """Store the bytes, replacing others; with `only_if_new` return False if the name exists."""
        if only_if_new and name in self._contents:
            return False
        self._contents[name] = bytes(content)
        return True

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, or None if the name does not exist."""
        return self._contents.get(name)

    async def exists(self, name: str) -> bool:
        """Whether the name exists."""
        return name in self._contents

    async def delete(self, name: str) -> None:
        """Delete the name; do nothing if it does not exist."""
        self._contents.pop(name, None)

    async def stored(self) -> Sequence[StoredObject]:
        """Return everything that is stored; in memory nothing is ever old."""
        return [StoredObject(each, Moment(2**53)) for each in self._contents]

    async def tidy(self, before: Moment) -> None:
        """Do nothing: a write in memory is never interrupted."""


# ---- in a folder ----


class Disk:
    """A folder with a file for each name; created if necessary. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._folder

    async def put(self, name: str, content: bytes, *, only_if_new: bool = False) -> bool:
        """Store the bytes, replacing others; with `only_if_new` return False if the name exists."""
        return await _in_thread(lambda: self._put(name, content, only_if_new=only_if_new))

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, or None if the name does not exist."""
        return await _in_thread(lambda: _read(self._folder / name))

    async def exists(self, name: str) -> bool:
        """Whether the name exists."""
        return await _in_thread(lambda: _is_file(self._folder / name))

    async def delete(self, name: str) -> None:
        """Delete the name; do nothing if it does not exist."""
        await _in_thread(lambda: (self._folder / name).unlink(missing_ok=True))

    async def stored(self) -> Sequence[StoredObject]:
        """Return everything that is stored."""
        return await _in_thread(lambda: _entries(self._folder))

    async def tidy(self, before: Moment) -> None:
        """Delete what is left of writes that started before then and were interrupted."""
        await _in_thread(lambda: _remove_parts(self._folder, before))

    def _put(self, name: str, content: bytes, *, only_if_new: bool) -> bool:
        """Write a file of another name, then rename or link it, so that no reader sees a part."""
        path, part = self._folder / name, self._folder / new_id(_PART)
        is_new = not (only_if_new and _is_file(path))
        try:
            if is_new:
                _write(part, content)
                if only_if_new:
                    # a link fails if the name exists; a rename would replace it
                    path.hardlink_to(part)
                else:
                    part.replace(path)
        except FileExistsError:
            is_new = False
        finally:
            part.unlink(missing_ok=True)
        if not is_new:
            # another process may have created the file without having synced it yet
            _sync(path)
        # the name is an entry of the folder: without this a power cut can lose it
        _sync(self._folder)
        return is_new


async def _in_thread(work: Callable[[], _Found]) -> _Found:
    """Run blocking work in a thread, and raise its failure as a StoreError."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise blob_failure(error) from error
    except RuntimeError as error:  # no thread could be started
        raise_exhaustion(error)
        raise


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_file(path: Path) -> bool:
    # not Path.exists, which answers False if the folder was replaced by a file
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _entries(folder: Path) -> list[StoredObject]:
    found = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # it was deleted meanwhile
            found.append(StoredObject(path.name, Moment(int(1000 * path.stat().st_mtime))))
    return found


def _remove_parts(folder: Path, before: Moment) -> None:
    for part in folder.glob(f"{_PART}_*"):
        with suppress(FileNotFoundError):  # another process may remove it at the same time
            if 1000 * part.stat().st_mtime < before:
                part.unlink()


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    """Wait until a file or the entries of a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
