"""The files that a project loaded, as a set that follows the project."""

from collections.abc import Iterable

import pytest

from penstock.resources.project.loaded import LoadedFiles, Modules

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
def test_a_folder_stands_for_all_below(name: str, *, is_loaded: bool, is_above: bool) -> None:
    assert (LOADED.has(name), LOADED.has_below(name)) == (is_loaded, is_above)


def test_modules_below_a_folder_are_files_of_python_alone() -> None:
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


def test_an_edition_that_comes_while_the_one_before_is_looked_at_is_asked_as_well() -> None:
    files, newer = LoadedFiles(), Finding()
    files.follow(Replaced(files, newer))
    files.refresh()
    assert newer.looks == 0
    files.refresh()
    assert newer.looks == 1


def test_before_a_call_an_edition_is_looked_at_once() -> None:
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
