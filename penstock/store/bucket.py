"""Named bytes in a bucket, by obstore of the extra `s3`; loaded late, as few projects use one."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import ObjectStore, from_url

from penstock.core.clock import Moment
from penstock.core.exhaustion import blob_failure
from penstock.store.blobs import StoredObject

PutMode = Literal["create", "overwrite"]
_Found = TypeVar("_Found")


class Bucket:
    """Named bytes in a bucket. It connects at the first use, not when it is opened."""

    folder = None

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, name: str, content: bytes, *, only_if_new: bool = False) -> bool:
        """Store the bytes, replacing others; with `only_if_new` return False if the name exists."""
        mode: PutMode = "create" if only_if_new else "overwrite"
        try:
            await _checked(obstore.put_async(self._store, name, content, mode=mode))
        except AlreadyExistsError:
            return False
        return True

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, or None if the name does not exist."""
        try:
            response = await _checked(obstore.get_async(self._store, name))
            # `get_async` returns after the headers; the body can fail on its own
            return bytes(await _checked(response.bytes_async()))
        except FileNotFoundError:
            return None

    async def exists(self, name: str) -> bool:
        """Whether the name exists."""
        try:
            await _checked(obstore.head_async(self._store, name))
        except FileNotFoundError:
            return False
        return True

    async def delete(self, name: str) -> None:
        """Delete the name; do nothing if it does not exist."""
        with suppress(FileNotFoundError):
            await _checked(obstore.delete_async(self._store, name))

    async def stored(self) -> Sequence[StoredObject]:
        """Return everything that is stored."""
        found = []
        try:
            async for page in obstore.list(self._store):
                found += [
                    StoredObject(
                        each["path"], Moment(int(1000 * each["last_modified"].timestamp()))
                    )
                    for each in page
                ]
        except (BaseError, OSError) as error:
            raise blob_failure(error) from error
        return found

    async def tidy(self, before: Moment) -> None:
        """Do nothing: a bucket shows no parts of an interrupted write."""


def open_bucket(url: str) -> Bucket:
    """Return the bucket of an address such as `s3://bucket/prefix`. Raises ValueError."""
    try:
        return Bucket(from_url(url))
    except BaseError as error:
        raise ValueError(str(error)) from error


async def _checked(work: Awaitable[_Found]) -> _Found:
    """Await a request, and raise its failure as a StoreError or FileNotFoundError."""
    try:
        return await work
    except (AlreadyExistsError, FileNotFoundError):
        raise
    except NotFoundError as error:
        raise FileNotFoundError(str(error)) from error
    except (BaseError, OSError) as error:
        raise blob_failure(error) from error
