"""A project: the folder of what authors write."""

from pathlib import Path

import pytest

from penstock.app.project import check_root, find_root, load_project
from penstock.app.settings import load
from penstock.core.errors import ConfigError


@pytest.mark.parametrize("mark", ["penstock.toml", ".penstock"])
def test_a_project_is_found_from_below(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_root(below) == tmp_path
    assert find_root(tmp_path) == tmp_path


def test_without_a_project_the_next_step_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no penstock.toml was found. Make one with `penstock"):
        find_root(tmp_path)


def test_a_folder_that_is_named_need_not_be_marked(tmp_path: Path) -> None:
    assert check_root(tmp_path) == tmp_path
    with pytest.raises(ConfigError, match="does not exist: name a folder"):
        check_root(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file: name a folder"):
        check_root(tmp_path / "file")


def test_what_is_broken_takes_no_part_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "good.md").write_text("---\nname: good\n---\nBe kind.\n")
    (tmp_path / "agents" / "bad.md").write_text("---\nname: [\n---\n")
    project = load_project(load(tmp_path))
    assert [agent.name for agent in project.agents] == ["good"]
    assert [(each.file, each.line, each.code) for each in project.diagnostics] == [
        ("agents/bad.md", 3, "yaml-syntax")
    ]


TOOL = """
from penstock import tool

@tool
def greet(name: str) -> str:
    'Greet somebody.'
    return name
"""


def test_python_tools_are_loaded_beside_broken_ones_unless_switched_off(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "good.py").write_text(TOOL)
    (tmp_path / "tools" / "bad.py").write_text("1 +")
    project = load_project(load(tmp_path))
    assert [tool.spec.tool_id for tool in project.tools] == ["greet"]
    assert [(each.file, each.code) for each in project.diagnostics] == [
        ("tools/bad.py", "python-import")
    ]
    off = load_project(load(tmp_path, tools={"python": False}))
    assert off.tools == ()
    assert [each.code for each in off.diagnostics] == ["python-off"]
