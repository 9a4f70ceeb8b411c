"""`kill -9` while the changes of a command are applied: each file is as it was, or as it will be.

A process applies the changes and is killed before each thing that it does to a file in turn. What
it leaves is compared name by name; then the next command begins, and its changes are applied.
"""

import errno
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.resources.project.fence import fence
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.overlay import take_changes

pytestmark = pytest.mark.programs

MOMENTS = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.utime"),
    *("os.truncate", "open"),
}
"""What Python reports before it does so."""
UNFINISHED = ".penstock-"
HERE = Path(__file__).parents[2]
Names = dict[str, tuple[int, str]]


def prepare(place: Path) -> tuple[Path, Path]:
    """Make a project, and the upper folder of a command that changed all of it."""
    root, upper = place / "project", place / "upper"
    for name in ("changed", "removed", "away/a", "away/deep/b", "again/a", "again/b", "file/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"old {name}")
    (root / "folder").write_text("old folder")
    (root / "link").symlink_to("changed")
    for name in ("changed", "new", "made/deep/c", "again/b", "again/c", "file", "folder/in"):
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).write_text(f"new {name}")
        (upper / name).chmod(0o750)
    for name in ("removed", "away"):
        os.mknod(upper / name, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    os.setxattr(upper / "again", "user.overlay.opaque", b"y")
    (upper / "link").symlink_to("new")
    return root, upper


def names_in(root: Path) -> Names:
    """Return the mode of each file and link, and its text or where it leads."""
    found: Names = {}
    for folder, _, names in os.walk(root):
        for name in (Path(folder, each) for each in names):
            text = f"-> {name.readlink()}" if name.is_symlink() else name.read_text()
            found[name.relative_to(root).as_posix()] = (name.lstat().st_mode & 0o777, text)
    links = [each for each in root.rglob("*") if each.is_symlink()]
    return found | {
        each.relative_to(root).as_posix(): (0o777, f"-> {each.readlink()}") for each in links
    }


def take_until(moment: int, root: Path, upper: Path, *, is_other_disk: bool) -> bool:
    """Apply the changes in a process that is killed then; returns whether it came to the end."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    seen = itertools.count()

    def look(event: str, args: tuple[object, ...]) -> None:
        if event not in MOMENTS or (event == "open" and not int(str(args[2])) & os.O_CREAT):
            return
        if event == "os.rename" and is_other_disk and str(args[0]).startswith(str(upper)):
            raise OSError(errno.EXDEV, "another disk")
        if next(seen) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    os._exit(len(take_changes(ProjectFiles(root), upper)))


def main(place: Path, *, is_other_disk: bool) -> None:
    """Print what each kill left, what the next command found, and what came of its changes."""
    root, upper = prepare(place / "whole")
    old = names_in(root)
    assert take_changes(ProjectFiles(root), upper) == []
    killed: list[Names] = []
    found: list[Names] = []
    for moment in itertools.count():
        root, upper = prepare(place / str(moment))
        if take_until(moment, root, upper, is_other_disk=is_other_disk):
            break
        killed.append(names_in(root))
        fence(ProjectFiles(root))
        found.append(names_in(root))
        _, again = prepare(place / f"{moment} again")
        assert take_changes(ProjectFiles(root), again) == []
        assert names_in(root) == names_in(place / "whole/project")
    new = names_in(place / "whole/project")
    sys.stdout.write(json.dumps({"old": old, "new": new, "killed": killed, "found": found}))


@pytest.mark.slow("a process for each moment at which it is killed")
@pytest.mark.parametrize("is_other_disk", [False, True], ids=["one disk", "two disks"])
def test_a_kill_leaves_each_file_as_it_was_or_as_it_will_be(
    tmp_path: Path, *, is_other_disk: bool
) -> None:
    """`kill -9` when a command has ended and its changes are applied."""
    code = (
        "from pathlib import Path; from tests.promises.test_killed_takeover import main; "
        f"main(Path({str(tmp_path)!r}), is_other_disk={is_other_disk})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, check=True, capture_output=True, text=True
    )
    said = json.loads(done.stdout)
    assert len(said["killed"]) > (40 if is_other_disk else 20)
    for left, found in zip(said["killed"], said["found"], strict=True):
        whole = {name: what for name, what in left.items() if UNFINISHED not in name}
        for name in {*said["old"], *said["new"], *whole}:
            assert whole.get(name) in (said["old"].get(name), said["new"].get(name)), name
        assert found == whole
    assert any(UNFINISHED in name for left in said["killed"] for name in left) is is_other_disk
