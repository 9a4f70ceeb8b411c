"""Agent files that are written while a project is open."""

from pathlib import Path

import pytest

from penstock.agents.authoring import WHERE, WrittenAgent, write_agent
from penstock.agents.file import NOTHING_KNOWN
from penstock.resources.project.files import ProjectFiles

GOOD = "---\nname: scout\ndescription: Looks.\ntools:\n---\nLook.\r\n"
ODD = "---\nname: scout\ntools:\n---\nLook."
BROKEN = "---\nname: a b\ndescription: d\ntools:\n---\n"


def written(root: Path, path: str, content: str = GOOD) -> WrittenAgent:
    return write_agent(ProjectFiles(root), path, content, NOTHING_KNOWN)


def files_of(root: Path) -> list[str]:
    return sorted(each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file())


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("scout", "agents/scout.md"),
        ("scout.md", "agents/scout.md"),
        ("agents/scout.md", "agents/scout.md"),
        ("./agents/../agents/scout.md", "agents/scout.md"),
        (".pi/flows/agents/scout.md", ".pi/flows/agents/scout.md"),
        ("{root}/agents/scout.md", "agents/scout.md"),
    ],
)
def test_a_good_text_is_written_whole_where_it_belongs(
    tmp_path: Path, path: str, place: str
) -> None:
    """T34: "Absolute or relative path for the .md file"."""
    found = written(tmp_path, path.format(root=tmp_path))
    assert found == WrittenAgent(path=place, is_written=True, diagnostics=[])
    assert (tmp_path / place).read_bytes() == GOOD.encode()
    assert files_of(tmp_path) == [place]


def test_one_that_is_there_is_replaced(tmp_path: Path) -> None:
    written(tmp_path, "scout")
    assert written(tmp_path, "scout", ODD).is_written
    assert (tmp_path / "agents/scout.md").read_text() == ODD


def test_a_warning_is_told_and_stops_nothing(tmp_path: Path) -> None:
    found = written(tmp_path, "scout", ODD)
    assert (found.is_written, len(found.diagnostics), found.error) == (True, 1, "")


def test_no_two_files_of_one_folder_have_an_agent_of_one_name(tmp_path: Path) -> None:
    """D4: "two agents of one name in one directory: `duplicate-agent`"; and nothing is written."""
    written(tmp_path, "scout")
    found = written(tmp_path, "other")
    assert [each.to_finding() for each in found.diagnostics] == [
        {
            "line": 2,
            "severity": "error",
            "message": 'agent "scout" is already defined in agents/scout.md',
            "suggestion": "write agents/scout.md instead, or choose another name",
        }
    ]
    assert not found.is_written
    assert files_of(tmp_path) == ["agents/scout.md"]


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("agents", ".pi/flows/agents", "is hidden by the one in agents/scout.md"),
        (".pi/flows/agents", "agents", "hides the one in .pi/flows/agents/scout.md"),
    ],
)
def test_an_agent_that_hides_another_or_is_hidden_says_so(
    tmp_path: Path, first: str, then: str, said: str
) -> None:
    """D4: "Within local: `agents/`, `flows/` before `.pi/flows/…`; the loser gives `hidden`"."""
    written(tmp_path, f"{first}/scout.md")
    found = written(tmp_path, f"{then}/scout.md")
    (warning,) = found.diagnostics
    assert (warning.code, warning.message) == ("hidden", f'agent "scout" {said}')
    assert found.is_written
    advice = "write agents/scout.md instead, or choose another name"
    assert warning.suggestion == (advice if said.startswith("is hidden") else None)


def test_one_with_errors_stands_in_nobodys_way(tmp_path: Path) -> None:
    """D6: "A file with error diagnostics is listed as not valid and takes no part"."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/old.md").write_text(GOOD.replace("tools:", "outputs: [status]\ntools:"))
    assert written(tmp_path, "scout").diagnostics == []


@pytest.mark.parametrize("content", [BROKEN, "", "no front matter", "---\n- a\n---\n"])
def test_a_text_with_an_error_is_not_written(tmp_path: Path, content: str) -> None:
    """T32: "Validates the content first; if validation passes, writes the file"."""
    found = written(tmp_path, "scout", content)
    assert not found.is_written
    assert found.diagnostics
    assert files_of(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../agents/x.md", "path is outside the project: ../agents/x.md"),
        ("/etc/x.md", "path is outside the project: /etc/x.md"),
        ("out/x.md", "path is outside the project: out/x.md"),
        (".penstock/x.md", "path is outside the project: .penstock/x.md"),
        ("agents/a\0b.md", "path is outside the project: agents/a\0b.md"),
        ("docs/x.md", WHERE),
        ("agents/x.txt", WHERE),
        ("x.txt", WHERE),
        ("agents/x", WHERE),
        ("agents/sub/x.md", WHERE),
        ("agents/.md/", WHERE),
        ("agents/x.chain.md", WHERE),
        ("inside/x.md", WHERE),
    ],
)
def test_what_leads_elsewhere_is_not_written(tmp_path: Path, path: str, error: str) -> None:
    root = tmp_path / "project"
    for folder in (root / "docs", tmp_path / "other"):
        folder.mkdir(parents=True)
    (root / "out").symlink_to(tmp_path / "other")
    (root / "inside").symlink_to(root / "docs")
    found = written(root, path)
    assert (found.is_written, found.path, found.error) == (False, path, error)
    assert files_of(tmp_path) == []


def test_what_the_system_refuses_is_said(tmp_path: Path) -> None:
    """T34: "filesystem error if write failed": a directory in the way."""
    (tmp_path / "agents/scout.md").mkdir(parents=True)
    found = written(tmp_path, "scout")
    assert (found.is_written, found.path) == (False, "agents/scout.md")
    assert found.error == "'agents/scout.md' is a directory, or no plain file"


def test_a_text_that_no_file_could_hold_is_refused(tmp_path: Path) -> None:
    assert "no Unicode text" in written(tmp_path, "scout", GOOD + "\ud800").error
    assert "at most 1048576 bytes" in written(tmp_path, "scout", GOOD + "x" * (1 << 20)).error
    assert files_of(tmp_path) == []
