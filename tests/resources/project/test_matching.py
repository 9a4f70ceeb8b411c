"""Lines that match, as the program of a search finds them."""

from pathlib import Path
from typing import Any

import pytest

from penstock.resources.project.matching import search

TEXT = "one\ntwo Übung\r\nthree\n\nfive one\nsix\nseven\none more\n"


def looked_for(root: Path, names: tuple[str, ...] = ("a",), **more: Any) -> list[dict[str, Any]]:
    wanted = {"pattern": "", "ignore_case": False, "literal": False, "context": 0, "limit": 100}
    files = [[name, name] for name in names]
    return list(search({**wanted, **more, "root": str(root), "files": files}))


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ({"pattern": "one"}, ["a:1: one", "a:5: five one", "a:8: one more"]),
        ({"pattern": "^one$"}, ["a:1: one"]),
        ({"pattern": "ÜBUNG$", "ignore_case": True}, ["a:2: two Übung"]),
        ({"pattern": "o.e", "literal": True}, []),
        ({"pattern": "^$"}, ["a:4: "]),
        ({"pattern": r"(?<!f)ive|\Asix\Z"}, ["a:6: six"]),
        ({"pattern": "three", "context": 1}, ["a-2- two Übung", "a:3: three", "a-4- "]),
        (
            {"pattern": "three|six", "context": 1},
            ["a-2- two Übung", "a:3: three", "a-4- ", "a-5- five one", "a:6: six", "a-7- seven"],
        ),
        (
            {"pattern": "^one", "context": 1},
            ["a:1: one", "a-2- two Übung", "--", "a-7- seven", "a:8: one more"],
        ),
        ({"pattern": "three\nx"}, []),
    ],
)
def test_lines_that_match(tmp_path: Path, expected: dict[str, Any], lines: list[str]) -> None:
    """Shows "lines `path:line: text`"."""
    (tmp_path / "a").write_bytes(TEXT.encode())
    found = looked_for(tmp_path, **expected)
    assert [line for each in found[:-1] for line in each["found"]] == lines
    assert found[-1] == {"cut": False}


def test_a_limit_counts_lines_that_match_in_all_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\nx\n")
    assert looked_for(tmp_path, ("a", "b"), pattern="x", limit=3) == [
        {"found": ["a:1: x", "a:2: x"]},
        {"found": ["b:1: x"]},
        {"cut": True},
    ]
    assert looked_for(tmp_path, ("a", "b"), pattern="x", limit=4)[-1] == {"cut": False}


def test_long_lines_are_cut(tmp_path: Path) -> None:
    """Shows "lines cut at 500 characters"."""
    (tmp_path / "a").write_text("é" * 501)
    assert looked_for(tmp_path, pattern="é")[0] == {"found": [f"a:1: {'é' * 499}…"]}


def test_a_binary_or_missing_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"x\0x")
    (tmp_path / "latin").write_bytes(b"x\xff\n")
    (tmp_path / "link").symlink_to("latin")
    found = looked_for(tmp_path, ("binary", "gone", "link", "latin"), pattern="x")
    assert found == [{"found": ["latin:1: x\ufffd"]}, {"cut": False}]


def test_files_that_are_too_large_are_skipped(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"x\n")
        file.truncate(40 << 20)
    assert looked_for(tmp_path, ("huge",), pattern="x") == [{"cut": False}]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?P<x>a)(?P<x>b)", "*"])
def test_a_bad_pattern_is_reported(tmp_path: Path, pattern: str) -> None:
    assert [*looked_for(tmp_path, pattern=pattern)[0]] == ["bad_pattern"]
