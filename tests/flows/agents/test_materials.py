"""Handbooks and files for agents."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core.call_errors import CallError
from penstock.flows.agents.materials import Materials
from penstock.manifest.handbook import FILE_BYTES, find_handbooks
from penstock.resources.project.access import Access
from penstock.tools.resources import NO_PROJECT, ProjectFolder
from tests.kit.flows import worker

INDEX = "---\nname: docs\nfiles: [a.md]\n---\nThe index.\n"


@pytest.fixture
def materials(tmp_path: Path) -> Materials:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/a.txt").write_text("alpha ${{task}}")
    (root / "b.txt").write_text("beta")
    (root / ".env").write_text("KEY=1")
    (root / "data.db").write_text("rows")
    (root / "big.txt").write_bytes(b"x" * (FILE_BYTES + 1))
    (root / "bin.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "out.txt").write_text("outside")
    (root / "link.txt").symlink_to(tmp_path / "out.txt")
    (root / "docs").mkdir()
    (root / "docs/SKILL.md").write_text(INDEX)
    folder = ProjectFolder(root=root, private=("data.db",))
    return Materials(handbooks=find_handbooks([root]), folder=folder)


def filled(materials: Materials, value: str, **agent_profile: Any) -> str:
    return materials.filled({"notes": value}, worker("g", **agent_profile))["notes"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("file://src/a.txt", "alpha ${{task}}"),
        ("file://src/a.txt (created)", "alpha ${{task}}"),
        ("file://src/a.txt (read)\n", "alpha ${{task}}"),
        ("file://src/../b.txt", "beta"),
        ("see file://b.txt", "see file://b.txt"),
        ("b.txt", "b.txt"),
        ("", ""),
    ],
)
def test_an_input_that_names_a_file_is_its_text(
    materials: Materials, value: str, text: str
) -> None:
    """V13: "replaced by the file's text, which is not expanded"."""
    assert filled(materials, value) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("file://", "is a directory"),
        ("file://src", "is a directory"),
        ("file://none.txt", "there is no 'none.txt' in the project"),
        ("file://b.txt (created), src/a.txt (read)", "there is no 'b.txt (created), src/a.txt'"),
        ("file://../out.txt", '"../out.txt" is outside the project.'),
        ("file://link.txt", '"link.txt" is outside the project.'),
        ("file:///etc/hosts", '"/etc/hosts" is outside the project.'),
        ("file://.env", '".env" is protected.'),
        ("file://data.db", '"data.db" is protected.'),
        ("file://big.txt", "has more than 262144 bytes"),
        ("file://bin.txt", "is not UTF-8 text"),
        ("file://a\0b", "is no path of a file"),
    ],
)
def test_an_unreadable_file_is_reported(materials: Materials, value: str, said: str) -> None:
    """V13: "the agent's `access.read` and §12.2 apply; missing or over 256 KiB"."""
    with pytest.raises(CallError) as caught:
        filled(materials, value)
    assert said in str(caught.value)


def test_an_agent_reads_only_what_its_access_allows(materials: Materials) -> None:
    access = Access(agent="g", read=("src/**",))
    assert filled(materials, "file://src/a.txt", access=access).startswith("alpha")
    with pytest.raises(CallError, match=r'is not readable for agent "g"\. access\.read: src'):
        filled(materials, "file://b.txt", access=access)


def test_missing_files_and_handbooks_are_left_out(materials: Materials) -> None:
    """3: "a missing or unreadable one is left out with a `flow_warning`"."""
    agent = worker("g", context_files=("b.txt", "none.txt", ".env"), handbooks=("docs", "dox"))
    given = materials.given_to(agent)
    assert given.context == {"b.txt": "beta"}
    assert given.handbooks == {"docs": INDEX}
    assert given.missing == (
        "the context file 'none.txt' is left out: there is no 'none.txt' in the project",
        "the context file '.env' is left out: \".env\" is protected.",
        "the handbook 'dox' is left out: there is none of this name",
    )


def test_without_a_project_no_file_is_read() -> None:
    given = Materials().given_to(worker("g", context_files=("b.txt",)))
    assert given.missing == ("the context file 'b.txt' is left out: " + NO_PROJECT,)
