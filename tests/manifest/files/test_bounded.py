"""Files that somebody wrote, read up to a limit."""

import os
from pathlib import Path

import pytest

from penstock.manifest.files.bounded import UnreadReason, read_bounded


def test_a_file_up_to_the_limit_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\x00ab")
    assert read_bounded(tmp_path / "a", 4) == b"\xff\x00ab"


def test_one_byte_more_is_too_large_and_the_message_names_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    message = "the flow has 5 bytes; the limit is 4"
    assert read_bounded(tmp_path / "a", 4, "the flow") == UnreadReason(
        code="file-too-large", message=message
    )


@pytest.mark.parametrize("name", [".", "pipe", "gone", "x" * 300])
def test_what_is_no_file_is_not_read_and_nothing_waits(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = read_bounded(tmp_path / name, 4)
    assert isinstance(found, UnreadReason)
    assert (found.code, found.is_missing) == ("file-unreadable", name == "gone")
