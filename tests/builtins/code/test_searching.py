"""`grep` and `find`: what they find, and that it is never more than the agent may read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.builtins.code.searching import TOOLS
from penstock.resources.project.access import OPEN, Access
from penstock.sandbox.processes.process_slots import ProcessSlots
from tests.kit.project_folder import Folder, G, open_folder

NOT_READABLE = 'is not readable for agent "g". access.read: src/**, docs/*.md.'


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    return await open_folder(tmp_path, *TOOLS)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("access", "input", "lines"),
    [
        (G, {"path": "src"}, "src/a.py:1: src/a.py|src/a/b.py:1: src/a/b.py"),
        (G, {}, "docs/x.md:1: docs/x.md|src/a.py:1: src/a.py|src/a/b.py:1: src/a/b.py"),
        (G, {"path": "docs"}, "docs/x.md:1: docs/x.md"),
        (OPEN, {"path": "tests/t.py"}, "tests/t.py:1: tests/t.py"),
        (
            OPEN,
            {"glob": "*.md", "path": "docs"},
            "docs/sub/x.md:1: docs/sub/x.md|docs/x.md:1: docs/x.md",
        ),
        (OPEN, {"glob": "sub/*", "path": "docs"}, "docs/sub/x.md:1: docs/sub/x.md"),
        (OPEN, {"glob": "docs/*.md"}, "docs/x.md:1: docs/x.md"),
        (OPEN, {"glob": "*.rs"}, ""),
    ],
)
async def test_lines_are_found_where_the_agent_may_read(
    folder: Folder, access: Access, input: dict[str, Any], lines: str
) -> None:
    """G6."""
    found = await folder.output("grep", access, pattern="^[a-z]", **input)
    assert found == lines.replace("|", "\n")


@pytest.mark.parametrize("tool_id", ["grep", "find", "glob"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tests", f'"tests" {NOT_READABLE}'),
        ("README.md", f'"README.md" {NOT_READABLE}'),
        ("docs/sub", f'"docs/sub" {NOT_READABLE}'),
        ("/etc", '"/etc" is outside the project.'),
        ("src/none", "there is no 'src/none' in the project"),
    ],
)
async def test_a_place_without_anything_readable_is_refused(
    folder: Folder, tool_id: str, path: str, words: str
) -> None:
    """G6: "in `tests`: refused as G2"."""
    assert (await folder.refusal(tool_id, G, pattern="x", path=path))[1] == words


async def test_a_folder_in_which_the_patterns_fit_nothing_is_refused(folder: Folder) -> None:
    access = Access(agent="g", read=("**/*.rs",))
    _, words = await folder.refusal("grep", access, pattern="x", path="src")
    assert words == '"src" is not readable for agent "g". access.read: **/*.rs.'


@pytest.mark.programs
@pytest.mark.parametrize(
    ("input", "found"),
    [
        ({"pattern": "SRC", "ignoreCase": True, "path": "src/a.py"}, "src/a.py:1: src/a.py"),
        ({"pattern": "a.p", "literal": True}, "src/a.py:1: src/a.py"),
        ({"pattern": "[a.p", "literal": True}, ""),
        (
            {"pattern": "py", "limit": 1},
            "src/a.py:1: src/a.py\n[the first 1 matches; there are more]",
        ),
        ({"pattern": "2", "context": 1, "path": "n"}, "n-1- 1\nn:2: 2\nn-3- 3"),
    ],
)
async def test_lines_are_searched_by_pattern(
    folder: Folder, input: dict[str, Any], found: str
) -> None:
    (folder.root / "n").write_text("1\n2\n3\n")
    assert await folder.output("grep", **input) == found


@pytest.mark.programs
async def test_a_bad_pattern_is_refused(folder: Folder) -> None:
    found = await folder.call("grep", pattern="(")
    assert found.status == "validation_error"
    assert found.error is not None
    assert "/pattern: is a regular expression: missing )" in found.error.message


@pytest.mark.programs
async def test_ignored_files_are_not_found(folder: Folder) -> None:
    (folder.root / ".gitignore").write_text("src/\n")
    assert await folder.output("grep", pattern="a.py") == ""
    assert await folder.output("find", pattern="*.py") == "tests/t.py"


@pytest.mark.parametrize(
    ("access", "input", "paths"),
    [
        (OPEN, {"pattern": "*.py"}, "src/a.py src/a/b.py tests/t.py"),
        (G, {"pattern": "*.py"}, "src/a.py src/a/b.py"),
        (G, {"pattern": "*"}, "docs/x.md src/a.py src/a/b.py"),
        (OPEN, {"pattern": "src/*.py"}, "src/a.py"),
        (OPEN, {"pattern": "a/*.py", "path": "src"}, "src/a/b.py"),
        (OPEN, {"pattern": "**/x.md"}, "docs/sub/x.md docs/x.md"),
        (OPEN, {"pattern": "l"}, "src/l"),
        (OPEN, {"pattern": ".env"}, ""),
        (OPEN, {"pattern": "/etc/*"}, ""),
        (OPEN, {"pattern": "*.py", "limit": 3}, "src/a.py src/a/b.py tests/t.py"),
    ],
)
async def test_files_are_found_in_order(
    folder: Folder, access: Access, input: dict[str, Any], paths: str
) -> None:
    """§13.2: "paths, sorted"; `glob` is another name of it."""
    for tool_id in ("find", "glob"):
        assert await folder.output(tool_id, access, **input) == paths.replace(" ", "\n")


async def test_too_many_files_are_cut(folder: Folder) -> None:
    found = await folder.output("find", pattern="*.py", limit=1)
    assert found == "src/a.py\n[the first 1 files; there are more]"


@pytest.mark.parametrize(
    ("tool_id", "input"),
    [
        ("grep", {}),
        ("grep", {"pattern": "x", "context": 11}),
        ("grep", {"pattern": "x", "limit": 1001}),
        ("grep", {"pattern": "x", "regex": True}),
        ("find", {"pattern": ""}),
        ("find", {"pattern": "x", "limit": 10_001}),
    ],
)
async def test_invalid_input_is_refused(
    folder: Folder, tool_id: str, input: dict[str, Any]
) -> None:
    assert (await folder.call(tool_id, **input)).status == "validation_error"


@pytest.mark.programs
async def test_searches_wait_for_a_place(tmp_path: Path) -> None:
    """Each is a process of its own."""
    slots = ProcessSlots(1)
    folder = await open_folder(tmp_path, *TOOLS, searches=slots)
    slot = await slots.acquire("another task")
    searching = asyncio.create_task(folder.output("grep", pattern="x.md"))
    await asyncio.wait([searching], timeout=0.1)
    assert not searching.done()
    slot.release()
    assert "docs/x.md:1: docs/x.md" in await searching
    assert slots.held == set()
