"""Named bytes in a bucket or in memory, by obstore; loaded late, because few projects have one."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import Literal, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import ObjectStore, from_url

from penstock.core.clock import Moment
from penstock.store.blobs import failure

PutMode = Literal["create", "overwrite"]
_Found = TypeVar("_Found")


class Bucket:
    """What lies somewhere else, reached when it is first asked for something."""

    folder = None

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, name: str, content: bytes, *, anew: bool = False) -> bool:
        """Keep the bytes, in place of others; False if they are to be new and the name is taken."""
        mode: PutMode = "create" if anew else "overwrite"
        try:
            await _asked(obstore.put_async(self._store, name, content, mode=mode))
        except AlreadyExistsError:
            return False
        return True

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, if there are any."""
        try:
            found = await _asked(obstore.get_async(self._store, name))
            return bytes(await _asked(found.bytes_async()))
        except FileNotFoundError:
            return None

    async def exists(self, name: str) -> bool:
        """Whether the name is taken."""
        try:
            await _asked(obstore.head_async(self._store, name))
        except FileNotFoundError:
            return False
        return True

    async def delete(self, name: str) -> None:
        """Free the name; nothing happens if it is free."""
        with suppress(FileNotFoundError):
            await _asked(obstore.delete_async(self._store, name))

    async def tidy(self, before: Moment) -> None:
        """Remove nothing: a bucket keeps no parts that can be seen."""


def open_bucket(url: str) -> Bucket:
    """Return what `memory:///` or `s3://bucket/prefix` names. Raises ValueError."""
    try:
        return Bucket(from_url(url))
    except BaseError as error:
        raise ValueError(str(error)) from error


async def _asked(work: Awaitable[_Found]) -> _Found:
    """Await what the store does, and say what its failure means."""
    try:
        return await work
    except (AlreadyExistsError, FileNotFoundError):
        raise
    except NotFoundError as error:
        raise FileNotFoundError(str(error)) from error
    except (BaseError, OSError) as error:
        raise failure(error) from error
