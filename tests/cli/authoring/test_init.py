"""`penstock init` creates a project that works."""

from pathlib import Path

import pytest

from penstock.app.project import find_root, load_project
from penstock.app.settings import load
from penstock.cli.authoring.init import FILES, init
from penstock.core.errors import ConfigError, NameTaken


def test_a_new_project_has_no_findings(tmp_path: Path) -> None:
    init(tmp_path / "new" / "one")
    root = find_root(tmp_path / "new" / "one" / "tools")
    project = load_project(load(root))
    assert [agent.name for agent in project.agents] == ["assistant"]
    assert project.diagnostics == ()
    assert load(root).models.default == "offline"


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "tools" / "hello.py"
    mine.parent.mkdir()
    mine.write_text("# mine")
    with pytest.raises(NameTaken, match=r"^tools/hello.py would be overwritten, so nothing was"):
        init(tmp_path)
    assert mine.read_text() == "# mine"
    assert not (tmp_path / "penstock.toml").exists()


def test_force_overwrites_files(tmp_path: Path) -> None:
    init(tmp_path)
    (tmp_path / "penstock.toml").write_text("broken")
    init(tmp_path, force=True)
    assert {name: (tmp_path / name).read_text() for name in FILES} == FILES


def test_a_file_is_refused_as_project_folder(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("mine")
    with pytest.raises(
        ConfigError, match=r"is a file: name a folder, such as `penstock init demo`"
    ):
        init(file)
    with pytest.raises(ConfigError, match=r"Not a directory\. Choose a folder that you can create"):
        init(file / "x")
    assert file.read_text() == "mine"


def test_a_folder_that_cannot_be_created_is_reported_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^Cannot create a project in /proc/x: [^\n]*$"):
        init(Path("/proc/x"))
