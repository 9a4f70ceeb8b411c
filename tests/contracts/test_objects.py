"""Named bytes keep one contract on disk, in memory and in a bucket; failures are StoreErrors."""

import asyncio
import errno
from pathlib import Path

import pytest

from penstock.core.errors import StoreError, StoreFull, StoreReadOnly
from penstock.core.exhaustion import blob_failure
from penstock.store.blobs import Disk, Memory, Objects
from penstock.store.bucket import open_bucket

LARGE = bytes(range(256)) * 4096


@pytest.fixture(params=["disk", "memory", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "disk":
        return Disk(tmp_path)
    return Memory() if request.param == "memory" else open_bucket("memory:///")


@pytest.mark.parametrize("content", [b"", b"\x00\xff", LARGE], ids=len)
async def test_a_stored_object_is_found(objects: Objects, content: bytes) -> None:
    assert await objects.put("name", content)
    assert await objects.exists("name")
    assert await objects.find("name") == content


async def test_an_object_that_was_not_stored_is_missing(objects: Objects) -> None:
    assert not await objects.exists("name")
    assert await objects.find("name") is None


async def test_a_name_that_is_taken_is_kept_unless_it_may_be_replaced(objects: Objects) -> None:
    assert await objects.put("name", b"first", only_if_new=True)
    assert not await objects.put("name", b"second", only_if_new=True)
    assert await objects.find("name") == b"first"
    assert await objects.put("name", b"third")
    assert await objects.find("name") == b"third"


async def test_of_several_at_once_one_is_the_first(objects: Objects) -> None:
    puts = [objects.put("name", bytes([each]) * 100_000, only_if_new=True) for each in range(8)]
    won = await asyncio.gather(*puts)
    assert sum(won) == 1
    assert await objects.find("name") == bytes([won.index(True)]) * 100_000


async def test_a_name_is_freed_however_often_it_is_asked_for(objects: Objects) -> None:
    await objects.put("name", b"x")
    for _ in range(2):
        await objects.delete("name")
    assert not await objects.exists("name")
    assert await objects.put("name", b"y", only_if_new=True)


async def test_everything_stored_is_listed_with_its_time(objects: Objects) -> None:
    assert [*await objects.stored()] == []
    for name in ("one", "two"):
        await objects.put(name, b"x")
    found = sorted(await objects.stored())
    assert [each.name for each in found] == ["one", "two"]
    assert min(each.at for each in found) > 1_700_000_000_000
    await objects.delete("one")
    assert [each.name for each in await objects.stored()] == ["two"]


MEANINGS: list[tuple[Exception, type[StoreError], str]] = [
    (OSError(errno.ENOSPC, "voll"), StoreFull, "no space is left for blobs; nothing was lost"),
    (OSError(errno.EDQUOT, "over"), StoreFull, "no space is left for blobs; nothing was lost"),
    (OSError(errno.EROFS, "nur lesen"), StoreReadOnly, "the blobs cannot be written"),
    (PermissionError(errno.EACCES, "nein"), StoreReadOnly, "the blobs cannot be written"),
    (PermissionError("as a library says it"), StoreReadOnly, "the blobs cannot be written"),
    (OSError(errno.EIO, "broken"), StoreError, "the blobs cannot be reached"),
    (ValueError("No space left on device\n\nDebug {}"), StoreFull, "No space left on device$"),
    (ValueError("Permission denied (os error 13)"), StoreReadOnly, "Permission denied"),
    (ValueError("connection refused"), StoreError, "the blobs cannot be reached: connection ref"),
]


@pytest.mark.parametrize(("error", "kind", "expected"), MEANINGS)
def test_a_failure_is_classified_by_its_cause(
    error: Exception, kind: type[StoreError], expected: str
) -> None:
    found = blob_failure(error)
    assert type(found) is kind
    with pytest.raises(kind, match=expected):
        raise found
