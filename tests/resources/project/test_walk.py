"""The files that an agent may read, in order, without what `.gitignore` leaves out."""

import inspect
import os
import sys
from pathlib import Path

import pytest

from penstock.resources.project.access import OPEN, Access
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.walk import entries, has_readable, walk


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


def test_what_is_ignored_protected_or_outside_is_not_found(root: Path) -> None:
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
def test_where_a_search_begins_is_never_ignored(root: Path, start: str, names: list[str]) -> None:
    assert found(root, start) == names


def test_only_what_the_patterns_fit_is_found(root: Path) -> None:
    """G6: "without path / in `docs`: only readable files / only `docs/*.md`"."""
    access = Access(read=("a/**", "docs/*.md"))
    assert found(root, access=access) == ["a/x", "docs/d.md"]
    assert found(root, "docs", access) == ["docs/d.md"]


def test_a_folder_without_a_readable_file_is_known(root: Path) -> None:
    files = ProjectFiles(root, Access(read=("**/*.md",)))
    assert has_readable(files, files.start("docs"))
    assert not has_readable(files, files.start("a"))


def test_a_folder_is_listed_as_far_as_it_is_readable(root: Path) -> None:
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
