"""Files opened name by name: a link that is put there meanwhile leads nowhere."""

import os
from pathlib import Path

import pytest

from penstock.resources.project.opening import open_to_read, replace_file

both = pytest.mark.parametrize("by_steps", [True, False], ids=["by steps", "at once"])


@both
def test_a_file_is_read_in_place(tmp_path: Path, *, by_steps: bool) -> None:
    assert replace_file(tmp_path, "a/b/c.txt", b"1", by_steps=by_steps)
    with open_to_read(tmp_path, "a/b/c.txt", by_steps=by_steps) as file:
        assert file.read() == b"1"
    with pytest.raises(FileNotFoundError):
        open_to_read(tmp_path, "a/c.txt", by_steps=by_steps)


@both
def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path, *, by_steps: bool) -> None:
    place = tmp_path / "run.sh"
    place.write_text("old")
    place.chmod(0o751)
    assert not replace_file(tmp_path, "run.sh", b"new", by_steps=by_steps)
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("new", 0o751)


@both
@pytest.mark.parametrize("link", ["inside/x", "inside"])
def test_a_link_that_was_put_there_meanwhile_is_not_followed(
    tmp_path: Path, link: str, *, by_steps: bool
) -> None:
    """The path was resolved before; by now one of its names has become a link that leads out."""
    root, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(outside / "x" if link.endswith("x") else outside)
    with pytest.raises(OSError, match=r"symbolic|directory|inside/x"):
        open_to_read(root, "inside/x", by_steps=by_steps)
    with pytest.raises((NotADirectoryError, IsADirectoryError)):
        replace_file(root, "inside/x", b"changed", by_steps=by_steps)
    assert (outside / "x").read_text() == "secret"


def test_a_link_that_alternates_between_targets_never_exposes_the_other_file(
    tmp_path: Path,
) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    for folder, text in ((root / "a", "mine"), (outside, "secret")):
        folder.mkdir(parents=True)
        (folder / "x").write_text(text)
    for turn in range(50):
        if turn % 2:
            (root / "a").rename(root / "kept")
            (root / "a").symlink_to(outside)
        elif turn:
            (root / "a").unlink()
            (root / "kept").rename(root / "a")
        try:
            with open_to_read(root, "a/x") as file:
                assert file.read() == b"mine"
        except NotADirectoryError:
            assert turn % 2


def test_a_special_file_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", ""):
        with pytest.raises(IsADirectoryError):
            open_to_read(tmp_path, name)
        with pytest.raises(IsADirectoryError):
            replace_file(tmp_path, name, b"")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(FileNotFoundError):
        open_to_read(tmp_path, "new")
    with pytest.raises(TypeError):
        replace_file(tmp_path, "old", "no bytes")  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"
