"""A project: the folder with the files of its authors."""

from pathlib import Path

import pytest

from penstock.app.project import check_project, check_roles, check_root, find_root, load_project
from penstock.app.settings import load
from penstock.core.diagnostics import Diagnostic
from penstock.core.errors import ConfigError
from tests.kit.project import ProjectFolder


@pytest.mark.parametrize("mark", ["penstock.toml", ".penstock"])
def test_a_project_is_found_from_a_subfolder(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_root(below) == tmp_path
    assert find_root(tmp_path) == tmp_path


def test_a_missing_project_error_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no penstock.toml was found. Make one with `penstock"):
        find_root(tmp_path)


def test_a_named_folder_needs_no_mark(tmp_path: Path) -> None:
    assert check_root(tmp_path) == tmp_path
    with pytest.raises(ConfigError, match="does not exist: name a folder"):
        check_root(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file: name a folder"):
        check_root(tmp_path / "file")


def test_a_broken_file_is_left_out_and_reported(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "good.md").write_text(
        "---\nname: good\ndescription: d\ntools:\n---\nBe kind."
    )
    (tmp_path / "agents" / "bad.md").write_text("name: bad")
    project = load_project(load(tmp_path))
    assert [agent.name for agent in project.agents] == ["good"]
    assert [(each.file, each.line, each.code) for each in project.diagnostics] == [
        ("agents/bad.md", 1, "no-front-matter")
    ]


TOOL = """
from penstock import tool

@tool
def greet(name: str) -> str:
    'Greet somebody.'
    return name
"""


def test_working_python_tools_are_loaded_unless_switched_off(tmp_path: Path) -> None:
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


MANIFEST = """
name: {}
description: Does it.
input_schema: {{type: object}}
execution: {{type: script, script: "export function run() {{}}"}}
"""


def test_manifests_can_refer_to_other_tools_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "good.py").write_text(TOOL)
    more = "direct_call: true\nscript_tools: [greet, ask_user]\n"
    (tmp_path / "a.tool.yaml").write_text(MANIFEST.format("a") + more)
    project = load_project(load(tmp_path))
    assert list(project.bundle.tools) == ["a"]
    assert project.diagnostics == ()


def test_a_manifest_and_a_python_tool_with_one_id_are_both_left_out(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "good.py").write_text(TOOL)
    (tmp_path / "a.tool.yaml").write_text(MANIFEST.format("greet"))
    project = load_project(load(tmp_path))
    assert project.bundle.tools == {}
    assert [(each.spec.tool_id, each.spec.kind) for each in project.tools] == [("greet", "script")]
    assert "broken" in project.tools[0].spec.description
    assert [(each.file, each.line, each.code) for each in project.diagnostics] == [
        ("a.tool.yaml", 2, "duplicate-tool"),
        ("tools/good.py", 5, "duplicate-tool"),
    ]


def test_a_check_sorts_counts_and_runs_further_checks(tmp_path: Path) -> None:
    (tmp_path / "b.tool.yaml").write_text(MANIFEST.format("b") + "trusted_source: true\n")
    (tmp_path / "c.skill.yaml").write_text("[")
    findings = Diagnostic(code="import-bare", message="no", file="b.mts", line=2)
    checked = check_project(load(tmp_path), lambda project: [findings] * len(project.bundle.tools))
    assert [each.code for each in checked.diagnostics] == [
        "import-bare",
        "reserved-key",
        "yaml-syntax",
    ]
    assert (checked.tools, checked.skills, checked.errors, checked.warnings) == (1, 1, 2, 1)


CIRCLE = """[models]
default = "offline"

[models.roles]
fast = "offline"
mine = "@yours:low"
"yours" = "@mine"
lost = "@codin"
"""
ITSELF = 'the model role "@yours" refers to itself under [models.roles]'
NO_ROLE = "there is no model role \"@codin\". Did you mean 'coding'?"


def test_a_role_without_a_model_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(CIRCLE)
    roles = {"fast": "offline", "mine": "@yours:low", "yours": "@mine", "lost": "@codin"}
    assert [(each.line, each.message, each.suggestion) for each in check_roles(roles, file)] == [
        (6, ITSELF, 'write a model in the place of "@yours:low"'),
        (7, ITSELF, 'write a model in the place of "@mine"'),
        (8, NO_ROLE, 'write a model in the place of "@codin"'),
    ]


@pytest.mark.parametrize("meaning", ["@coding", "offline", "openai/gpt-x:high"])
def test_a_role_can_name_another_role_or_any_model(tmp_path: Path, meaning: str) -> None:
    assert list(check_roles({"mine": meaning}, tmp_path / "none.toml")) == []


def test_check_reports_roles_without_a_model(project: ProjectFolder) -> None:
    (project.root / "penstock.toml").write_text(CIRCLE)
    findings = check_project(load(project.root)).diagnostics
    assert [each.line for each in findings if each.code == "model-role"] == [6, 7, 8]
