"""`read` and `ls`: what they give, where they cut, and what they refuse."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.code import reading, searching, writing
from penstock.builtins.code.reading import MAX_BYTES, TOOLS, read_part
from penstock.core.ids import ProfileId
from penstock.core.profile import Profile
from penstock.testing.invocation import open_workbench
from tests.kit.project_folder import Folder, G, open_folder

NOT_READABLE = 'is not readable for agent "g". access.read: src/**, docs/*.md.'


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    return await open_folder(tmp_path, *TOOLS)


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("src/a/b.py", "src/a/b.py"),
        ("docs/x.md", "docs/x.md"),
        ("src/../docs/x.md", "docs/x.md"),
        ("{root}/src/a.py", "src/a.py"),
    ],
)
async def test_a_readable_file_is_read(folder: Folder, path: str, real: str) -> None:
    """G1."""
    told = path.format(root=folder.root)
    assert await folder.output("read", G, path=told) == f"{real}\n"
    assert await folder.output("read", G, file_path=told) == f"{real}\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("docs/sub/x.md", NOT_READABLE),
        ("README.md", NOT_READABLE),
        ("src/l", NOT_READABLE),
        ("../x", "is outside the project."),
        ("/etc/hosts", "is outside the project."),
        ("src/out", "is outside the project."),
        (".env", "is protected."),
        (".penstock/db", "is protected."),
    ],
)
async def test_an_unreadable_file_is_refused(folder: Folder, path: str, why: str) -> None:
    """G2, G3, G7."""
    assert await folder.refusal("read", G, path=path) == ("NOT_PERMITTED", f'"{path}" {why}')


async def test_a_long_file_is_read_in_parts(folder: Folder) -> None:
    """It ends with `[lines 1-2000 of 5120; go on with offset 2001]`."""
    (folder.root / "long").write_text("".join(f"{n}\n" for n in range(1, 5121)))
    text = await folder.output("read", path="long")
    assert text.endswith("\n2000\n[lines 1-2000 of 5120; go on with offset 2001]")
    assert text.startswith("1\n2\n")
    text = await folder.output("read", path="long", offset=5119)
    assert text == "5119\n5120\n"
    text = await folder.output("read", path="long", offset=7, limit=1)
    assert text == "7\n[lines 7-7 of 5120; go on with offset 8]"


@pytest.mark.parametrize(
    ("content", "first", "most", "found"),
    [
        (b"", 1, 9, (b"", 1, 0, 0)),
        (b"a", 1, 9, (b"a", 1, 1, 1)),
        (b"a\n", 1, 1, (b"a\n", 1, 1, 1)),
        (b"a\nb", 1, 1, (b"a\n", 1, 1, 2)),
        (b"a\nb", 2, 1, (b"b", 2, 2, 2)),
        (b"a\r\nb\r\n", 2, 9, (b"b\r\n", 2, 2, 2)),
        (b"\n\n\n", 2, 1, (b"\n", 2, 2, 3)),
        (b"a\n", 3, 1, (b"", 3, 2, 1)),
        (b"x" * 30_000 + b"\n" + b"y" * 30_000 + b"\nz", 1, 9, (b"x" * 30_000 + b"\n", 1, 1, 3)),
    ],
)
def test_lines_of_a_file(content: bytes, first: int, most: int, found: tuple[Any, ...]) -> None:
    part = read_part(io.BytesIO(content), first, most)
    assert (part.content, part.first, part.last, part.total) == found


async def test_a_line_that_is_too_long_is_cut(folder: Folder) -> None:
    (folder.root / "wide").write_text("é" * 60_000 + "\nnext\n")
    text: str = await folder.output("read", path="wide")
    line, note = text.split("\n")
    assert line == "é" * (MAX_BYTES // 2)
    assert note == "[lines 1-1 of 2; line 1 has 120001 bytes and is cut; go on with offset 2]"


async def test_a_huge_file_is_not_kept_in_memory(folder: Folder) -> None:
    with (folder.root / "huge").open("wb") as file:
        file.write(b"first\n")
        file.truncate(50 << 20)
    text = await folder.output("read", path="huge", limit=1)
    assert text == "first\n[lines 1-1 of 2; go on with offset 2]"


async def test_line_ends_and_characters_are_as_they_are(folder: Folder) -> None:
    (folder.root / "f").write_bytes("\ufeffÜ\r\n\U0001f600\r".encode())
    assert await folder.output("read", path="f") == "\ufeffÜ\r\n\U0001f600\r"


@pytest.mark.parametrize(
    ("path", "more", "reason"),
    [
        ("none", {}, "not_found"),
        ("src", {}, "is_directory"),
        ("pipe", {}, "is_directory"),
        ("binary", {}, "not_text"),
        ("zero", {}, "not_text"),
        ("README.md", {"offset": 3}, "bad_range"),
        ("README.md/x", {}, "not_a_directory"),
    ],
)
async def test_a_binary_file_fails(
    folder: Folder, path: str, more: dict[str, Any], reason: str
) -> None:
    (folder.root / "binary").write_bytes(b"\xff\xfe")
    (folder.root / "zero").write_bytes(b"a\0b")
    os.mkfifo(folder.root / "pipe")
    assert await folder.reason("read", path=path, **more) == reason


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"path": "a", "file_path": "a"},
        {"path": ""},
        {"path": "a", "offset": 0},
        {"path": "a", "limit": 0},
        {"path": "a", "encoding": "x"},
    ],
)
async def test_invalid_input_is_refused(folder: Folder, input: dict[str, Any]) -> None:
    assert (await folder.call("read", **input)).status == "validation_error"


async def test_a_folder_is_listed(folder: Folder) -> None:
    """§13.2: "names, directories with `/`"."""
    assert await folder.output("ls") == "README.md\ndocs/\nsrc/\ntests/"
    assert await folder.output("ls", G) == "docs/\nsrc/"
    assert await folder.output("ls", G, path="src") == "a.py\na/\ngen/"
    assert await folder.output("ls", limit=1) == "README.md\n[the first 1 names; there are more]"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tests", f'"tests" {NOT_READABLE}'),
        ("README.md", f'"README.md" {NOT_READABLE}'),
        ("src/a.py", "'src/a.py' is a file, not a directory"),
        ("src/none", "there is no 'src/none' in the project"),
        ("..", '".." is outside the project.'),
    ],
)
async def test_an_unreadable_folder_is_not_listed(folder: Folder, path: str, words: str) -> None:
    assert (await folder.refusal("ls", G, path=path))[1] == words


async def test_without_a_project_nothing_is_read() -> None:
    found = await (await open_workbench(*TOOLS)).call("read", {"path": "x"})
    assert found.error is not None
    assert (found.error.code, found.error.message) == (
        "NOT_CONFIGURED",
        "there is no project folder here: open one with penstock.open(directory)",
    )


async def test_files_of_the_runtime_are_protected(tmp_path: Path) -> None:
    folder = await open_folder(tmp_path, *TOOLS, private=("docs",))
    found = await folder.refusal("read", path="docs/x.md")
    assert found == ("NOT_PERMITTED", '"docs/x.md" is protected.')


PROJECT_TOOLS = (*reading.TOOLS, *writing.TOOLS, *searching.TOOLS)


@pytest.mark.parametrize(
    ("tool_id", "permission", "is_offered"),
    [
        ("read", "project.read", True),
        ("ls", "project.read", True),
        ("grep", "project.read", True),
        ("find", "project.read", True),
        ("glob", "project.read", False),
        ("write", "project.write", True),
        ("edit", "project.write", True),
    ],
)
def test_each_tool_requires_its_permission(
    tool_id: str, permission: str, *, is_offered: bool
) -> None:
    """§13.1: "the permissions `project.read`, `project.write` … still count"."""
    spec = next(each.spec for each in PROJECT_TOOLS if each.spec.tool_id == tool_id)
    assert spec.requires_permissions == {permission}
    assert (spec.is_offered, spec.is_transactional) == (is_offered, False)


async def test_a_new_key_has_no_project_permission(tmp_path: Path) -> None:
    """§13.1: "the profile `local` has all; a new key has none of them"."""
    folder = await open_folder(tmp_path, *PROJECT_TOOLS)
    key = Profile(profile_id=ProfileId("key"), permissions=frozenset({"read", "chat"}))
    caller = replace(folder.bench.model, profile=key)
    for tool_id, permission in (("read", "project.read"), ("edit", "project.write")):
        found = await folder.bench.call(tool_id, {"path": "README.md"}, caller=caller)
        assert found.error is not None
        assert found.error.message == f'"{tool_id}" needs the permission {permission}'
