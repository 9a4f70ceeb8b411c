"""Finding manifests, reading files up to a limit, and the folder of a manifest."""

import os
from pathlib import Path

import pytest

from penstock.manifest.files import (
    MAX_MANIFESTS,
    ManifestFolder,
    UnreadReason,
    discover,
    read_bounded,
)
from tests.kit.manifests import write


def test_manifests_are_found_at_any_depth_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    """B01: "`**/*.tool.yaml` defines one tool". B02: "`**/*.skill.yaml` defines one skill"."""
    names = ["b.tool.yaml", "a/b/c/d.skill.yaml", "B.tool.yaml", "a.prompts.yaml", "a/ä.tool.yaml"]
    write(tmp_path, dict.fromkeys([*names, "tool.md", "x.yaml", "SKILL.md"], ""))
    manifests = discover(tmp_path)
    assert list(manifests.files) == [
        ("tool", "B.tool.yaml"),
        ("prompts", "a.prompts.yaml"),
        ("skill", "a/b/c/d.skill.yaml"),
        ("tool", "a/ä.tool.yaml"),
        ("tool", "b.tool.yaml"),
    ]
    assert not manifests.diagnostics


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
def test_a_name_that_nearly_matches_gets_a_warning(tmp_path: Path, name: str, better: str) -> None:
    """Suffixes are case-sensitive; other forms give the warning `near-miss-name`."""
    (finding,) = discover(write(tmp_path, {name: ""})).diagnostics
    message = f'"{name}" looks like a manifest but is not read; rename it to "{better}"'
    assert str(finding) == f"{name}:1:1: warning near-miss-name: {message}"


@pytest.mark.slow("two thousand files")
def test_at_most_two_thousand_manifests_are_read(tmp_path: Path) -> None:
    for number in range(MAX_MANIFESTS + 1):
        (tmp_path / f"{number:04}.tool.yaml").touch()
    manifests = discover(tmp_path)
    message = "the project has 2001 manifests; the limit is 2000"
    assert [str(each) for each in manifests.diagnostics] == [
        f"2000.tool.yaml:1:1: error bundle-too-large: {message}"
    ]
    assert len(manifests.files) == MAX_MANIFESTS


def test_a_file_name_that_is_not_utf8_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.tool.yml")).touch()
    (finding,) = discover(tmp_path).diagnostics
    assert finding.file == "a\\xff.tool.yml"


def test_a_file_within_the_limit_is_read_completely(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\x00ab")
    assert read_bounded(tmp_path / "a", 4) == b"\xff\x00ab"


def test_a_file_over_the_limit_is_refused_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    message = "the flow has 5 bytes; the limit is 4"
    assert read_bounded(tmp_path / "a", 4, "the flow") == UnreadReason(
        code="file-too-large", message=message
    )


@pytest.mark.parametrize("name", [".", "pipe", "gone", "x" * 300])
def test_reading_refuses_anything_but_a_regular_file_without_blocking(
    tmp_path: Path, name: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reason = read_bounded(tmp_path / name, 4)
    assert isinstance(reason, UnreadReason)
    assert (reason.code, reason.is_missing) == ("file-unreadable", name == "gone")


def test_a_folder_behind_a_symlink_contains_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.mts").touch()
    (tmp_path / "link").symlink_to("real")
    home = ManifestFolder(folder=tmp_path / "link", shown="link")
    assert home.real == os.path.realpath(tmp_path / "real")
    assert not home.leads_out("a.mts")
    assert home.has_file("a.mts")


def test_a_pipe_does_not_count_as_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mts")
    assert not ManifestFolder(folder=tmp_path, shown=".").has_file("a.mts")
