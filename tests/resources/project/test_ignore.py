"""Lines of `.gitignore`, read as git reads them."""

from pathlib import Path

import pytest

from penstock.resources.project.ignore import (
    IgnoreFile,
    is_left_out,
    read_ignore_file,
    read_rule,
)


def ignoring(*lines: str, folder: str = "") -> IgnoreFile:
    rules = tuple(rule for line in lines if (rule := read_rule(line)))
    return IgnoreFile(folder=folder, rules=rules)


@pytest.mark.parametrize(
    ("lines", "path", "left_out"),
    [
        (("*.log",), "a.log", True),
        (("*.log",), "x/y/a.log", True),
        (("/a.log",), "x/a.log", False),
        (("/a.log",), "a.log", True),
        (("x/a",), "y/x/a", False),
        (("x/a",), "x/a", True),
        (("**/a",), "x/y/a", True),
        (("x/**",), "x/y", True),
        (("x/**",), "x", False),
        (("x/**/z",), "x/z", True),
        (("build/",), "build", False),
        (("*.log", "!keep.log"), "keep.log", False),
        (("!keep.log", "*.log"), "keep.log", True),
        (("# no",), "# no", False),
        (("\\#yes",), "#yes", True),
        (("\\!yes",), "!yes", True),
        (("end   ",), "end", True),
        (("end\\ ",), "end ", True),
        (("[ab].txt",), "b.txt", True),
        (("crlf\r",), "crlf", True),
        (("a**b",), "axxb", True),
        (("",), "x", False),
        (("a//b",), "a/b", False),
    ],
)
def test_which_files_are_left_out(lines: tuple[str, ...], path: str, *, left_out: bool) -> None:
    assert is_left_out([ignoring(*lines)], path, is_folder=False) is left_out


def test_a_line_that_ends_with_a_slash_is_for_folders() -> None:
    assert is_left_out([ignoring("build/")], "x/build", is_folder=True)


def test_the_innermost_file_counts() -> None:
    files = [ignoring("*.log"), ignoring("!*.log", folder="keep")]
    assert not is_left_out(files, "keep/a.log", is_folder=False)
    assert is_left_out(files, "a.log", is_folder=False)


def test_a_file_that_is_a_link_or_no_text_says_nothing_wrong(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.gitignore").write_bytes(b"\xff\n*.o\n")
    (tmp_path / ".gitignore").symlink_to("a/.gitignore")
    assert read_ignore_file(tmp_path, "") is None
    found = read_ignore_file(tmp_path, "a")
    assert found is not None
    assert found.says("a/x.o", is_folder=False)
