"""Cached values are found again, and the oldest are dropped."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.sandbox.compiler.build_cache import BuildCache


def kept(folder: Path | None) -> BuildCache[str]:
    def to_json(value: str) -> dict[str, Any]:
        return {"value": value}

    return BuildCache(folder, to_json, lambda found: str(found["value"]), max_characters=100)


def test_another_process_finds_the_value(tmp_path: Path) -> None:
    kept(tmp_path / "a").keep("key", "😀\ud800")
    assert kept(tmp_path / "a").find("key") == "😀\ud800"
    assert kept(tmp_path / "a").find("other") is None
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_cache_without_a_folder_keeps_values_in_memory() -> None:
    cache = kept(None)
    cache.keep("key", "value")
    assert cache.find("key") == "value"
    assert kept(None).find("key") is None


def test_the_least_recently_used_value_is_dropped_first() -> None:
    cache = kept(None)
    for number in range(5):
        cache.keep(str(number), "x" * 20)
    assert cache.find("0") is None
    assert cache.find("4") is not None


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 5000])
def test_a_damaged_file_counts_as_absent(tmp_path: Path, damage: bytes) -> None:
    kept(tmp_path).keep("key", "value")
    (tmp_path / "key").write_bytes(damage)
    assert kept(tmp_path).find("key") is None


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(ConfigError, match="only you may write to it"):
        kept(tmp_path / "a").keep("key", "value")


def test_a_read_only_folder_makes_keep_a_no_op(tmp_path: Path) -> None:
    cache = kept(tmp_path)
    (tmp_path / "key").mkdir()
    cache.keep("key", "value")
    assert cache.find("key") == "value"


@pytest.mark.parametrize(("most", "left"), [(9, 6), (6, 6), (5, 3)])
def test_a_folder_with_too_many_files_loses_the_older_half(
    tmp_path: Path, most: int, left: int
) -> None:
    for number in range(6):
        (tmp_path / f"old{number}").write_text("x")
        os.utime(tmp_path / f"old{number}", (number, number))
    cache = BuildCache[str](tmp_path, lambda value: {"value": value}, str, max_files=most)
    cache.keep("new", "x")
    result = {each.name for each in tmp_path.iterdir()}
    assert result == {"new", *(f"old{number}" for number in range(6 - left, 6))}
