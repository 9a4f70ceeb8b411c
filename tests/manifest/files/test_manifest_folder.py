"""The folder of a manifest."""

import os
from pathlib import Path

from penstock.manifest.files.manifest_folder import ManifestFolder


def test_a_folder_that_is_itself_behind_a_symlink_is_whole(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.mts").touch()
    (tmp_path / "link").symlink_to("real")
    home = ManifestFolder(folder=tmp_path / "link", shown="link")
    assert home.real == os.path.realpath(tmp_path / "real")
    assert not home.leads_out("a.mts")
    assert home.has_file("a.mts")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mts")
    assert not ManifestFolder(folder=tmp_path, shown=".").has_file("a.mts")
