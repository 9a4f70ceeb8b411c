"""Named bytes, wherever they lie: the port behind the blobs, and what a failure there means."""

import errno
from pathlib import Path
from typing import Protocol

from penstock.core.clock import Moment
from penstock.core.errors import StoreError, StoreFull, StoreReadOnly
from penstock.core.exhaustion import exhaustion_of
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
