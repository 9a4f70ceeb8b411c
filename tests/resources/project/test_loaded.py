"""The files that a project loaded, as a set that follows the project."""

from collections.abc import Iterable

import pytest

from penstock.resources.project.loaded import LoadedFiles

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


class Finding:
    """Finds another file in each edition, and counts how often it is asked."""

    def __init__(self) -> None:
        self.edition, self.looks = 1, 0

    def stamp(self) -> object:
        return self.edition

    def find(self) -> Iterable[str]:
        self.looks += 1
        return [f"edition-{self.edition}"]


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
