"""A folder returns its own files only, whatever the names and symlinks."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.sandbox.compiler.script_files import Folder, ReadFailure, TrackedFiles

MAX_BYTES = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    (folder / "lib").mkdir(parents=True)
    (folder / "a.mts").write_text("a")
    (folder / "lib" / "b.mts").write_text("b")
    (tmp_path / "secret.mts").write_text("secret")
    return folder


@pytest.mark.parametrize(("name", "content"), [("a.mts", b"a"), ("lib/b.mts", b"b")])
def test_files_of_the_folder_are_read(root: Path, name: str, content: bytes) -> None:
    assert Folder(root).read(name, MAX_BYTES) == content


@pytest.mark.parametrize(
    "name", ["c.mts", "lib", "a.mts/b.mts", "a" * 300, "a\0.mts", "\ud800.mts", ""]
)
def test_anything_but_a_regular_file_is_missing(root: Path, name: str) -> None:
    assert Folder(root).read(name, MAX_BYTES) is ReadFailure.MISSING


@pytest.mark.parametrize(
    ("link", "to", "result"),
    [
        ("out.mts", "../secret.mts", ReadFailure.ESCAPES),
        ("out.mts", "/etc/passwd", ReadFailure.ESCAPES),
        ("out.mts", "lib/../../secret.mts", ReadFailure.ESCAPES),
        ("out.mts", "lib/b.mts", b"b"),
        ("out.mts", "gone.mts", ReadFailure.MISSING),
        ("out.mts", "out.mts", ReadFailure.MISSING),
    ],
)
def test_symlinks_are_followed_inside_the_folder_only(
    root: Path, link: str, to: str, result: bytes | ReadFailure
) -> None:
    (root / link).symlink_to(to)
    assert Folder(root).read(link, MAX_BYTES) == result


def test_a_symlinked_subfolder_outside_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "up").symlink_to(tmp_path)
    assert Folder(root).read("up/secret.mts", MAX_BYTES) is ReadFailure.ESCAPES
    assert Folder(root).read("../secret.mts", MAX_BYTES) is ReadFailure.ESCAPES


def test_the_folder_itself_may_be_reached_by_a_symlink(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert Folder(tmp_path / "link").read("a.mts", MAX_BYTES) == b"a"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_reading_a_pipe_does_not_block(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "pipe.mts")
    assert Folder(root).read("pipe.mts", MAX_BYTES) is ReadFailure.MISSING


def test_a_read_is_cut_at_its_limit(root: Path) -> None:
    with (root / "large.mts").open("wb") as file:
        file.truncate(1 << 40)
    assert Folder(root).read("large.mts", 10) == bytes(10)


def test_names_lists_files_for_suggestions(root: Path) -> None:
    (root / ".hidden").mkdir()
    (root / ".hidden" / "c.mts").touch()
    (root / "loop").symlink_to(root)
    assert Folder(root).names() == ["a.mts", "lib/b.mts"]


def test_names_stops_at_its_limit(root: Path) -> None:
    for number in range(20):
        (root / f"{number}.mts").touch()
    assert len(list(Folder(root, max_names=15).names())) == 15


def test_tracked_files_record_each_requested_name(root: Path) -> None:
    files = TrackedFiles(Folder(root))
    assert files.read("a.mts", MAX_BYTES) == b"a"
    assert files.read("c.mts", MAX_BYTES) is ReadFailure.MISSING
    assert files.asked == {"a.mts", "c.mts"}
    assert sorted(files.names()) == sorted(Folder(root).names())
