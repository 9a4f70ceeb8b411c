"""The message of each file tool about a link loop, a hard link, a pipe, a device.

One kind of file has one answer, whichever tool names it, and no answer has a path of the machine.
"""

import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.builtins import bash
from penstock.builtins.code import reading, searching, writing
from penstock.core.call_errors import CallError
from penstock.resources.project.access import Access
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.overlay import take_changes
from penstock.tools.shell import ShellSettings
from tests.kit.project_folder import Folder, open_folder

pytestmark = pytest.mark.programs

SECRET, AUTHORED = ".env", "tools/honest.tool.yaml"
TOOLS: Mapping[str, dict[str, Any]] = {
    "read": {},
    "ls": {},
    "find": {"pattern": "**"},
    "glob": {"pattern": "**"},
    "grep": {"pattern": "."},
    "write": {"content": "x"},
    "edit": {"oldText": "SECRET", "newText": "x"},
}
LOOP = "'odd' leads through a loop of links, or too many; name the file itself"
NO_FILE = "'odd' is a directory, or no plain file"
HIDDEN = '"odd" is protected.'


def _socket(place: Path) -> None:
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{place.name}")
    finally:
        os.close(folder)


KINDS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "loop": (lambda place: place.symlink_to(place.name), LOOP),
    "loop of two": (lambda place: _links(place, 2, place.name), LOOP),
    "chain of 50 links": (lambda place: _links(place, 50, "README.md"), LOOP),
    "hard link to a hidden file": (lambda place: place.hardlink_to(place.parent / SECRET), HIDDEN),
    "pipe": (os.mkfifo, NO_FILE),
    "socket": (_socket, NO_FILE),
    "device": (lambda place: os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(0, 0)), NO_FILE),
}


def _links(place: Path, count: int, end: str) -> None:
    for number in range(1, count):
        place.symlink_to(f"link{number}")
        place = place.with_name(f"link{number}")
    place.symlink_to(end)


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    every = (*reading.TOOLS, *searching.TOOLS, *writing.TOOLS, *bash.TOOLS)
    folder = await open_folder(tmp_path / "project", *every, shell=ShellSettings(is_on=True))
    for name in (SECRET, AUTHORED):
        (folder.root / name).parent.mkdir(exist_ok=True)
        (folder.root / name).write_text("SECRET\n")
    return folder


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_odd_file_has_one_answer(folder: Folder, kind: str, tool: str) -> None:
    make, words = KINDS[kind]
    make(folder.root / "odd")
    code = "NOT_PERMITTED" if words == HIDDEN else "TOOL_FAILED"
    assert await folder.refusal(tool, path="odd", **TOOLS[tool]) == (code, words)
    assert (folder.root / SECRET).read_text() == "SECRET\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_look_before_a_person_is_asked_answers_the_same(
    folder: Folder, kind: str
) -> None:
    make, words = KINDS[kind]
    make(folder.root / "odd")
    with pytest.raises(CallError) as error:
        ProjectFiles(folder.root).seems_writable("odd")
    assert str(error.value) == words


@pytest.mark.parametrize("kind", KINDS)
async def test_an_input_from_a_file_answers_the_same(folder: Folder, kind: str) -> None:
    make, words = KINDS[kind]
    make(folder.root / "odd")
    with pytest.raises(CallError) as error:
        files = ProjectFiles(folder.root)
        files.read(files.readable("odd"), 100)
    assert str(error.value) == words


@pytest.mark.parametrize("kind", KINDS)
async def test_a_command_finds_no_secret_and_no_path_of_the_machine(
    folder: Folder, kind: str
) -> None:
    """The shell has words of its own; a target that can be seen in the command is judged before."""
    make, words = KINDS[kind]
    make(folder.root / "odd")
    found = await folder.call("bash", command="timeout 0.1 cat odd; timeout 0.1 echo x > /dev/null")
    assert found.ok
    assert "SECRET" not in str(found.output)
    assert str(folder.root) not in str(found.output)
    own = Access(agent="g", write=("**",))
    assert (await folder.refusal("bash", own, command="echo x > odd"))[1] == words
    assert (folder.root / SECRET).read_text() == "SECRET\n"


async def test_lists_leave_out_other_names_of_hidden_files(folder: Folder) -> None:
    (folder.root / "odd").hardlink_to(folder.root / SECRET)
    (folder.root / "to-odd").symlink_to("odd")
    for tool in ("ls", "find", "glob", "grep"):
        said = await folder.output(tool, **TOOLS[tool])
        assert "README.md" in said
        assert "odd" not in said


@pytest.mark.parametrize("change", ["write", "link", "remove"])
async def test_a_takeover_leaves_other_names_of_hidden_files(folder: Folder, change: str) -> None:
    """As `write` does. The command cannot have meant the change: it saw an empty file there."""
    (folder.root / "odd").hardlink_to(folder.root / SECRET)
    upper = folder.root.parent / "upper"
    upper.mkdir()
    if change == "write":
        (upper / "odd").write_text("x")
    elif change == "link":
        (upper / "odd").symlink_to("README.md")
    else:
        os.mknod(upper / "odd", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    refused = take_changes(ProjectFiles(folder.root), upper)
    assert [str(each) for each in refused] == [HIDDEN]
    assert (folder.root / "odd").samefile(folder.root / SECRET)


async def test_writing_a_hard_link_to_an_authored_file_creates_a_separate_file(
    folder: Folder,
) -> None:
    """Writing makes a new file under that name: what decides what runs keeps its bytes."""
    place = folder.root / "odd"
    for tool in ("write", "edit", "bash"):
        place.unlink(missing_ok=True)
        place.hardlink_to(folder.root / AUTHORED)
        given = {"command": "echo x > odd"} if tool == "bash" else {"path": "odd", **TOOLS[tool]}
        assert (await folder.call(tool, **given)).ok
        assert "x" in place.read_text()
        assert (folder.root / AUTHORED).read_text() == "SECRET\n"
