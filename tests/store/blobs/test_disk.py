"""Named bytes as files: whole or not at all, whatever becomes of the folder."""

import asyncio
import os
from pathlib import Path

import pytest

from penstock.core.clock import Moment
from penstock.core.errors import OutOfResources, StoreError
from penstock.store.blobs.disk import Disk
from tests.kit.resources import no_files_left


async def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "not yet" / "there")
    await asyncio.gather(*[disk.put("name", b"x" * 100_000, anew=True) for _ in range(8)])
    await disk.put("name", b"y")
    assert [each.name for each in disk.folder.iterdir()] == ["name"]
    assert (disk.folder / "name").read_bytes() == b"y"


def test_a_file_may_be_read_by_whoever_may_read_any(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    asyncio.run(Disk(tmp_path).put("name", b"x"))
    assert (tmp_path / "name").stat().st_mode == (tmp_path / "usual").stat().st_mode


async def test_what_a_crash_left_beside_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "part_0000").write_bytes(b"half of it")
    disk = Disk(tmp_path)
    assert await disk.put("name", b"whole", anew=True)
    assert await disk.find("name") == b"whole"


async def test_what_a_crash_left_beside_goes_when_it_is_old(tmp_path: Path) -> None:
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
    assert await disk.put("other", b"y", anew=True)


async def test_a_folder_in_the_place_of_a_file_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    disk = Disk(tmp_path)
    for work in (disk.find("name"), disk.put("name", b"x"), disk.delete("name")):
        with pytest.raises(StoreError, match="the blobs cannot be"):
            await work


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_what_is_no_folder_is_refused_at_once(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        Disk(tmp_path / place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_is_on_disk_before_its_name_and_its_name_before_it_is_said(
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


def test_a_file_that_is_there_already_is_synced_before_it_is_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote it may have been killed before it was on disk."""
    asyncio.run(Disk(tmp_path).put("name", b"x", anew=True))
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda opened: synced.append(os.fstat(opened).st_ino))
    assert not asyncio.run(Disk(tmp_path).put("name", b"x", anew=True))
    assert synced == [(tmp_path / "name").stat().st_ino, tmp_path.stat().st_ino]
