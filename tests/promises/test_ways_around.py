"""Ways around what protects a project from agents: none changes what decides what runs.

Every command here runs enclosed, and every path is named by a chat without patterns of its own.
After it each protected file has its bytes, its inode and its mode, and no new file has a name that
the project would read.
"""

import os
from pathlib import Path

import pytest

from penstock.builtins.bash import TOOLS
from penstock.builtins.code import reading, writing
from penstock.resources.project.access import AUTHORED, OPEN, LoadedFiles
from penstock.resources.project.globs import folded
from penstock.tools.shell import ShellSettings
from tests.kit.hostile_commands import WAYS
from tests.kit.project_folder import Folder, open_folder

pytestmark = pytest.mark.programs
PROTECTED = (
    *("tools/honest.tool.yaml", "tools/hello.py", "tools/run.mts", "lib/data.json"),
    *("agents/a.md", "flows/f.yaml", "handbooks/h/SKILL.md", ".pi/flows/agents/b.md"),
    *("penstock.toml", "deep/d/x.skill.yaml", "my.permissions.yaml", "my.prompts.yaml"),
    *(".git/config", ".git/hooks/pre-commit", ".env", "sub/.env", ".penstock/secret.key"),
)
LOADED = LoadedFiles(["tools/run.mts", "lib/data.json"])


@pytest.fixture
async def folder(tmp_path: Path) -> Folder:
    every = (*TOOLS, *writing.TOOLS, *reading.TOOLS)
    folder = await open_folder(
        tmp_path / "project", *every, shell=ShellSettings(is_on=True), loaded=LOADED
    )
    for name in PROTECTED:
        place = folder.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"SECRET of {name}\n")
    return folder


def marks(root: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Return the identity of a file: its bytes, inode, mode and time."""
    found = {}
    for name in PROTECTED:
        place = root / name
        seen = place.lstat()
        found[name] = (place.read_bytes(), seen.st_ino, seen.st_mode, seen.st_mtime_ns)
    return found


def authored(root: Path) -> set[str]:
    """Return every name that the project would read, or hide, in whatever spelling."""
    every = set()
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(place, name).relative_to(root).as_posix()
            is_theirs = any(each.fits(folded(path)) for each in AUTHORED) or OPEN.hides(path)
            if is_theirs or folded(path).startswith(".git"):
                every.add(path)
    return every


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_around(folder: Folder, way: str) -> None:
    """Shows "protected paths and their parents are read-only, new authored files refused"."""
    before, names = marks(folder.root), authored(folder.root)
    found = await folder.call("bash", command=WAYS[way], timeout=10)
    assert found.ok, found
    assert marks(folder.root) == before
    assert authored(folder.root) == names
    said = found.output["stdout"] + found.output["stderr"]
    assert not any(f"SECRET of {each}" in said for each in PROTECTED if OPEN.hides(each))
    assert (folder.root / "README.md").read_text() == "README.md\n"
    assert [each.name for each in folder.root.parent.iterdir()] == ["project"]


PATHS = (
    *("tools/honest.tool.yaml", "./tools/./honest.tool.yaml", "src/../tools/honest.tool.yaml"),
    *("tools//honest.tool.yaml", "tools/honest.tool.yaml/", "tools/honest.tool.yaml/."),
    *("TOOLS/HONEST.TOOL.YAML", "Tools/new.PY", "tools./x.py", "tools /x.py", "tools:x/x.py"),
    *("tool\u017f/x.py", "\uff54ools/x.py", "pen\u017ftoc\u212a.toml", "penstock\uff0etoml"),
    *("age\u200dnts/x.md", "\ufeffagents/x.md", "x.to\u00adol.yaml", "\ufb02ows/x.yaml"),
    *("penstock.toml.", "penstock.toml ", "penstock.toml::$DATA", ".env ", ".ENV", ".env:x"),
    *(".env.e\u0301", ".env\u200b", "sub/.ENV.local", ".git.", ".git /config", ".GIT/hooks/x"),
    *(".git/hooks/pre-commit", ".git/config.worktree", ".penstock./secret.key", ".penstock/x"),
    *(".penstock.bak/secret.key", ".penstock~", ".penstock-old/x", ".PENSTOCK.tar"),
    *(
        "agents",
        "flows",
        "handbooks/h/new.md",
        "schedules/x.yaml",
        ".pi/flows/x",
        "sub/x.skill.yaml",
    ),
    *("tools/__init__.py", "tools/__pycache__/hello.cpython-311.pyc", "tools/_p/x.so"),
    *(
        "lib/data.json",
        "LIB/Data.json",
        "lib/data.json.",
        "lib/data.json:x",
        "up/project/lib/data.json",
    ),
    *(
        "here/tools/x.py",
        "here/here/.env",
        "t/honest.tool.yaml",
        "t/x.py",
        "a/x.md",
        "up/x",
        "etc/x",
    ),
    *("/proc/self/cwd/x", "/proc/self/root/etc/x", "/proc/self/fd/0", "/dev/stdout", "/dev/fd/1"),
    *(
        "../x",
        "../project2/x",
        "src/../../x",
        "/etc/x",
        "~/x",
        "file:///etc/x",
        "a\n/../tools/x.py",
    ),
    *("\n.env", "x\n.tool.yaml", "src/" * 300 + "x.tool.yaml", "src/" * 2000 + "x", "x" * 300),
    *("a\0b", "\ud800.tool.yaml", "", " ", ".", "..", "/", "key", "k.tool.yaml", "n\\..\\.env"),
)
"""What a model may name, with links that the folder has: none leads to what is protected."""


@pytest.mark.parametrize("path", PATHS, ids=ascii)
async def test_no_path_that_write_and_edit_take(folder: Folder, path: str) -> None:
    """The absolute form of each is tried as well, and what is hidden is not read by it."""
    root = folder.root
    links = {"here": ".", "t": "tools", "a": "agents", "up": "..", "etc": "/etc", "k": ".env"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "key").hardlink_to(root / ".penstock/secret.key")
    before, names, found = marks(root), authored(root), []
    for named in (path, f"{root}/{path}"):
        found.append(await folder.call("write", path=named, content="evil"))
        found.append(await folder.call("edit", path=named, oldText="SECRET", newText="evil"))
        found.append(await folder.call("read", path=named))
    assert marks(root) == before
    assert authored(root) == names
    hidden = [f"SECRET of {each}" for each in PROTECTED if OPEN.hides(each)]
    assert not any(each in str(found) for each in hidden)
    assert [each.name for each in root.parent.iterdir()] == ["project"]


async def test_there_are_as_many_ways_as_were_asked_for() -> None:
    assert len(WAYS) >= 80
