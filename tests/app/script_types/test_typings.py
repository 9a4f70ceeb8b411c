"""The `flo.d.ts` files of a project."""

from pathlib import Path

import pytest

from penstock.app.project import Project
from penstock.app.script_types.typings import FILE, typing_files
from penstock.core.errors import ConfigError, NameTaken
from tests.kit.manifests import load, tool


def test_a_file_is_stale_until_it_is_written(tmp_path: Path) -> None:
    bundle = load(tmp_path, {"a/a.tool.yaml": tool(), "b.tool.yaml": tool(name="b")})
    files = typing_files(Project(root=tmp_path, bundle=bundle))
    assert [each.path.relative_to(tmp_path).as_posix() for each in files] == [FILE, f"a/{FILE}"]
    assert all(each.is_stale for each in files)
    for each in files:
        each.write()
    assert not any(each.is_stale for each in files)
    assert "interface FloBuiltInOutputs" in files[0].text


@pytest.mark.parametrize(
    ("out", "wrong", "expected"),
    [
        ("nowhere/x.d.ts", ConfigError, "cannot be written: No such file or directory."),
        ("taken", NameTaken, "was not written by `penstock types`"),
    ],
)
def test_a_file_that_cannot_be_written_is_reported_with_the_reason(
    tmp_path: Path, out: str, wrong: type[Exception], expected: str
) -> None:
    (tmp_path / "taken").mkdir()
    (file,) = typing_files(Project(root=tmp_path), tmp_path / out)
    with pytest.raises(wrong, match=expected):
        file.write()


def test_a_project_without_manifests_has_no_typings(tmp_path: Path) -> None:
    assert typing_files(Project(root=tmp_path)) == []
