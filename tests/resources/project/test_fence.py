"""The paths of a project that a command may change."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.resources.project.access import OPEN, Access
from penstock.resources.project.fence import Fence, fence
from penstock.resources.project.files import ProjectFiles, file_lock
from penstock.resources.project.opening import unfinished_name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    names = (
        *(".env", ".env.local", ".penstock/db", ".git/config", "agents/a.md", "penstock.toml"),
        *("src/gen/x", "src/x.tool.yaml", "node_modules/y.tool.yaml", ".pi/flows/z.yaml"),
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "flows").symlink_to("/etc")
    return tmp_path


HIDDEN = (".env", ".env.local", ".penstock")
KEPT = (".git", "penstock.toml", "agents", ".pi/flows", "src/x.tool.yaml")


@pytest.mark.parametrize(
    ("access", "kept", "writable"),
    [
        (OPEN, KEPT, ("",)),
        (Access(write=("src/gen/**",)), KEPT, ("src/gen",)),
        (Access(write=("src/*.py", "new/**")), KEPT, ("src",)),
        (Access(write=("agents/**",)), tuple({*KEPT} - {"agents"}), ("agents",)),
        (Access(write=("**",)), (".git",), ("",)),
        (Access(write=()), KEPT, ()),
    ],
)
def test_the_fence_lists_hidden_read_only_and_writable_paths(
    root: Path, access: Access, kept: tuple[str, ...], writable: tuple[str, ...]
) -> None:
    """§12.3: "writable only below the literal prefixes of `access.write`, protected hidden"."""
    found = fence(ProjectFiles(root, access))
    kept = tuple(each for each in KEPT if each in kept)
    assert found == Fence(hidden=HIDDEN, kept=kept, writable=writable)


def test_places_of_the_runtime_are_hidden_too(root: Path) -> None:
    found = fence(ProjectFiles(root, Access(private=("src/gen", "gone"))))
    assert found.hidden == (*HIDDEN, "src/gen")


def test_a_protected_link_hides_its_target(root: Path) -> None:
    (root / "secrets").touch()
    (root / ".env.link").symlink_to("secrets")
    assert "secrets" in fence(ProjectFiles(root)).hidden


def test_an_unfinished_file_is_removed_unless_its_folder_is_locked(
    root: Path,
) -> None:
    """A writer holds the lock of the folder, which other processes see."""
    left = root / unfinished_name("src/gen/x.py")
    kept = (
        *(root / "src/x.penstock-1-2", root / "src/.x.penstock-1-a", root / ".env.penstock-1-2"),
        root / "src/.folder.penstock-1-2",
    )
    for each in (left, *kept[:-1]):
        each.write_text("half")
    kept[-1].mkdir()
    (other := root / "src/.link.penstock-1-2").symlink_to("gen/x")
    with ThreadPoolExecutor(1) as threads, file_lock(root, "src/gen/other.py"):
        looking = threads.submit(fence, ProjectFiles(root))
        with pytest.raises(TimeoutError):
            looking.result(0.1)
        assert left.exists()
    assert ".env.penstock-1-2" in looking.result().hidden
    assert not left.exists()
    assert not other.is_symlink()
    assert (root / "src/gen/x").exists()
    assert all(each.exists() for each in kept)


@pytest.mark.parametrize("count", [995, 996, 1100])
def test_read_only_paths_that_are_not_fenced_are_counted_in_a_warning(
    root: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Five more are in the project; 1,000 are fenced."""
    for number in range(count):
        (root / "src" / f"{number}.tool.yaml").touch()
    found = fence(ProjectFiles(root))
    left = max(count + len(KEPT) - 1000, 0)
    assert len(found.kept) == count + len(KEPT) - left
    said = (
        f"{root}: {left} of {count + len(KEPT)} protected paths do not look read-only to shell "
        "commands, because at most 1000 do. Changes of the others are refused when a command ends."
    )
    assert [each.message for each in caplog.records] == ([said] if left else [])
