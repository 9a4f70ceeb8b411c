"""A put of bytes that is cancelled while its thread writes."""

import asyncio
from hashlib import sha256
from pathlib import Path

from penstock.core.clock import Clock
from penstock.core.ids import BlobId
from penstock.store.blobs import Blobs, Disk


class HeldDisk(Disk):
    """Writes nothing before it may."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_asked, self.may_write = asyncio.Event(), asyncio.Event()
        self.has_written = asyncio.Event()

    async def put(self, name: str, content: bytes, *, only_if_new: bool = False) -> bool:
        """Wait until it may write."""
        self.is_asked.set()
        await self.may_write.wait()
        is_new = await super().put(name, content, only_if_new=only_if_new)
        self.has_written.set()
        return is_new


async def cancelled_put(
    folder: Path, content: bytes, clock: Clock | None = None
) -> tuple[Blobs, BlobId]:
    """Return the blobs, and the id of the bytes whose put was cancelled and has finished."""
    disk = HeldDisk(folder)
    blobs = Blobs(disk, clock)
    putting = asyncio.create_task(blobs.put(content))
    await disk.is_asked.wait()
    putting.cancel()
    await asyncio.wait([putting])
    disk.may_write.set()
    await disk.has_written.wait()
    await Disk(folder).find("nothing")  # lets the callback of the put run
    return blobs, BlobId(sha256(content).hexdigest())
