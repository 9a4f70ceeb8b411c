"""Hidden files under other names: refused at once, without a walk for each file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.call_errors import NotPermitted
from penstock.core.clock import Moment
from penstock.resources.project.access import OPEN
from penstock.resources.project.files import ProjectFiles
from penstock.resources.project.hidden import AGE_SECONDS, HiddenFiles, id_of
from penstock.testing.clock import FakeClock

LATER_MS = 5_000


class Walks:
    """Counts walks over some files, at a time of its own."""

    def __init__(self, *hidden: Path) -> None:
        self.hidden, self.walks = hidden, 0

    def __call__(self) -> Iterator[os.stat_result]:
        self.walks += 1
        return (each.stat() for each in self.hidden)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (".penstock/secret.key", ".env", "sub/.env", "store/x", "free"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for number in range(3):
        (tmp_path / f"x{number}").hardlink_to(tmp_path / "store/x")
    return tmp_path


def later_than(file: Path, more: int = LATER_MS) -> FakeClock:
    """Return a clock that stands behind the last change of a file, by so many milliseconds."""
    return FakeClock(Moment(file.stat().st_ctime_ns // 1_000_000 + more))


def read(root: Path, name: str, hidden: HiddenFiles) -> bytes:
    files = ProjectFiles(root, OPEN, hidden)
    return files.read(files.readable(name), 100)


def replace_variables(root: Path) -> None:
    (root / "made").write_text("secret")
    (root / "new").hardlink_to(root / "made")
    (root / "made").rename(root / ".env")


def hide_afterwards(root: Path) -> None:
    (root / "new").hardlink_to(root / "free")
    (root / "free").rename(root / ".env.local")


REPLACED: dict[str, Callable[[Path], None]] = {
    "key": lambda root: (root / "new").hardlink_to(root / ".penstock/secret.key"),
    "env": lambda root: (root / "new").hardlink_to(root / "sub/.env"),
    "new env": replace_variables,
    "hidden afterwards": hide_afterwards,
}


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED)
def test_a_link_that_was_made_a_moment_ago_is_refused(
    root: Path, change: Callable[[Path], None]
) -> None:
    """The walk before it began at the same moment, as far as clocks of file systems tell."""
    hidden = HiddenFiles()
    assert read(root, "x0", hidden) == b"store/x"
    change(root)
    with pytest.raises(NotPermitted, match='"new" is protected'):
        read(root, "new", hidden)
    assert read(root, "x1", hidden) == b"store/x"


def test_files_that_were_linked_before_a_walk_need_no_other(root: Path) -> None:
    clock, walk = later_than(root / "x0"), Walks(root / ".env")
    hidden = HiddenFiles(clock)
    for name in ("x0", "x1", "x2"):
        assert not hidden.has((root / name).stat(), walk)
    assert hidden.has((root / ".env").stat(), walk)
    assert walk.walks == 1


def test_a_walk_is_repeated_when_it_is_old(root: Path) -> None:
    """A folder may have been given a hidden name, which changes no file in it."""
    clock, walk = later_than(root / "x0"), Walks()
    hidden = HiddenFiles(clock)
    assert not hidden.has((root / "x0").stat(), walk)
    walk.hidden = (root / "store/x",)
    assert not hidden.has((root / "x0").stat(), walk)
    clock.advance(AGE_SECONDS)
    assert hidden.has((root / "x0").stat(), walk)
    assert walk.walks == 2


def test_a_disk_whose_clock_is_ahead_is_walked_once_in_a_second(root: Path) -> None:
    clock, walk = later_than(root / "x0", -60_000), Walks()
    hidden = HiddenFiles(clock)
    for name in ("x0", "x1", "x2"):
        hidden.has((root / name).stat(), walk)
    assert walk.walks == 1
    clock.advance(1.1)
    hidden.has((root / "x0").stat(), walk)
    assert walk.walks == 2


def test_a_number_of_a_file_is_one_of_its_device(root: Path) -> None:
    key = (root / ".env").stat()
    other = os.stat_result((*key[:2], key.st_dev + 1, *key[3:]))
    assert id_of(other) != id_of(key) == id_of((root / ".env").stat())


def test_a_look_before_a_call_walks_once_and_the_call_itself_whenever_it_must(root: Path) -> None:
    """The look is on the event loop: it may be out of date, so what writes looks again."""
    walks, hidden = Walks(root / ".env"), HiddenFiles(later_than(root / ".env", 0))
    assert hidden.has_once((root / ".env").stat(), walks)
    hide_afterwards(root)
    walks.hidden = (root / ".env.local",)
    made = (root / "new").stat()
    assert not hidden.has_once(made, walks)
    assert walks.walks == 1
    files = ProjectFiles(root, OPEN, hidden)
    with pytest.raises(NotPermitted):
        files.writable("new")
