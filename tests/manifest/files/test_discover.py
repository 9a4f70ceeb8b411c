"""Which files are manifests."""

import os
from pathlib import Path

import pytest

from penstock.manifest.files.discover import MOST_MANIFESTS, discover
from tests.kit.manifests import write


def test_manifests_are_found_at_any_depth_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    """B01: "`**/*.tool.yaml` defines one tool". B02: "`**/*.skill.yaml` defines one skill"."""
    names = ["b.tool.yaml", "a/b/c/d.skill.yaml", "B.tool.yaml", "a.prompts.yaml", "a/ä.tool.yaml"]
    write(tmp_path, dict.fromkeys([*names, "tool.md", "x.yaml", "SKILL.md"], ""))
    found = discover(tmp_path)
    assert list(found.files) == [
        ("tool", "B.tool.yaml"),
        ("prompts", "a.prompts.yaml"),
        ("skill", "a/b/c/d.skill.yaml"),
        ("tool", "a/ä.tool.yaml"),
        ("tool", "b.tool.yaml"),
    ]
    assert not found.diagnostics


@pytest.mark.parametrize(
    "name",
    [".git/a.tool.yaml", "node_modules/a.tool.yaml", "x/__pycache__/a.tool.yaml", ".a.tool.yaml"],
)
def test_hidden_and_foreign_folders_are_not_searched(tmp_path: Path, name: str) -> None:
    assert discover(write(tmp_path, {name: ""})).files == []


def test_symlinked_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"a/a.tool.yaml": ""})
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert discover(tmp_path).files == [("tool", "a/a.tool.yaml")]


NEAR = [
    ("a.tool.yml", "a.tool.yaml"),
    ("x/b.skill.yml", "b.skill.yaml"),
    ("x/tool.yaml", "x.tool.yaml"),
    ("skill.yaml", "my.skill.yaml"),
    ("a.Tool.YAML", "a.tool.yaml"),
    ("a.SKILL.yaml", "a.skill.yaml"),
]


@pytest.mark.parametrize(("name", "better"), NEAR)
def test_a_name_that_nearly_is_one_is_said(tmp_path: Path, name: str, better: str) -> None:
    """Suffixes are case-sensitive; other forms give the warning `near-miss-name`."""
    (found,) = discover(write(tmp_path, {name: ""})).diagnostics
    said = f'"{name}" looks like a manifest but is not read; rename it to "{better}"'
    assert str(found) == f"{name}:1:1: warning near-miss-name: {said}"


def test_a_schedule_is_not_read_yet(tmp_path: Path) -> None:
    (found,) = discover(write(tmp_path, {"a.schedule.yaml": ""})).diagnostics
    said = '"a.schedule.yaml" is not read in this version'
    assert str(found) == f"a.schedule.yaml:1:1: warning not-read-yet: {said}"


@pytest.mark.slow("two thousand files")
def test_a_project_has_at_most_two_thousand(tmp_path: Path) -> None:
    for number in range(MOST_MANIFESTS + 1):
        (tmp_path / f"{number:04}.tool.yaml").touch()
    found = discover(tmp_path)
    said = "the project has 2001 manifests; the limit is 2000"
    assert [str(each) for each in found.diagnostics] == [
        f"2000.tool.yaml:1:1: error bundle-too-large: {said}"
    ]
    assert len(found.files) == MOST_MANIFESTS


def test_a_name_that_is_no_text_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.tool.yml")).touch()
    (found,) = discover(tmp_path).diagnostics
    assert found.file == "a\\xff.tool.yml"
