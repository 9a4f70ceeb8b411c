"""Roles of models that go round, or lead nowhere, are told before anybody waits for a model."""

from pathlib import Path

import pytest

from penstock.app.model_roles import check_roles
from penstock.app.project import check_project
from penstock.app.settings import load
from tests.kit.project import ProjectFolder

CIRCLE = """[models]
default = "offline"

[models.roles]
fast = "offline"
mine = "@yours:low"
"yours" = "@mine"
lost = "@codin"
"""
ITSELF = 'the model role "@yours" stands for itself under [models.roles]'
NO_ROLE = "there is no model role \"@codin\". Did you mean 'coding'?"


def test_a_role_that_stands_for_itself_or_for_nothing_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(CIRCLE)
    roles = {"fast": "offline", "mine": "@yours:low", "yours": "@mine", "lost": "@codin"}
    assert [(each.line, each.message, each.suggestion) for each in check_roles(roles, file)] == [
        (6, ITSELF, 'write a model in the place of "@yours:low"'),
        (7, ITSELF, 'write a model in the place of "@mine"'),
        (8, NO_ROLE, 'write a model in the place of "@codin"'),
    ]


@pytest.mark.parametrize("meaning", ["@coding", "offline", "openai/gpt-x:high"])
def test_a_role_may_stand_for_another_and_for_any_model(tmp_path: Path, meaning: str) -> None:
    assert list(check_roles({"mine": meaning}, tmp_path / "none.toml")) == []


def test_check_tells_them(project: ProjectFolder) -> None:
    (project.root / "penstock.toml").write_text(CIRCLE)
    found = check_project(load(project.root)).diagnostics
    assert [each.line for each in found if each.code == "model-role"] == [6, 7, 8]
