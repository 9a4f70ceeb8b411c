"""Changes of a command, applied where the agent may write."""

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from penstock.resources.project.access import OPEN, Access, LoadedFiles
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.overlay import MAX_DEPTH, take_changes

G = Access(agent="g", write=("out/*.txt",))


class Copy:
    """A project, and the upper folder of an overlay over it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.upper = folder / "project", folder / "upper"
        self.root.mkdir()
        self.upper.mkdir()

    def write(self, path: str, text: str = "new", mode: int = 0o644) -> None:
        place = self.upper / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def removes(self, path: str) -> None:
        (self.upper / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(self.upper / path, stat.S_IFCHR | 0o600, os.makedev(0, 0))

    def replaces(self, folder: str) -> None:
        (self.upper / folder).mkdir(parents=True)
        os.setxattr(self.upper / folder, "user.overlay.opaque", b"y")

    def take(self, access: Access = OPEN) -> list[str]:
        return [str(each) for each in take_changes(ProjectFiles(self.root, access), self.upper)]

    def there(self) -> dict[str, str]:
        """Return the text of every file, and where every link leads."""
        return {
            path.relative_to(self.root).as_posix(): f"-> {path.readlink()}"
            if path.is_symlink()
            else path.read_text()
            for path in sorted(self.root.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    copy = Copy(tmp_path)
    for name in ("a.py", "src/b.py", "src/deep/c.py", "agents/x.md", "agents/sub/y.md"):
        (copy.root / name).parent.mkdir(parents=True, exist_ok=True)
        (copy.root / name).write_text(name)
    return copy


def test_files_links_and_folders_are_applied(copy: Copy) -> None:
    copy.write("a.py", "changed", 0o750)
    copy.write("new/deep/x")
    (copy.upper / "new/link").symlink_to("deep")
    copy.removes("src/b.py")
    (copy.upper / "empty").mkdir(mode=0o750)
    assert copy.take() == []
    assert copy.there() == {
        "a.py": "changed",
        "agents/sub/y.md": "agents/sub/y.md",
        "agents/x.md": "agents/x.md",
        "new/deep/x": "new",
        "new/link": "-> deep",
        "src/deep/c.py": "src/deep/c.py",
    }
    modes = [(copy.root / name).stat().st_mode & 0o777 for name in ("a.py", "empty")]
    assert modes == [0o750, 0o750]


def test_a_folder_that_was_removed_and_made_again_has_only_new_files(copy: Copy) -> None:
    copy.replaces("src")
    copy.write("src/new.py")
    assert copy.take() == []
    assert sorted(copy.there()) == ["a.py", "agents/sub/y.md", "agents/x.md", "src/new.py"]


def test_a_file_replaces_a_folder_and_a_folder_replaces_a_file(copy: Copy) -> None:
    copy.write("src", "file")
    copy.write("a.py/in", "folder")
    assert copy.take() == []
    assert (copy.there()["src"], copy.there()["a.py/in"]) == ("file", "folder")


@pytest.mark.parametrize(
    ("access", "path", "why"),
    [
        (OPEN, "agents/x.md", "is protected."),
        (OPEN, "agents/new.md", "is protected."),
        (OPEN, "deep/x.tool.yaml", "is protected."),
        (OPEN, "src/.env", "is protected."),
        (Access(loaded=LoadedFiles(["src/b.py"])), "src/b.py", "is protected."),
        (Access(loaded=LoadedFiles(["src/b.py"])), "SRC/B.py", "is protected."),
        (G, "out/x.py", 'is not writable for agent "g". access.write: out/*.txt.'),
    ],
)
def test_a_refused_change_leaves_the_file_unchanged(
    copy: Copy, access: Access, path: str, why: str
) -> None:
    """The same sentence that `write` answers."""
    before = copy.there()
    copy.write(path)
    assert copy.take(access) == [f'"{path}" {why}']
    assert copy.there() == before


@pytest.mark.parametrize("path", [".env", "sub/.penstock/key", "other"])
def test_no_guess_of_a_hidden_file_is_confirmed(copy: Copy, path: str) -> None:
    """A protected file that was only opened is not a refusal; a hidden one is."""
    for name in (".env", "sub/.penstock/key"):
        (copy.root / name).parent.mkdir(parents=True, exist_ok=True)
        (copy.root / name).write_text("A=1")
    (copy.root / "other").hardlink_to(copy.root / ".env")
    copy.write("agents/x.md", "agents/x.md")
    copy.write(path, "A=1")
    assert copy.take() == [f'"{path}" is protected.']


def test_allowed_changes_are_kept_if_others_are_refused(copy: Copy) -> None:
    copy.write("out/x.txt")
    copy.write("out/x.py")
    copy.write("elsewhere/x.txt")
    refused = copy.take(G)
    assert [each.split('"')[1] for each in refused] == ["elsewhere", "out/x.py"]
    assert copy.there()["out/x.txt"] == "new"
    assert not (copy.root / "elsewhere").exists()


def test_a_folder_with_protected_files_is_not_removed(copy: Copy) -> None:
    (copy.root / "mixed").mkdir()
    for name in ("x.tool.yaml", "free"):
        (copy.root / "mixed" / name).touch()
    copy.removes("mixed")
    copy.removes("agents")
    refused = copy.take()
    assert '"mixed/x.tool.yaml" is protected.' in refused
    assert [each.name for each in (copy.root / "mixed").iterdir()] == ["x.tool.yaml"]
    assert (copy.root / "agents/sub/y.md").exists()


@pytest.mark.parametrize("name", ["agents", "tools", "schedules", ".pi", "x.tool.yaml"])
def test_no_link_replaces_a_protected_folder(copy: Copy, name: str) -> None:
    if name == "agents":
        for each in ("x.md", "sub/y.md"):
            (copy.root / name / each).unlink()
        (copy.root / "agents/sub").rmdir()
        (copy.root / "agents").rmdir()
    (copy.upper / name).symlink_to("src")
    assert copy.take() == [f'"{name}" is protected.']
    assert not (copy.root / name).is_symlink()


def test_a_special_file_is_refused(copy: Copy) -> None:
    os.mkfifo(copy.upper / "pipe")
    assert copy.take() == ['"pipe" is not a file, folder or link.']
    assert not (copy.root / "pipe").exists()


def test_a_file_that_was_only_opened_is_not_reported(copy: Copy) -> None:
    copy.write("agents/x.md", "agents/x.md", 0o644)
    assert copy.take() == []


def test_rights_of_other_users_and_marks_of_overlays_are_taken_away(copy: Copy) -> None:
    copy.write("tool", mode=0o6755)
    os.setxattr(copy.upper / "tool", "user.overlay.origin", b"x")
    os.setxattr(copy.upper / "tool", "user.own", b"x")
    assert copy.take() == []
    place = copy.root / "tool"
    assert (place.stat().st_mode & 0o7777, os.listxattr(place)) == (0o755, ["user.own"])


def test_times_and_holes_are_kept(copy: Copy) -> None:
    """`make` compares times; a hole of a gibibyte takes no gibibyte."""
    copy.write("big", "start")
    os.truncate(copy.upper / "big", 1 << 30)
    os.utime(copy.upper / "big", ns=(1, 2_000_000_000))
    assert copy.take() == []
    found = (copy.root / "big").stat()
    assert (found.st_size, found.st_mtime_ns) == (1 << 30, 2_000_000_000)
    assert found.st_blocks * 512 < 1 << 20


@pytest.mark.chaos
def test_deep_folders_are_applied(copy: Copy) -> None:
    """Each name on the way is opened from the one above, so depth costs its square."""
    deep = "/".join(["d"] * (MAX_DEPTH + 1))
    copy.write(f"{deep}/x")
    assert copy.take() == [f'"{deep}" is below more than {MAX_DEPTH} folders.']
    assert (copy.root / deep).parent.exists()
    again = Copy.__new__(Copy)
    again.root, again.upper = copy.root, copy.upper.parent / "upper2"
    again.upper.mkdir()
    again.removes("d")
    assert again.take() == []
    assert not (copy.root / "d").exists()


def test_names_of_other_bytes_are_reported_and_judged(copy: Copy) -> None:
    copy.write(os.fsdecode(b"x\xff.tool.yaml"))
    copy.write(os.fsdecode(b"y\xff"))
    assert copy.take() == ['"x\\xff.tool.yaml" is protected.']
    assert os.fsdecode(b"y\xff") in {each.name for each in copy.root.iterdir()}


def test_an_inaccessible_folder_is_applied_unchanged(copy: Copy) -> None:
    copy.write("closed/x")
    (copy.upper / "closed").chmod(0)
    assert copy.take() == []
    assert (copy.root / "closed").stat().st_mode & 0o777 == 0
    (copy.root / "closed").chmod(0o700)
    assert (copy.root / "closed/x").read_text() == "new"


class Judging(LoadedFiles):
    """Does something at the moment at which a path is judged."""

    def __init__(self, path: str, act: Callable[[], object]) -> None:
        super().__init__()
        self.path, self.act = path, act

    def has(self, name: str) -> bool:
        if name == self.path:
            self.path = ""
            self.act()
        return False


@pytest.mark.parametrize("is_removed", [False, True])
def test_no_mode_is_set_through_a_link_that_takes_the_place_of_a_folder(
    copy: Copy, tmp_path: Path, *, is_removed: bool
) -> None:
    """Another command is applied meanwhile, or a person works in the project."""
    outside, folder = tmp_path / "outside", copy.root / "sub"
    outside.mkdir(mode=0o500)
    folder.mkdir(mode=0o500)

    def swap() -> None:
        folder.rmdir()
        folder.symlink_to(outside)

    if is_removed:
        copy.removes("sub")
    else:
        (copy.upper / "sub").mkdir()
        (copy.upper / "sub").chmod(0o777)
        copy.write("z")
    loaded = Judging("sub" if is_removed else "z", swap)
    refused = copy.take(Access(loaded=loaded))
    assert folder.is_symlink()
    assert outside.stat().st_mode & 0o777 == 0o500
    assert refused == ['"sub" cannot be changed: Not a directory.']


def test_a_folder_that_may_not_be_read_gets_another_mode_and_is_removed(copy: Copy) -> None:
    for name in ("opened", "removed"):
        (copy.root / name).mkdir()
        (copy.root / name / "x").touch()
        (copy.root / name).chmod(0)
    (copy.upper / "opened").mkdir(mode=0o750)
    copy.removes("removed")
    assert copy.take() == []
    assert (copy.root / "opened").stat().st_mode & 0o777 == 0o750
    assert not (copy.root / "removed").exists()


@pytest.mark.parametrize("is_kept", [False, True], ids=["no state", "state"])
def test_changes_of_two_commands_are_applied_in_sequence(
    copy: Copy, tmp_path: Path, *, is_kept: bool
) -> None:
    if is_kept:
        (copy.root / ".penstock").mkdir()
    other = Copy.__new__(Copy)
    other.root, other.upper = copy.root, tmp_path / "other"
    copy.write("first")
    other.write("second")
    started, came = Event(), Event()

    def wait_for_the_other() -> None:
        started.set()
        assert not came.wait(0.1)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(copy.take, Access(loaded=Judging("first", wait_for_the_other)))
        assert started.wait(5)
        second = threads.submit(other.take, Access(loaded=Judging("second", came.set)))
        assert (first.result(5), second.result(5)) == ([], [])
    assert came.is_set()
    assert copy.there()["second"] == "new"
