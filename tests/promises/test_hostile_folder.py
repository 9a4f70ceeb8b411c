"""A project's folder with every odd file that a disk can hold: no tool stops, hangs or leaks."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.flows import project_flows
from penstock.app.project import check_project, load_project
from penstock.app.settings import load
from penstock.builtins.code import reading, searching, writing
from penstock.core.errors import ConfigError
from tests.kit.project import ProjectFolder
from tests.kit.project_folder import Folder, open_folder

pytestmark = pytest.mark.programs

CANARY = "canary-of-a-secret"
HUGE = 1 << 40


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    folder = await open_folder(
        tmp_path / "project", *reading.TOOLS, *searching.TOOLS, *writing.TOOLS
    )
    root = folder.root
    for name in (".penstock/secret.key", ".env", "sub/.env", "sub/deep/.env.local"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{CANARY}\n")
    (root / "loop").symlink_to("loop")
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "sub/up").symlink_to("..")
    (root / "gone").symlink_to("nowhere")
    (root / "key").hardlink_to(root / ".penstock/secret.key")
    (root / "sub/plain").hardlink_to(root / "sub/.env")
    (root / "link").symlink_to(".penstock/secret.key")
    os.mkfifo(root / "pipe")
    place = os.open(root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{place}/socket")
    os.close(place)
    with (root / "huge").open("wb") as file:
        file.truncate(HUGE)
    (root / os.fsdecode(b"odd\xff.txt")).write_text("words\n")
    (root / os.fsdecode(b"dir\xfe")).mkdir()
    (root / os.fsdecode(b"dir\xfe") / "x").write_text("words\n")
    (root / "shut").mkdir()
    (root / "shut/x").write_text("words\n")
    (root / "shut").chmod(0)
    (root / "new\nline").write_text("words\n")
    return folder


LISTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ls", {}),
    ("ls", {"path": "sub"}),
    ("find", {"pattern": "**"}),
    ("find", {"pattern": "*", "path": "sub"}),
    ("grep", {"pattern": "."}),
    ("grep", {"pattern": CANARY}),
    ("grep", {"pattern": "x", "glob": "**/*"}),
)


@pytest.mark.parametrize(("tool", "given"), LISTS)
async def test_lists_skip_odd_entries_and_reveal_no_secret(
    folder: Folder, tool: str, given: dict[str, Any]
) -> None:
    found = await folder.call(tool, **given)
    assert found.ok, found
    assert CANARY not in str(found)
    assert str(folder.root) not in str(found)
    assert "README.md" in str(found.output) or tool == "grep" or "path" in given


ODD = (
    *("loop", "a", "b", "gone", "pipe", "socket", "huge", "shut/x", "dir\udcfe/x", "odd\udcff.txt"),
    *("key", "link", "sub/plain", "sub/.env", "sub/deep/.env.local", ".penstock/secret.key"),
    *("loop/x", "sub/up/.env", "sub/up/key", "pipe/x", "/dev/zero", "/proc/self/environ", "\0"),
    *("x" * 5000, "sub/up/" * 60 + "loop", "./.ENV", "SUB/.env"),
)


@pytest.mark.parametrize("tool", ["read", "ls", "grep", "find", "write", "edit"])
@pytest.mark.parametrize("path", ODD, ids=range(len(ODD)))
async def test_an_odd_file_gets_a_message_without_delay(
    folder: Folder, tool: str, path: str
) -> None:
    more: dict[str, Any] = {
        "grep": {"pattern": "."},
        "find": {"pattern": "**"},
        "write": {"content": "x"},
        "edit": {"oldText": CANARY, "newText": "x"},
    }.get(tool, {})
    found = await folder.call(tool, path=path, **more)
    assert CANARY not in str(replace(found, output=str(found.output)))
    assert found.error is None or str(folder.root) not in str(found.error)
    for name in (".penstock/secret.key", ".env", "sub/.env", "sub/deep/.env.local"):
        assert (folder.root / name).read_text() == f"{CANARY}\n"
    assert (folder.root / "huge").stat().st_size in {HUGE, 1}


AUTHORED = (
    *("tools/odd.py", "tools/odd.tool.yaml", "odd.skill.yaml", "my.permissions.yaml"),
    *("my.prompts.yaml", "agents/odd.md", "flows/odd.yaml", "flows/main/flow.yaml", "flows/x"),
    *("handbooks/odd/SKILL.md", "handbooks/x", ".pi/flows/agents/x.md", "tools/sub", "agents/sub"),
)
GOOD = {
    "tools/hello.py": """
        from penstock import tool

        @tool(direct_call=True)
        def hello(name: str) -> str:
            \"\"\"Greet somebody by name.\"\"\"
            return f"Hello, {name}!"
    """,
    "handbooks/good/SKILL.md": "---\nname: good\nfiles: [a.md]\n---\nRead it.\n",
    "flows/good.yaml": "name: g\ndescription: d\nsteps: [{id: a, agent: odd_one, task: x}]\n",
}


def _make_huge(place: Path) -> None:
    place.touch()
    os.truncate(place, HUGE)


MAKE: Mapping[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "loop": lambda place: place.symlink_to(place.name),
    "folder": Path.mkdir,
    "device": lambda place: place.symlink_to("/dev/zero"),
    "huge": _make_huge,
    "gone": lambda place: place.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", MAKE)
def test_an_odd_authored_file_is_a_finding_and_the_rest_works(
    project: ProjectFolder, kind: str
) -> None:
    for name, text in GOOD.items():
        project.write(name, text)
    for name in AUTHORED:
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        MAKE[kind](project.root / name)
    settings = load(project.root, cache_dir=str(project.cache))
    found = load_project(settings)
    flows = project_flows(settings, found)
    assert "hello" in {each.spec.tool_id for each in found.tools}
    assert "good" in found.handbooks.names
    assert "good" in flows.files().files
    told = [str(each) for each in (*found.diagnostics, *check_project(settings).diagnostics)]
    assert any("tools/odd.py" in each for each in told)
    assert not any(str(project.root) in each for each in told)


@pytest.mark.parametrize("kind", ["pipe", "loop", "folder", "device", "huge"])
def test_settings_that_are_not_a_file_are_refused_at_once(
    project: ProjectFolder, kind: str
) -> None:
    MAKE[kind](project.root / "penstock.toml")
    with pytest.raises(ConfigError, match=r"^penstock\.toml: the file "):
        load(project.root)
