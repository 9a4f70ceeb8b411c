"""Handbooks: only listed files can be read."""

import os
from pathlib import Path

import pytest

from penstock.core.call_errors import ToolFailed
from penstock.manifest.handbook import (
    FILE_BYTES,
    HandbookCatalog,
    find_handbooks,
    read_handbook,
)


def book(folder: Path, index: str, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(index)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("---\nfiles: [a.md, sub/b.md]\n---\n", [("a.md", ""), ("sub/b.md", "")]),
        ("---\nfiles: a.md, b.md\n---\n", [("a.md", ""), ("b.md", "")]),
        (
            "---\nfiles:\n- {name: a.md, description: one}\n- file: b.md\n- path: c.md\n---\n",
            [("a.md", "one"), ("b.md", ""), ("c.md", "")],
        ),
        ("---\nmodel: @x\nfiles:\n  - a.md\n---\n", [("a.md", "")]),
        ("# Docs\n\nfiles:\n- a.md\n- b.md\n\nMore.\n- c.md\n", [("a.md", ""), ("b.md", "")]),
        (
            "files:\n- `a.md` - the first\n- [b](b.md): the second\n- c.md — the third\n",
            [("a.md", "the first"), ("b.md", "the second"), ("c.md", "the third")],
        ),
        (
            "---\r\nname: d\r\n---\r\n\r\nfiles:\r\n- a.md\r\n- b.md\r\n",
            [("a.md", ""), ("b.md", "")],
        ),
        ("---\r\nfiles:\r\n- a.md\r\n---\r\n", [("a.md", "")]),
        (
            "files:\n- a.md - one,\n  and more of it\n\n- b.md\n  and\n  so on\nEnd.\n- c.md\n",
            [("a.md", "one, and more of it"), ("b.md", "and so on")],
        ),
        ("# Docs without a list\n- a.md\n", []),
        ("---\nfiles: 3\n---\n", []),
        ("---\nfiles:\n---\nfiles:\n- a.md\n", [("a.md", "")]),
        ("---\nopen", []),
        ("", []),
    ],
)
def test_a_handbook_contains_the_files_that_it_lists(
    tmp_path: Path, index: str, expected: list[tuple[str, str]]
) -> None:
    """H2."""
    handbook = read_handbook(book(tmp_path / "docs", index))
    assert handbook is not None
    assert [(each.name, each.description) for each in handbook.topics] == expected


def test_a_handbook_is_named_by_its_index_or_its_directory(tmp_path: Path) -> None:
    """H1."""
    named = read_handbook(book(tmp_path / "one", "---\nname: my-docs\ndescription: d\n---\n"))
    plain = read_handbook(book(tmp_path / "two", "text"))
    assert named is not None
    assert plain is not None
    assert (named.name, named.description, plain.name) == ("my-docs", "d", "two")


def test_the_first_directory_with_a_name_is_used(tmp_path: Path) -> None:
    """T15: extra skills directories are searched first."""
    book(tmp_path / "extra" / "docs", "files:\n- a.md\n", a_md="registered")
    book(tmp_path / "built" / "docs", "files:\n- a.md\n", a_md="built in")
    handbooks = find_handbooks([tmp_path / "extra", tmp_path / "none", tmp_path / "built"])
    assert handbooks.read("docs", "a.md") == "registered"


def test_a_listed_file_is_read_unchanged(tmp_path: Path) -> None:
    """T13: raw file content as text."""
    text = "# Ä\r\n\n  ${{task}} \n"
    folder = book(tmp_path / "docs", "files:\n- sub/a.md\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "a.md").write_bytes(text.encode())
    assert find_handbooks([tmp_path]).read("docs", "sub/a.md") == text


LISTED = "".join(
    f"- {name}\n"
    for name in (
        "a.md",
        "gone.md",
        "../x.md",
        "/etc/hostname",
        "out.md",
        "big.md",
        "raw.md",
        "sub",
        "pipe",
    )
)


@pytest.fixture
def books(tmp_path: Path) -> HandbookCatalog:
    folder = book(tmp_path / "b" / "docs", f"files:\n{LISTED}", a_md="a", unlisted_md="no")
    book(tmp_path / "b" / "empty", "nothing", a_md="a")
    (tmp_path / "b" / "x.md").write_text("outside")
    (folder / "out.md").symlink_to(tmp_path / "b" / "x.md")
    (folder / "big.md").write_text("x" * (FILE_BYTES + 1))
    (folder / "raw.md").write_bytes(b"\xff\xfe")
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    return find_handbooks([tmp_path / "b"])


@pytest.mark.parametrize(
    ("skill", "file", "message"),
    [
        ("dox", "a.md", 'Skill "dox" not found. Available: docs, empty.'),
        ("empty", "a.md", 'File "a.md" is not listed in skill "empty". Listed: none.'),
        ("docs", "A.md", 'File "A.md" is not listed in skill "docs". Listed: a.md, gone.md, '),
        ("docs", "unlisted.md", 'File "unlisted.md" is not listed in skill "docs". Listed: '),
        ("docs", "./a.md", 'File "./a.md" is not listed'),
        ("docs", "gone.md", 'File "gone.md" of skill "docs" is listed but does not exist.'),
        ("docs", "../x.md", 'File "../x.md" of skill "docs" leaves its directory.'),
        ("docs", "/etc/hostname", 'File "/etc/hostname" of skill "docs" leaves its directory.'),
        ("docs", "out.md", 'File "out.md" of skill "docs" leaves its directory.'),
        ("docs", "big.md", 'File "big.md" of skill "docs" is not text of at most 262144 bytes.'),
        ("docs", "raw.md", 'File "raw.md" of skill "docs" is not text of at most 262144 bytes.'),
        ("docs", "sub", 'File "sub" of skill "docs" is not text of at most 262144 bytes.'),
        ("docs", "pipe", 'File "pipe" of skill "docs" is not text of at most 262144 bytes.'),
    ],
)
def test_reading_an_unreadable_file_names_the_reason(
    books: HandbookCatalog, skill: str, file: str, message: str
) -> None:
    """T14, T16: an error string if the skill or file is not found."""
    with pytest.raises(ToolFailed) as raised:
        books.read(skill, file)
    assert str(raised.value).startswith(message)


def test_an_unknown_handbook_without_any_handbooks_is_reported() -> None:
    with pytest.raises(ToolFailed, match=r'Skill "x" not found. Available: none\.'):
        HandbookCatalog().read("x", "y")


def test_the_list_for_models_has_descriptions_and_files(
    books: HandbookCatalog, tmp_path: Path
) -> None:
    """H6."""
    book(tmp_path / "more" / "one", "---\ndescription: About\n  one\nfiles: a.md\n---\n")
    assert find_handbooks([tmp_path / "more"]).listed() == "- one: About one (a.md)"
    assert books.listed().splitlines()[-1] == "- empty (no files)"
