"""Where a path leads in a project, and the exact words of a refusal.

§12.2: "A path is taken relative to the project root, made absolute, normalised, links resolved."
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from penstock.core.call_errors import CallError, NotPermitted
from penstock.resources.project.access import OPEN, Access
from penstock.resources.project.files import ProjectFiles, file_lock
from penstock.resources.project.search import entries

G = Access(agent="g", read=("src/**", "docs/*.md"), write=("src/gen/**",))
LONG = "src/" + "x" * 300
NOT_READABLE = 'is not readable for agent "g". access.read: src/**, docs/*.md.'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("src/a.py", "src/a/b.py", "docs/x.md", "docs/sub/x.md", "README.md", ".env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "src/l").symlink_to("../docs/sub/x.md")
    (root / "src/out").symlink_to("/etc/hosts")
    (root / "src/gone").symlink_to(tmp_path / "not-there")
    (root / "src/folder").symlink_to(root / "docs")
    (root / "src/loop").symlink_to("loop")
    (root / "src/env").symlink_to("../.env")
    return root


@pytest.mark.parametrize(
    ("named", "real"),
    [
        ("src/a/b.py", "src/a/b.py"),
        ("docs/x.md", "docs/x.md"),
        ("src/../docs/x.md", "docs/x.md"),
        ("./src//a.py", "src/a.py"),
        ("{root}/src/a.py", "src/a.py"),
        ("src/folder/x.md", "docs/x.md"),
    ],
)
def test_a_readable_path_is_resolved(root: Path, named: str, real: str) -> None:
    """G1."""
    assert ProjectFiles(root, G).readable(named.format(root=root)).real == real


@pytest.mark.parametrize(
    ("access", "named", "why"),
    [
        (G, "docs/sub/x.md", NOT_READABLE),
        (G, "README.md", NOT_READABLE),
        (G, "src/l", NOT_READABLE),
        (G, "src/folder/sub/x.md", NOT_READABLE),
        (G, "../x", "is outside the project."),
        (G, "/etc/hosts", "is outside the project."),
        (G, "src/out", "is outside the project."),
        (G, "src/gone", "is outside the project."),
        (G, "src/../../project2/x", "is outside the project."),
        (OPEN, ".env", "is protected."),
        (OPEN, "src/env", "is protected."),
        (OPEN, "src/../.env", "is protected."),
        (OPEN, ".penstock/db", "is protected."),
    ],
)
def test_an_unreadable_path_is_refused_with_its_name(
    root: Path, access: Access, named: str, why: str
) -> None:
    """G2, G3, G7."""
    with pytest.raises(CallError) as error:
        ProjectFiles(root, access).readable(named)
    assert (error.value.code, str(error.value)) == ("NOT_PERMITTED", f'"{named}" {why}')


@pytest.mark.parametrize(
    ("access", "named", "why"),
    [
        (G, "src/gen/a.py", None),
        (G, "src/gen/new/deep/a.py", None),
        (G, "src/a.py", 'is not writable for agent "g". access.write: src/gen/**.'),
        (OPEN, "agents/x.md", "is protected."),
        (Access(write=("agents/**",)), "agents/x.md", None),
        (OPEN, "src/gone", "is outside the project."),
        (OPEN, "src/env", "is protected."),
    ],
)
def test_a_writable_path_is_written(
    root: Path, access: Access, named: str, why: str | None
) -> None:
    """G4, G8; "for a new file: [the links] of its nearest existing parent"."""
    files = ProjectFiles(root, access)
    if why is None:
        assert files.write(files.writable(named), b"x")
        assert (root / named).read_text() == "x"
        return
    with pytest.raises(CallError) as error:
        files.writable(named)
    assert str(error.value) == f'"{named}" {why}'


def test_a_protected_link_protects_its_target(root: Path) -> None:
    (root / ".env.local").symlink_to("README.md")
    with pytest.raises(CallError, match="is protected"):
        ProjectFiles(root).readable(".env.local")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("none.txt", "there is no 'none.txt' in the project"),
        ("src", "'src' is a directory, or no plain file"),
        ("README.md/x", "a file or a link is where 'README.md/x' needs a folder"),
        (
            "src/loop",
            "'src/loop' leads through a loop of links, or too many; name the file itself",
        ),
        ("x" * 300, f"there is no {'x' * 300!r} in the project: its name is too long"),
        ("a\0b", "'a\\x00b' is not a path of a file"),
        ("\ud800", "'\\ud800' is not a path of a file"),
    ],
)
def test_errors_of_the_system_become_messages(root: Path, named: str, why: str) -> None:
    files = ProjectFiles(root)
    with pytest.raises(CallError) as error:
        files.read(files.readable(named), 100)
    assert str(error.value) == why


def test_a_file_over_its_limit_is_refused(root: Path) -> None:
    files = ProjectFiles(root)
    with pytest.raises(CallError, match="has more than 3 bytes"):
        files.read(files.readable("README.md"), 3)
    with pytest.raises(CallError, match="in the project: its name is too long"):
        files.write(files.writable(LONG), b"")
    with pytest.raises(CallError, match="a file has at most 1048576 bytes, this has 1048577"):
        files.write(files.writable("new"), b"x" * (1024 * 1024 + 1))


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("tests", f'"tests" {NOT_READABLE}'),
        ("README.md", f'"README.md" {NOT_READABLE}'),
        (".penstock", '".penstock" is protected.'),
        ("..", '".." is outside the project.'),
        ("src/none", "there is no 'src/none' in the project"),
        (LONG, f"there is no {LONG!r} in the project: its name is too long"),
    ],
)
def test_a_search_is_refused_outside_readable_folders(root: Path, named: str, why: str) -> None:
    """G6: "in `tests`: refused as G2"."""
    for folder in ("tests", ".penstock"):
        (root / folder).mkdir()
    with pytest.raises(CallError) as error:
        ProjectFiles(root, G).start(named)
    assert str(error.value) == why


def test_the_project_may_itself_be_named_by_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    files = ProjectFiles(tmp_path / "link")
    assert files.readable(f"{tmp_path}/link/README.md").real == "README.md"
    assert files.at(".").shown == "."


def test_another_name_of_a_hidden_file_is_neither_listed_nor_written(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "twin.txt").hardlink_to(tmp_path / ".env")
    (tmp_path / "own.txt").write_text("x")
    files = ProjectFiles(tmp_path)
    assert [each.name for each in entries(files, files.at("."))] == ["own.txt"]
    with pytest.raises(NotPermitted):
        files.write(files.writable("twin.txt"), b"new")
    assert (tmp_path / "twin.txt").samefile(tmp_path / ".env")


ROUNDS, WRITERS = 20, 8


@pytest.mark.parametrize("path", ["count", "below/count", "gone/count"])
def test_a_file_lock_excludes_other_writers(tmp_path: Path, path: str) -> None:
    (tmp_path / "below").mkdir()
    counted, barrier = {"n": 0}, Barrier(WRITERS)

    def count(_: int) -> None:
        barrier.wait()
        for _ in range(ROUNDS):
            with file_lock(tmp_path, path):
                before = counted["n"]
                (tmp_path / "pause").write_text(str(before))
                counted["n"] = before + 1

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(count, range(WRITERS)))
    assert counted["n"] == ROUNDS * WRITERS


def test_an_error_releases_the_file_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), file_lock(tmp_path, "f"):
        raise KeyError
    with file_lock(tmp_path, "f"):
        pass
