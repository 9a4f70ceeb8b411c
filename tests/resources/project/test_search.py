"""A search in a process of its own: a pattern that never ends is cut."""

import asyncio
import inspect
import os
import sys
from pathlib import Path

import pytest

from penstock.resources.project.access import OPEN, Access
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.search import (
    FoundFile,
    IgnoreFile,
    SearchHits,
    SearchQuery,
    entries,
    has_readable,
    is_left_out,
    read_ignore_file,
    read_rule,
    search,
    walk,
)

pytestmark = pytest.mark.programs


def files(*names: str) -> list[FoundFile]:
    return [FoundFile(path=name, real=name) for name in names]


async def test_hits_are_returned_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text("x\ny\nx\n")
    found = await search(tmp_path, files("a", "b"), SearchQuery(pattern="x", limit=3))
    assert found == SearchHits(lines=("a:1: x", "a:3: x", "b:1: x"), is_cut=True)


async def test_a_search_of_no_files_finds_no_lines(tmp_path: Path) -> None:
    assert await search(tmp_path, [], SearchQuery(pattern="x")) == SearchHits(lines=())


async def test_a_bad_pattern_is_reported(tmp_path: Path) -> None:
    found = await search(tmp_path, [], SearchQuery(pattern="("))
    assert "unterminated" in found.bad_pattern


@pytest.mark.slow("starts 48 processes")
async def test_no_search_takes_the_exit_code_of_its_process_away_from_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop wrote "Unknown child process pid N" after every fourth search."""
    for _ in range(6):
        some = (search(tmp_path, [], SearchQuery(pattern="x")) for _ in range(8))
        assert {found.is_late for found in await asyncio.gather(*some)} == {False}
    assert [each.message for each in caplog.records if each.name == "asyncio"] == []


async def test_an_endless_match_is_killed_and_the_event_loop_runs(tmp_path: Path) -> None:
    """Shows "10 s"; what was found before is kept."""
    (tmp_path / "a").write_text("aab\n")
    (tmp_path / "b").write_text("a" * 60 + "!\n")
    beats, ticking = 0, asyncio.Event()

    async def beat() -> None:
        nonlocal beats
        while not ticking.is_set():
            beats += 1
            await asyncio.wait([asyncio.create_task(ticking.wait())], timeout=0.01)

    heart = asyncio.create_task(beat())
    found = await search(tmp_path, files("a", "b"), SearchQuery(pattern="^(a|a)*b"), seconds=0.5)
    ticking.set()
    await heart
    assert found == SearchHits(lines=("a:1: aab",), is_late=True)
    assert beats > 5


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    names = "a/x a.txt .env .git/config .penstock/db build/out keep.log sub/x.log sub/y docs/d.md"
    for name in names.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / ".gitignore").write_text("build/\n*.log\n!keep.log\n")
    (root / "sub/.gitignore").write_text("y\n")
    (root / "link").symlink_to("a.txt")
    (root / "round").symlink_to(".")
    (root / "out").symlink_to("/etc/hosts")
    (root / "secret").symlink_to(".env")
    return root


def found(root: Path, start: str = ".", access: Access = OPEN) -> list[str]:
    files = ProjectFiles(root, access)
    return [each.path for each in walk(files, files.start(start))]


def test_ignored_protected_and_outside_files_are_not_found(root: Path) -> None:
    """Shows "honours `.gitignore`"; "`grep`, `find`, `ls` drop what is not readable"."""
    names = [".gitignore", "a.txt", "a/x", "docs/d.md", "keep.log", "link", "sub/.gitignore"]
    assert found(root) == names == sorted(names)


@pytest.mark.parametrize(
    ("start", "names"),
    [
        ("sub", ["sub/.gitignore"]),
        ("build", ["build/out"]),
        ("a.txt", ["a.txt"]),
        ("sub/x.log", ["sub/x.log"]),
        ("round/a", ["a/x"]),
    ],
)
def test_the_start_of_a_search_is_never_ignored(root: Path, start: str, names: list[str]) -> None:
    assert found(root, start) == names


def test_only_files_that_match_the_patterns_are_found(root: Path) -> None:
    """G6: "without path / in `docs`: only readable files / only `docs/*.md`"."""
    access = Access(read=("a/**", "docs/*.md"))
    assert found(root, access=access) == ["a/x", "docs/d.md"]
    assert found(root, "docs", access) == ["docs/d.md"]


def test_a_folder_without_a_readable_file_is_known(root: Path) -> None:
    files = ProjectFiles(root, Access(read=("**/*.md",)))
    assert has_readable(files, files.start("docs"))
    assert not has_readable(files, files.start("a"))


def test_a_listing_has_only_readable_entries(root: Path) -> None:
    files = ProjectFiles(root)
    shown = [each.name + "/" * each.is_folder for each in entries(files, files.start("."))]
    kept = [".git/", ".gitignore", "a.txt", "a/", "build/", "docs/", "keep.log", "link", "round/"]
    assert shown == [*kept, "sub/"]
    files = ProjectFiles(root, Access(read=("docs/*.md", "keep.log")))
    assert [each.name for each in entries(files, files.start("."))] == ["docs", "keep.log", "round"]


def test_names_that_are_no_text_are_left_out(root: Path) -> None:
    (root / os.fsdecode(b"a/\xff")).write_text("x")
    assert found(root, "a") == ["a/x"]


def test_folders_may_be_nested_deeper_than_calls(root: Path) -> None:
    (root / "docs" / "/".join("d" * 200)).mkdir(parents=True)
    most = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert found(root, "docs") == ["docs/d.md"]
    finally:
        sys.setrecursionlimit(most)


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


def test_an_ignore_file_that_is_a_link_or_not_text_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.gitignore").write_bytes(b"\xff\n*.o\n")
    (tmp_path / ".gitignore").symlink_to("a/.gitignore")
    assert read_ignore_file(tmp_path, "") is None
    found = read_ignore_file(tmp_path, "a")
    assert found is not None
    assert found.says("a/x.o", is_folder=False)
