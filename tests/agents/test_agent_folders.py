"""Agents of folders: which are read, which of two takes precedence, and the findings."""

import os
from pathlib import Path

import pytest

from penstock.agents.agent_file import NOTHING_KNOWN, KnownNames, parse_agent
from penstock.agents.agent_folders import (
    BUILT_IN,
    HANDBOOKS,
    MAX_BYTES,
    MAX_FILES,
    WHERE,
    WrittenAgent,
    load_agents,
    write_agent,
)
from penstock.agents.agent_profile import Tier
from penstock.flows.parsing import read_flow
from penstock.manifest.handbook import find_handbooks
from penstock.resources.project.files import ProjectFiles


def write(root: Path, files: dict[str, str]) -> Path:
    """Write agents by path; each text is a description."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: same\ndescription: {text}\ntools:\n---\n")
    return root


def told(root: Path, *packages: Path) -> list[str]:
    return [str(each) for each in load_agents(root, packages=packages).diagnostics]


def test_a_project_without_agents_has_our_own(tmp_path: Path) -> None:
    found = load_agents(tmp_path)
    assert (found.agents, found.packaged) == ([], [])
    assert [each.name for each in found.built_in] == ["flow-architect", "flow-decision"]


def test_our_own_agents_give_no_finding() -> None:
    """They refer to nothing that a project could lack, so they are parsed once per process."""
    handbooks = find_handbooks([HANDBOOKS]).names
    known = KnownNames(tools=(), skills=(), handbooks=handbooks, roles=())
    parsed = [parse_agent(each.read_text(), "", known) for each in BUILT_IN.glob("*.md")]
    assert [(each.findings, each.agent is None) for each in parsed] == [([], False)] * 2


def test_the_built_in_agents_match_the_page(tmp_path: Path) -> None:
    architect, decision = load_agents(tmp_path).built_in
    assert (architect.model, architect.profile.thinking) == ("@planning", "high")
    assert ", ".join(architect.profile.tools) == (
        "agent_catalog, agent_write, flow_write, read, grep, find, ls"
    )
    assert architect.profile.handbooks == ("flow-authoring",)
    assert [each.name for each in architect.profile.outputs] == ["flow_path", "command"]
    assert (decision.model, decision.profile.tools) == ("@fast", ())
    assert {architect.profile.tier, decision.profile.tier} == {Tier.BUILT_IN}


def test_the_handbook_for_authors_can_be_read_topic_by_topic() -> None:
    books = find_handbooks([HANDBOOKS])
    book = books.get("flow-authoring")
    assert book is not None
    assert book.files == ["agents.md", "steps.md", "templates.md", "patterns.md"]
    assert all(books.read(book.name, each).startswith("# ") for each in book.files)


@pytest.mark.parametrize("topic", ["steps.md", "patterns.md"])
def test_flows_of_the_handbook_are_read_without_a_finding(topic: str) -> None:
    text = find_handbooks([HANDBOOKS]).read("flow-authoring", topic)
    examples = [each.split("```")[0] for each in text.split("```yaml\n")[1:]]
    assert examples
    for example in examples:
        top = "" if example.startswith("name:") else "name: x\ndescription: d\n"
        assert read_flow(top + example, topic).findings == []


def test_the_first_of_two_local_agents_of_one_name_counts(tmp_path: Path) -> None:
    """D4: within local `agents/` before `.pi/flows/…`, then by path."""
    files = {"agents/a.md": "first", "agents/b.md": "second", ".pi/flows/agents/a.md": "pi"}
    root = write(tmp_path, {**files, "agents/c.chain.md": "left out", "agents/x/d.md": "deeper"})
    found = load_agents(root)
    assert [agent.description for agent in found.agents] == ["first"]
    assert told(root) == [
        'agents/a.md:2:1: warning hidden: agent "same" hides the one in .pi/flows/agents/a.md',
        ('agents/b.md:2:1: error duplicate-agent: agent "same" is already defined in agents/a.md'),
    ]


def test_packages_come_in_the_order_of_their_registration(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(tmp_path, {"one/a.md": "one", "two/a.md": "two", "two/b.md": "again"})
    found = load_agents(tmp_path, packages=[two, one])
    assert [agent.description for agent in found.packaged] == ["two"]
    assert found.packaged[0].profile.tier is Tier.PACKAGE
    assert [each.code for each in found.diagnostics] == ["hidden", "duplicate-agent"]


def test_across_tiers_hiding_is_silent(tmp_path: Path) -> None:
    """Across tiers hiding is deliberate and silent."""
    root = write(tmp_path, {"agents/a.md": "local", "package/a.md": "package"})
    (root / "agents/flow-decision.md").write_text(
        "---\nname: flow-decision\ndescription: mine\ntools:\n---\n"
    )
    assert told(root, root / "package") == []


def test_a_broken_file_leaves_the_others_untouched(tmp_path: Path) -> None:
    root = write(tmp_path, {"agents/good.md": "d"})
    (root / "agents/bad.md").write_text("no fence")
    (root / "agents/binary.md").write_bytes(b"\xff\xfe")
    (root / "agents/huge.md").write_text("x" * (MAX_BYTES + 1))
    (root / "agents/folder.md").mkdir()
    (root / "agents/gone.md").symlink_to(root / "nowhere")
    found = load_agents(root)
    assert [agent.name for agent in found.agents] == ["same"]
    assert [(each.file, each.code) for each in found.diagnostics] == [
        ("agents/bad.md", "no-front-matter"),
        ("agents/binary.md", "file-encoding"),
        ("agents/folder.md", "file-unreadable"),
        ("agents/gone.md", "file-unreadable"),
        ("agents/huge.md", "file-too-large"),
    ]


def test_no_agent_leads_out_of_its_project(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"agents/a.md": "secret"}) / "agents"
    root = write(tmp_path / "project", {"agents/good.md": "d"})
    (root / "agents/leak.md").symlink_to(outside / "a.md")
    (root / "agents/twin.md").symlink_to("good.md")
    (root / ".pi/flows").mkdir(parents=True)
    (root / ".pi/flows/agents").symlink_to(outside)
    found = load_agents(root)
    assert [agent.description for agent in found.agents] == ["d"]
    assert [str(each) for each in found.diagnostics if each.code != "duplicate-agent"] == [
        f'{file}:1:1: error path-escape: "{file}" leads out of the project through a symlink; '
        "put a copy in its place"
        for file in (".pi/flows/agents", "agents/leak.md")
    ]


def test_a_project_and_a_package_may_be_reached_through_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write(tmp_path / "project", {"agents/a.md": "own"}))
    package = write(tmp_path / "package", {"../a.md": "its"})
    (package / "b.md").symlink_to("../a.md")
    found = load_agents(tmp_path / "link", packages=[package])
    assert [each.description for each in (*found.agents, *found.packaged)] == ["own", "its"]
    assert found.diagnostics == []


def test_a_broken_agent_is_known_by_its_name_unless_a_valid_one_has_it(tmp_path: Path) -> None:
    """D6: its agent is unknown; `fix {file} first`."""
    root = write(tmp_path, {"agents/good.md": "d"})
    for file, name in (("a", "broken"), ("b", "same"), ("c", "not a name")):
        (root / f"agents/{file}.md").write_text(f"---\nname: {name}\nmax_turns: 0\n---\n")
    assert load_agents(root).broken == {"broken": "agents/a.md"}


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    os.mkfifo(tmp_path / "agents/pipe.md")
    assert [each.code for each in load_agents(tmp_path).diagnostics] == ["file-unreadable"]


@pytest.mark.slow("two thousand files")
def test_too_many_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for number in range(MAX_FILES + 1):
        (tmp_path / "agents" / f"{number}.md").touch()
    codes = {each.code for each in load_agents(tmp_path).diagnostics}
    assert codes == {"no-front-matter", "too-many-files"}


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


def test_a_warning_is_reported_and_the_file_is_written(tmp_path: Path) -> None:
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
    ("first", "then", "expected"),
    [
        ("agents", ".pi/flows/agents", "is hidden by the one in agents/scout.md"),
        (".pi/flows/agents", "agents", "hides the one in .pi/flows/agents/scout.md"),
    ],
)
def test_an_agent_that_hides_another_or_is_hidden_is_reported(
    tmp_path: Path, first: str, then: str, expected: str
) -> None:
    """D4: "Within local: `agents/`, `flows/` before `.pi/flows/…`; the loser gives `hidden`"."""
    written(tmp_path, f"{first}/scout.md")
    found = written(tmp_path, f"{then}/scout.md")
    (warning,) = found.diagnostics
    assert (warning.code, warning.message) == ("hidden", f'agent "scout" {expected}')
    assert found.is_written
    advice = "write agents/scout.md instead, or choose another name"
    assert warning.suggestion == (advice if expected.startswith("is hidden") else None)


def test_an_agent_with_errors_does_not_affect_others(tmp_path: Path) -> None:
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
def test_a_path_that_leads_elsewhere_is_not_written(tmp_path: Path, path: str, error: str) -> None:
    root = tmp_path / "project"
    for folder in (root / "docs", tmp_path / "other"):
        folder.mkdir(parents=True)
    (root / "out").symlink_to(tmp_path / "other")
    (root / "inside").symlink_to(root / "docs")
    found = written(root, path)
    assert (found.is_written, found.path, found.error) == (False, path, error)
    assert files_of(tmp_path) == []


def test_an_error_of_the_file_system_is_reported(tmp_path: Path) -> None:
    """T34: "filesystem error if write failed": a directory in the way."""
    (tmp_path / "agents/scout.md").mkdir(parents=True)
    found = written(tmp_path, "scout")
    assert (found.is_written, found.path) == (False, "agents/scout.md")
    assert found.error == "'agents/scout.md' is a directory, or no plain file"


def test_a_text_that_no_file_could_hold_is_refused(tmp_path: Path) -> None:
    assert "not Unicode text" in written(tmp_path, "scout", GOOD + "\ud800").error
    assert "at most 1048576 bytes" in written(tmp_path, "scout", GOOD + "x" * (1 << 20)).error
    assert files_of(tmp_path) == []
