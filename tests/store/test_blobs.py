"""Bytes by the hash of their content."""

import asyncio
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, NotFound, OutOfResources, StoreCorrupt, StoreError
from penstock.core.ids import BlobId
from penstock.store.blobs import Blobs, Disk, open_blobs
from tests.kit.cancelled_put import cancelled_put
from tests.kit.exhausted_process import no_files_left

LARGE = bytes(range(256)) * 4096


@pytest.fixture(params=["path", "file", "memory"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    places = {
        "path": str(tmp_path / "not yet" / "there"),
        "file": f"file://{tmp_path}/blobs",
        "memory": "memory:///",
    }
    return open_blobs(places[request.param])


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"text", LARGE], ids=len)
async def test_a_stored_blob_is_returned(blobs: Blobs, data: bytes) -> None:
    blob_id = await blobs.put(data)
    assert blob_id == sha256(data).hexdigest()
    assert await blobs.get(blob_id) == data
    assert await blobs.exists(blob_id)


async def test_the_same_bytes_may_be_put_again_and_at_once(blobs: Blobs) -> None:
    ids = await asyncio.gather(*[blobs.put(LARGE) for _ in range(8)])
    assert len(set(ids)) == 1
    assert await blobs.put(LARGE) == ids[0]
    assert await blobs.get(ids[0]) == LARGE


async def test_bytes_that_were_put_more_than_once_are_shared(blobs: Blobs) -> None:
    one, other = await blobs.put(b"one"), await blobs.put(b"other")
    assert not await blobs.is_shared(one)
    await blobs.put(b"one")
    assert (await blobs.is_shared(one), await blobs.is_shared(other)) == (True, False)
    await blobs.delete(one)
    assert not await blobs.is_shared(one)
    await blobs.put(b"one")
    assert not await blobs.is_shared(one)


async def test_a_deleted_blob_is_gone_and_may_be_deleted_again(blobs: Blobs) -> None:
    blob_id = await blobs.put(b"x")
    for _ in range(2):
        await blobs.delete(blob_id)
    assert not await blobs.exists(blob_id)
    with pytest.raises(NotFound, match=f"there is no blob '{blob_id}'"):
        await blobs.get(blob_id)


ESCAPES = [
    "",
    ".",
    "..",
    "../secret",
    "/etc/passwd",
    "%2e%2e/secret",
    "ab" * 31,
    "AB" * 32,
    "ab" * 32 + "\n",
    "g" * 64,
    "ab" * 32 + "/../../secret",
    "\u0660" * 64,
]


@pytest.mark.parametrize("name", ESCAPES)
async def test_no_other_name_reaches_the_disk(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    blobs = open_blobs(str(tmp_path / "blobs"))
    assert not await blobs.exists(BlobId(name))
    await blobs.delete(BlobId(name))
    with pytest.raises(NotFound, match="there is no blob"):
        await blobs.get(BlobId(name))
    assert secret.read_bytes() == b"mine"


async def test_bytes_that_changed_on_disk_are_not_given_out(tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path))
    blob_id = await blobs.put(b"as it was")
    (tmp_path / blob_id).write_bytes(b"as it is")
    with pytest.raises(StoreCorrupt, match="contains other bytes than were stored; restore it"):
        await blobs.get(blob_id)


@pytest.mark.parametrize("left", [b"", b"as it"])
async def test_the_next_put_repairs_a_blob_cut_by_a_crash(tmp_path: Path, left: bytes) -> None:
    blobs = open_blobs(str(tmp_path))
    (tmp_path / sha256(b"as it was").hexdigest()).write_bytes(left)
    assert await blobs.get(await blobs.put(b"as it was")) == b"as it was"


async def test_blobs_outlive_the_process(tmp_path: Path) -> None:
    blob_id = await open_blobs(str(tmp_path)).put(b"kept")
    assert await open_blobs(f"file://{tmp_path}").get(blob_id) == b"kept"


async def test_a_directory_that_went_away_is_a_failure_of_the_store(tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path / "blobs"))
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("a file now")
    with pytest.raises(StoreError, match="the blobs cannot be reached"):
        await blobs.put(b"x")


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "s3://bucket", "memory:///"])
def test_a_bucket_is_named_by_its_url_and_not_reached_before_it_is_used(url: str) -> None:
    assert isinstance(open_blobs(url), Blobs)


def test_an_unknown_place_is_a_setting_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url in ("nope://bucket", "memory:", "s3:bucket", str(tmp_path / "file" / "inside")):
        with pytest.raises(ConfigError, match=f"blobs: expected a directory.*found '{url}'"):
            open_blobs(url)


@pytest.mark.parametrize("url", ["file:some/folder", "file://elsewhere/folder", "file:"])
def test_a_file_url_names_a_whole_path_of_this_machine(url: str) -> None:
    with pytest.raises(ConfigError, match="a file URL has three slashes and the whole path"):
        open_blobs(url)


async def test_a_file_url_may_have_escapes(tmp_path: Path) -> None:
    blobs = open_blobs(f"file://{tmp_path}/with%20space")
    assert blobs.folder == tmp_path / "with space"
    assert blobs.folder.is_dir()


FOLDER = """
import asyncio, sys
from penstock.store.blobs import open_blobs

blobs = open_blobs(sys.argv[1])
blob_id = asyncio.run(blobs.put(b"kept"))
assert asyncio.run(blobs.get(blob_id)) == b"kept"
print("obstore" in sys.modules)
"""


@pytest.mark.programs
@pytest.mark.slow("starts a Python of its own")
def test_blobs_in_a_folder_do_not_load_the_library_for_buckets(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOLDER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "False\n"


WITHOUT_OBSTORE = """
import sys

sys.modules["obstore"] = None
from penstock.core.errors import ConfigError
from penstock.store.blobs import open_blobs

try:
    open_blobs("s3://bucket/prefix")
except ConfigError as error:
    print(error)
"""


@pytest.mark.programs
@pytest.mark.slow("starts a Python of its own")
def test_a_bucket_without_its_library_names_the_extra_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_OBSTORE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == (
        "blobs = 's3://bucket/prefix' needs 'obstore', which is not installed: "
        "pip install 'penstock[s3]'\n"
    )


async def test_a_put_that_is_cancelled_notes_the_bytes_that_it_still_wrote(tmp_path: Path) -> None:
    blobs, cut = await cancelled_put(tmp_path, b"text")
    assert blobs.take_abandoned() == {cut}
    assert blobs.take_abandoned() == set()
    assert await blobs.get(cut) == b"text", "another caller may have put them, too"


async def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "not yet" / "there")
    await asyncio.gather(*[disk.put("name", b"x" * 100_000, only_if_new=True) for _ in range(8)])
    await disk.put("name", b"y")
    assert [each.name for each in disk.folder.iterdir()] == ["name"]
    assert (disk.folder / "name").read_bytes() == b"y"


def test_a_stored_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    asyncio.run(Disk(tmp_path).put("name", b"x"))
    assert (tmp_path / "name").stat().st_mode == (tmp_path / "usual").stat().st_mode


async def test_a_partial_file_of_a_crash_does_not_prevent_a_put(tmp_path: Path) -> None:
    (tmp_path / "part_0000").write_bytes(b"half of it")
    disk = Disk(tmp_path)
    assert await disk.put("name", b"whole", only_if_new=True)
    assert await disk.find("name") == b"whole"


async def test_old_partial_files_are_removed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    await disk.put("name", b"whole")
    for name, seconds in (("part_old", 10), ("part_new", 20), ("name", 10)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    await disk.tidy(Moment(20_000))
    left = [await disk.exists(name) for name in ("part_old", "part_new", "name")]
    assert left == [False, True, True]


@pytest.mark.parametrize("left", ["nothing", "a file"])
async def test_a_folder_that_went_away_is_not_made_again(tmp_path: Path, left: str) -> None:
    """It may be on a disk that is not mounted: what is written there now would be hidden later."""
    disk = Disk(tmp_path / "blobs")
    disk.folder.rmdir()
    if left == "a file":
        disk.folder.write_text("")
    with pytest.raises(StoreError, match="the blobs cannot be reached"):
        await disk.put("name", b"x")
    assert not disk.folder.is_dir()


async def test_bytes_that_no_file_can_be_opened_for_are_put_later(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    await disk.put("name", b"x")  # a thread is there from now on
    with no_files_left():
        for asked in (disk.put("other", b"y"), disk.find("name")):
            with pytest.raises(OutOfResources):
                await asked
    assert await disk.put("other", b"y", only_if_new=True)


async def test_a_folder_in_the_place_of_a_file_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    disk = Disk(tmp_path)
    for work in (disk.find("name"), disk.put("name", b"x"), disk.delete("name")):
        with pytest.raises(StoreError, match="the blobs cannot be"):
            await work


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_a_path_that_is_not_a_folder_is_refused_immediately(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        Disk(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_is_synced_before_its_name_and_both_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power may go at any moment: a name without bytes, or bytes without a name, is a loss."""
    synced: list[tuple[str, bool]] = []
    fsync, folder = os.fsync, tmp_path.stat().st_ino

    def noted(opened: int) -> None:
        what = "folder" if os.fstat(opened).st_ino == folder else "file"
        synced.append((what, (tmp_path / "name").exists()))
        fsync(opened)

    monkeypatch.setattr("os.fsync", noted)
    asyncio.run(Disk(tmp_path).put("name", b"x"))
    assert synced == [("file", False), ("folder", True)]


def test_an_existing_file_is_synced_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that wrote it may have been killed before it was on disk."""
    asyncio.run(Disk(tmp_path).put("name", b"x", only_if_new=True))
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda opened: synced.append(os.fstat(opened).st_ino))
    assert not asyncio.run(Disk(tmp_path).put("name", b"x", only_if_new=True))
    assert synced == [(tmp_path / "name").stat().st_ino, tmp_path.stat().st_ino]
