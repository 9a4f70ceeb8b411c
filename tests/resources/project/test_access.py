"""The files that an agent may read and write: its patterns, and protected files."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from penstock.core.call_errors import NotPermitted
from penstock.core.clock import Moment
from penstock.resources.project.access import (
    AGE_SECONDS,
    OPEN,
    Access,
    HiddenFiles,
    LoadedFiles,
    Modules,
    id_of,
)
from penstock.resources.project.files import ProjectFiles
from penstock.testing.clock import FakeClock

G = Access(agent="g", read=("src/**", "docs/*.md"), write=("src/gen/**",))
NOT_READABLE = 'is not readable for agent "g". access.read: src/**, docs/*.md.'
NOT_WRITABLE = 'is not writable for agent "g". access.write: src/gen/**.'


@pytest.mark.parametrize(
    ("access", "path", "why"),
    [
        (G, "src/a/b.py", ""),
        (G, "docs/sub/x.md", NOT_READABLE),
        (G, "", NOT_READABLE),
        (OPEN, "README.md", ""),
        (OPEN, ".git/config", ""),
        (OPEN, "agents/x.md", ""),
        (OPEN, ".env", "is protected."),
        (OPEN, ".env.local", "is protected."),
        (OPEN, ".environment", ""),
        (OPEN, ".penstock/db", "is protected."),
        (OPEN, "sub/.penstock.bak/secret.key", "is protected."),
        (OPEN, ".PENSTOCK~", "is protected."),
        (OPEN, ".penstockrc", ""),
        (Access(read=("**",)), ".env", "is protected."),
        (Access(private=("var/db",)), "var/db/key", "is protected."),
        (Access(private=("var/db",)), "var/dbx", ""),
        (Access(agent="n", read=()), "x", 'is not readable for agent "n". access.read: none.'),
    ],
)
def test_an_agent_reads_what_its_patterns_allow(access: Access, path: str, why: str) -> None:
    assert access.why_unreadable(path) == why


@pytest.mark.parametrize(
    ("access", "path", "why"),
    [
        (G, "src/gen/a.py", ""),
        (G, "src/a.py", NOT_WRITABLE),
        (G, "agents/x.md", "is protected."),
        (OPEN, "src/a.py", ""),
        (OPEN, ".git/config", "is protected."),
        (OPEN, ".penstock/db", "is protected."),
        (OPEN, ".env", "is protected."),
        (OPEN, "penstock.toml", "is protected."),
        (OPEN, "agents/x.md", "is protected."),
        (OPEN, "flows/a/b.yaml", "is protected."),
        (OPEN, "handbooks/h/SKILL.md", "is protected."),
        (OPEN, ".pi/flows/agents/x.md", "is protected."),
        (OPEN, ".pi/other", ""),
        (OPEN, "deep/x.tool.yaml", "is protected."),
        (OPEN, "x.skill.yaml", "is protected."),
        (Access(write=("agents/**",)), "agents/x.md", ""),
        (Access(write=("**",)), "agents/x.md", ""),
        (Access(write=("**",)), ".git/config", "is protected."),
        (Access(write=("**",)), ".env", "is protected."),
        (Access(write=("**",), private=("var",)), "var/x", "is protected."),
    ],
)
def test_an_agent_writes_what_its_patterns_allow(access: Access, path: str, why: str) -> None:
    """Shows "Protected: … `agents/**` … only if a pattern of the agent's own fits"."""
    assert access.why_unwritable(path) == why


def test_a_folder_may_hold_readable_files() -> None:
    assert [G.may_read_below(each) for each in ("", "src", "docs", "tests")] == [1, 1, 1, 0]
    assert not OPEN.may_read_below(".penstock")


def test_the_places_below_which_it_writes() -> None:
    assert OPEN.writable_places == ("",)
    assert Access(write=("src/gen/**", "docs/*.md", "/etc/**")).writable_places == (
        "src/gen",
        "docs",
    )


CALLER = Access(agent="writer", read=("docs/**",), write=("docs/in/**", "out/*"))


@pytest.mark.parametrize(
    ("own", "places", "below"),
    [
        (Access(), ("docs/in", "out"), ["", "docs"]),
        (Access(write=("docs/**",)), ("docs/in",), ["", "docs"]),
        (Access(write=("docs/in/deep/x.md", "src/**")), ("docs/in/deep/x.md",), ["", "docs"]),
        (Access(write=("docs/int/**",)), (), ["", "docs"]),
        (Access(read=("src/**",)), ("docs/in", "out"), [""]),
    ],
)
def test_the_access_of_an_agent_that_another_calls_is_in_both(
    own: Access, places: tuple[str, ...], below: list[str]
) -> None:
    both = own.within(CALLER)
    assert both.writable_places == places
    assert [each for each in ("", "docs", "src") if both.may_read_below(each)] == below
    assert (both.limits_reads, both.limits_writes) == (True, True)


def test_an_agent_without_patterns_narrows_none() -> None:
    """A file that decides what runs is written by the agent whose own pattern names it."""
    both = Access(agent="clerk", write=("agents/**",)).within(Access(deny=("curl *",)))
    assert not both.why_unwritable("agents/x.md")
    assert (both.outer, both.deny) == (None, ("curl *",))


def test_a_refusal_names_the_agent_whose_patterns_refuse() -> None:
    both = Access(agent="clerk", write=("docs/**",)).within(CALLER)
    assert 'writable for agent "clerk"' in both.why_unwritable("out/a.md")
    assert 'writable for agent "writer"' in both.why_unwritable("docs/a.md")
    assert 'readable for agent "writer"' in both.not_readable
    assert not both.why_no_folder("docs/in")
    assert both.why_no_folder("docs/new")


def test_a_path_that_a_pattern_names_is_the_agents_own() -> None:
    access = Access(write=("agents/**",))
    assert [access.writes_of_its_own(each) for each in ("agents", "flows")] == [True, False]


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
    """Return a clock that shows the last change of a file plus so many milliseconds."""
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
    """The scan before it started at the same time, as far as clocks of file systems show."""
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


def test_an_old_walk_is_repeated(root: Path) -> None:
    """A folder may have been given a hidden name, which changes no file in it."""
    clock, walk = later_than(root / "x0"), Walks()
    hidden = HiddenFiles(clock)
    assert not hidden.has((root / "x0").stat(), walk)
    walk.hidden = (root / "store/x",)
    assert not hidden.has((root / "x0").stat(), walk)
    clock.advance(AGE_SECONDS)
    assert hidden.has((root / "x0").stat(), walk)
    assert walk.walks == 2


def test_a_disk_whose_clock_is_ahead_is_scanned_once_a_second(root: Path) -> None:
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


def test_a_check_before_a_call_scans_once_and_the_call_scans_as_needed(root: Path) -> None:
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


LOADED = LoadedFiles(["lib/Run.mts", "skills/help", "z"])


@pytest.mark.parametrize(
    ("name", "is_loaded", "is_above"),
    [
        ("lib/run.mts", True, False),
        ("lib", False, True),
        ("li", False, False),
        ("lib/run.mts/x", True, False),
        ("skills/help/deep/x", True, False),
        ("skills/helper", False, False),
        ("skills", False, True),
        ("zz", False, False),
        ("z", True, False),
    ],
)
def test_a_loaded_folder_includes_everything_below(
    name: str, *, is_loaded: bool, is_above: bool
) -> None:
    assert (LOADED.has(name), LOADED.has_below(name)) == (is_loaded, is_above)


def test_modules_below_a_folder_are_only_python_files() -> None:
    files = LoadedFiles([Modules("src/Shop")])
    names = ["src/shop/x.py", "src/shop/deep/x.so", "src/shop/x.csv", "src/shop.py", "src/x.py"]
    assert [files.has(name) for name in names] == [True, True, False, False, False]
    folders = ["src", "src/shop", "src/shop/deep", "src/other"]
    assert [files.has_below(name) for name in folders] == [True, True, True, False]
    assert LoadedFiles([Modules("")]).has("x.py")


def test_a_package_is_asked_for_when_a_module_is_judged() -> None:
    files = LoadedFiles()
    assert not files.could_import("package/x.py")
    files.follow(Finding())
    paths = ["package/x.py", "package/X.PY. ", "package/x.txt", "other/x.py"]
    assert [files.could_import(path) for path in paths] == [True, True, False, False]


class Finding:
    """Finds another file in each edition, and counts how often it is asked."""

    def __init__(self) -> None:
        self.edition, self.looks = 1, 0

    def stamp(self) -> object:
        return self.edition

    def find(self) -> Iterable[str]:
        self.looks += 1
        return [f"edition-{self.edition}"]

    def has_package(self, path: str) -> bool:
        return path.startswith("package/")


def test_it_looks_again_when_something_else_was_loaded() -> None:
    files, finding = LoadedFiles(), Finding()
    files.refresh()
    assert not files.has("edition-1")
    files.follow(finding)
    for _ in range(3):
        files.refresh()
    assert (files.has("edition-1"), finding.looks) == (True, 1)
    finding.edition = 2
    files.refresh()
    assert (files.has("edition-1"), files.has("edition-2"), finding.looks) == (False, True, 2)


def test_a_finder_of_another_edition_is_asked_although_its_stamp_is_equal() -> None:
    """Numbers of objects come again, so an edition is not known by its number."""
    files, first, second = LoadedFiles(), Finding(), Finding()
    for finding in (first, second):
        files.follow(finding)
        files.refresh()
        files.refresh()
    assert (first.looks, second.looks) == (1, 1)


class Replaced(Finding):
    """Is replaced by another finder while it looks."""

    def __init__(self, files: LoadedFiles, next: Finding) -> None:
        super().__init__()
        self.files, self.next = files, next

    def find(self) -> Iterable[str]:
        self.files.follow(self.next)
        return super().find()


def test_an_edition_that_arrives_during_a_scan_is_scanned_too() -> None:
    files, newer = LoadedFiles(), Finding()
    files.follow(Replaced(files, newer))
    files.refresh()
    assert newer.looks == 0
    files.refresh()
    assert newer.looks == 1


def test_an_edition_is_scanned_once_before_a_call() -> None:
    files, finding = LoadedFiles(), Finding()
    files.refresh_once()
    files.follow(finding)
    for _ in range(2):
        files.refresh_once()
        finding.edition += 1
    assert (files.has("edition-1"), finding.looks) == (True, 1)
    files.follow(Finding())
    files.refresh_once()
    assert files.has("edition-1")
