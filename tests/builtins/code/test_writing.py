"""`write` and `edit`: what they change, and that what is refused or fails changes nothing."""

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.code.writing import TOOLS, Edit, edited
from penstock.core.limits import Limits
from penstock.resources.project.access import OPEN, Access, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.tools.policy import SessionGuard
from tests.kit.project_folder import Folder, G, open_folder

HINT = "Give more of the text around the one that is meant, or replaceAll"


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    return await open_folder(tmp_path, *TOOLS)


async def test_a_file_is_written_whole(folder: Folder) -> None:
    """§13.2: "`{path, bytes, created}` … parents are made"."""
    output = await folder.output("write", G, path="src/gen/x/../new/a.py", content="é\r\n")
    assert output == {"path": "src/gen/new/a.py", "bytes": 4, "created": True}
    assert (folder.root / "src/gen/new/a.py").read_bytes() == b"\xc3\xa9\r\n"
    output = await folder.output("write", G, path="src/gen/new/a.py", content="")
    assert output == {"path": "src/gen/new/a.py", "bytes": 0, "created": False}


@pytest.mark.parametrize(
    ("access", "path", "words"),
    [
        (G, "src/a.py", '"src/a.py" is not writable for agent "g". access.write: src/gen/**.'),
        (G, "src/out", '"src/out" is outside the project.'),
        (OPEN, "../x", '"../x" is outside the project.'),
        (OPEN, "agents/x.md", '"agents/x.md" is protected.'),
        (OPEN, ".env", '".env" is protected.'),
        (OPEN, ".git/hooks/x", '".git/hooks/x" is protected.'),
        (OPEN, "tools/x.tool.yaml", '"tools/x.tool.yaml" is protected.'),
        (OPEN, "penstock.toml", '"penstock.toml" is protected.'),
    ],
)
async def test_an_unwritable_file_is_refused(
    folder: Folder, access: Access, path: str, words: str
) -> None:
    """G3, G4, G7, G8."""
    asked = {"write": {"content": "x"}, "edit": {"oldText": "a", "newText": "b"}}
    for tool_id, more in asked.items():
        found = await folder.refusal(tool_id, access, path=path, **more)
        assert found == ("NOT_PERMITTED", words)
    assert not (folder.root / "agents").exists()


async def test_an_agent_whose_own_pattern_allows_it_writes_agents(folder: Folder) -> None:
    """G8: in an agent session of a flow; the bench is a chat whose rules require no approval."""
    own = Access(write=("agents/**",))
    words = ("NOT_PERMITTED", '"agents/x.md" is protected.')
    assert await folder.refusal("write", own, path="agents/x.md", content="x") == words
    session = SessionGuard(agent="writer", declared=["write"])
    folder.bench.model = replace(folder.bench.model, session=session)
    assert (await folder.output("write", own, path="agents/x.md", content="x"))["created"]


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("src", "x", "is_directory"),
        ("README.md/x", "x", "not_a_directory"),
        ("n" * 300, "x", "not_found"),
    ],
)
async def test_an_impossible_write_fails(
    folder: Folder, path: str, content: str, reason: str
) -> None:
    assert await folder.reason("write", path=path, content=content) == reason


async def test_a_file_has_at_most_a_mebibyte(tmp_path: Path) -> None:
    """§13.2: "1 MiB"; the input of a call may be larger than that where an operator says so."""
    folder = await open_folder(tmp_path, *TOOLS, limits=Limits(input_bytes=4 << 20))
    assert (await folder.output("write", path="f", content="x" * (1 << 20)))["created"]
    over = "y" * ((1 << 20) + 1)
    assert await folder.reason("write", path="f", content=over) == "too_large"
    more = {"oldText": "x", "newText": "xx", "replaceAll": True}
    assert await folder.reason("edit", path="f", **more) == "too_large"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a b c", "b", "B", b"a B c"),
        (b"x = 1\r\ny = 2\r\n", "x = 1\ny", "z = 1\ny", b"z = 1\r\ny = 2\r\n"),
        (b"x\r\ny", "x\r\n", "x\n", b"x\ny"),
        ("Grüße \U0001f600".encode(), "\U0001f600", "é", "Grüße é".encode()),
        (b"\xef\xbb\xbfa", "a", "b", b"\xef\xbb\xbfb"),
        (b"a.c abc", "a.c", "\\1 $&", b"\\1 $& abc"),
        (b"gone", "gone", "", b""),
    ],
)
async def test_a_text_is_replaced(
    folder: Folder, before: bytes, old: str, new: str, after: bytes
) -> None:
    (folder.root / "f").write_bytes(before)
    output = await folder.output("edit", path="f", oldText=old, newText=new)
    assert output == {"path": "f", "replaced": 1}
    assert (folder.root / "f").read_bytes() == after


async def test_a_text_is_replaced_everywhere_if_that_is_wanted(folder: Folder) -> None:
    (folder.root / "f").write_text("a\na\n")
    output = await folder.output("edit", path="f", oldText="a", newText="b", replaceAll=True)
    assert (output["replaced"], (folder.root / "f").read_text()) == (2, "b\nb\n")


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("none", "oldText is found 0 times in 'f'; nothing was changed"),
        (
            "a",
            f"oldText is found 3 times in 'f', at lines 1, 3, 3; nothing was changed. {HINT}",
        ),
    ],
)
async def test_no_match_or_several_change_nothing(folder: Folder, old: str, words: str) -> None:
    """§13.2: "no match or several: error with the count and their lines; nothing is changed"."""
    (folder.root / "f").write_text("a\nb\na a\n")
    found = await folder.refusal("edit", path="f", oldText=old, newText="x")
    assert found == ("TOOL_FAILED", words)
    assert (folder.root / "f").read_text() == "a\nb\na a\n"


async def test_a_text_found_many_times_names_the_first_lines(folder: Folder) -> None:
    (folder.root / "f").write_text("a\n" * 50)
    _, words = await folder.refusal("edit", path="f", oldText="a", newText="x")
    assert "found 50 times in 'f', at lines 1, 2, 3," in words
    assert "19, 20, …;" in words


@pytest.mark.parametrize(
    ("path", "reason"),
    [("none", "not_found"), ("src", "is_directory"), ("bin", "not_text"), ("big", "too_large")],
)
async def test_a_binary_file_is_not_edited(folder: Folder, path: str, reason: str) -> None:
    (folder.root / "bin").write_bytes(b"\xff")
    (folder.root / "big").write_bytes(b"x" * ((1 << 20) + 1))
    assert await folder.reason("edit", path=path, oldText="x", newText="y") == reason


@pytest.mark.parametrize(
    ("tool_id", "input"),
    [
        ("write", {"path": "a"}),
        ("write", {"path": "a", "content": "x", "mode": 1}),
        ("write", {"path": "a", "content": "\ud800"}),
        ("edit", {"path": "a", "oldText": "", "newText": "x"}),
        ("edit", {"path": "a", "oldText": "x", "newText": "\ud800"}),
    ],
)
async def test_invalid_input_is_refused(
    folder: Folder, tool_id: str, input: dict[str, Any]
) -> None:
    assert (await folder.call(tool_id, **input)).status == "validation_error"


async def test_concurrent_edits_are_not_lost(folder: Folder) -> None:
    """§13.2: "`{path, replaced}`"; the file then contains the text."""
    names = [f"line {number}" for number in range(8)]
    for _ in range(10):
        (folder.root / "f").write_text("".join(f"{name} old\n" for name in names))
        files, together = ProjectFiles(folder.root), Barrier(len(names))

        def one(name: str, files: ProjectFiles = files, together: Barrier = together) -> int:
            path = files.writable("f")
            wanted = Edit(old=f"{name} old", new=f"{name} new")
            together.wait()
            return files.change(path, partial(edited, path, wanted))

        with ThreadPoolExecutor(len(names)) as threads:
            told = list(threads.map(one, names))
        assert told == [1] * len(names)
        assert (folder.root / "f").read_text() == "".join(f"{name} new\n" for name in names)


async def test_two_sessions_that_edit_one_file_lose_nothing(folder: Folder) -> None:
    (folder.root / "f").write_text("a\nb\n" + "x" * 100_000)
    (folder.root / "src/f").symlink_to("../f")
    edits = [
        folder.output("edit", path=path, oldText=old, newText=f"{old}!")
        for path, old in (("f", "a\n"), ("src/f", "b\n"))
    ]
    await asyncio.gather(*edits)
    assert (folder.root / "f").read_text().startswith("a\n!b\n!")


class Importing:
    """Finds `f` from the second time on, as if it was imported meanwhile, and notes who looks."""

    def __init__(self) -> None:
        self.looks = list[threading.Thread]()

    def stamp(self) -> object:
        return object()

    def find(self) -> Iterable[str]:
        self.looks.append(threading.current_thread())
        return ["f"] if len(self.looks) > 1 else []

    def has_package(self, _: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("tool_id", "more"), [("write", {"content": "x"}), ("edit", {"oldText": "a", "newText": "b"})]
)
async def test_loaded_files_are_found_in_the_writing_thread(
    tmp_path: Path, tool_id: str, more: dict[str, Any]
) -> None:
    """It takes 20 ms and more and would block the loop; an edition is scanned once."""
    loaded, importing = LoadedFiles(), Importing()
    loaded.follow(importing)
    folder = await open_folder(tmp_path, *TOOLS, loaded=loaded)
    (tmp_path / "f").write_text("a")
    found = await folder.refusal(tool_id, path="f", **more)
    assert found == ("NOT_PERMITTED", '"f" is protected.')
    await folder.refusal(tool_id, path="f", **more)
    here = threading.current_thread()
    assert [each is here for each in importing.looks] == [True, False]
    assert (tmp_path / "f").read_text() == "a"
