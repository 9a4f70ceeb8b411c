"""Agents from files."""

from pathlib import Path

import pytest

from penstock.agents.file import MOST_BYTES, MOST_FILES, load_agents, parse_agent
from penstock.agents.settings import ChatSettings

FULL = """---
name: scout
description: Finds topics.
model: fast
tools: [look_up, "read"]
max_turns: 3
card: { label: Scout }
x-note: mine
---

Find topics.
"""


def test_the_body_of_an_agent_file_is_its_instructions() -> None:
    agent, findings = parse_agent(FULL, "agents/scout.md")
    assert not findings
    assert agent is not None
    assert (agent.name, agent.description, agent.model) == ("scout", "Finds topics.", "fast")
    assert agent.instructions == "Find topics."
    assert agent.settings == ChatSettings(enabled_tools=("look_up", "read"), max_iterations=3)
    assert agent.source == "file"


def test_an_agent_that_lists_no_tools_has_the_projects() -> None:
    agent, _ = parse_agent("---\nname: a\n---\n", "a.md")
    assert agent is not None
    assert agent.settings == ChatSettings()


def test_tools_may_be_one_text_parted_by_commas() -> None:
    agent, _ = parse_agent("---\nname: a\ntools: b, c\n---\n", "a.md")
    assert agent is not None
    assert agent.settings.enabled_tools == ("b", "c")


WRONG = [
    (
        "description: d",
        (
            '1:1: error missing-field: missing required field "name"; '
            'add "name:" at the top of the file'
        ),
    ),
    ("name: a b", '2:7: error bad-value: "name" must be an agent name, found string "a b"'),
    ("name: a\nmodel: 5", '3:8: error wrong-type: "model" must be a model name, found number 5'),
    (
        "name: a\ntools: { b: c }",
        "3:8: error wrong-type: \"tools\" must be a list of tool names, found object {'b': 'c'}",
    ),
    (
        "name: a\nmax_turns: true",
        (
            '3:12: error bad-value: "max_turns" must be a whole number from 1 to 1000, '
            "found boolean True"
        ),
    ),
]


@pytest.mark.parametrize(("head", "said"), WRONG)
def test_a_wrong_field_is_named_at_its_line(head: str, said: str) -> None:
    agent, findings = parse_agent(f"---\n{head}\n---\n", "a.md")
    assert agent is None
    assert [str(each) for each in findings] == [f"a.md:{said}"]


def test_an_unknown_field_is_a_warning_and_the_agent_works() -> None:
    agent, findings = parse_agent("---\nname: a\ntols: []\n---\n", "a.md")
    assert agent is not None
    assert [str(each) for each in findings] == [
        (
            'a.md:3:1: warning unknown-field: unknown field "tols" in the agent; '
            'did you mean "tools"?'
        )
    ]


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_broken_file_leaves_the_others_untouched(tmp_path: Path) -> None:
    write(tmp_path, agents__bad="no fence", agents__good="---\nname: good\n---\n")
    (tmp_path / "agents" / "binary.md").write_bytes(b"\xff\xfe")
    (tmp_path / "agents" / "huge.md").write_text("x" * (MOST_BYTES + 1))
    (tmp_path / "agents" / "folder.md").mkdir()
    found = load_agents(tmp_path)
    assert [agent.name for agent in found.agents] == ["good"]
    assert [(each.file, each.code) for each in found.diagnostics] == [
        ("agents/bad.md", "no-front-matter"),
        ("agents/binary.md", "file-encoding"),
        ("agents/folder.md", "file-unreadable"),
        ("agents/huge.md", "file-too-large"),
    ]


def test_the_first_of_two_agents_of_one_name_counts(tmp_path: Path) -> None:
    text = "---\nname: same\ndescription: {}\n---\n"
    (tmp_path / ".pi" / "flows" / "agents").mkdir(parents=True)
    (tmp_path / ".pi" / "flows" / "agents" / "a.md").write_text(text.format("pi"))
    write(tmp_path, agents__a=text.format("first"), agents__b=text.format("second"))
    write(tmp_path, **{"agents__c.chain": text.format("left out")})
    found = load_agents(tmp_path)
    assert [agent.description for agent in found.agents] == ["first"]
    assert [(each.file, each.code) for each in found.diagnostics] == [
        (".pi/flows/agents/a.md", "hidden"),
        ("agents/b.md", "duplicate-agent"),
    ]


@pytest.mark.slow("two thousand files")
def test_too_many_files_are_said(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    for number in range(MOST_FILES + 1):
        (tmp_path / "agents" / f"{number}.md").touch()
    codes = {each.code for each in load_agents(tmp_path).diagnostics}
    assert codes == {"no-front-matter", "too-many-files"}


def test_a_project_without_agents_is_fine(tmp_path: Path) -> None:
    assert load_agents(tmp_path).agents == []


def test_an_agent_file_may_preselect_skills_and_have_labels() -> None:
    text = "---\nname: a\nselected_skills: [research, zip]\nlabels: web, fast\n---\nHi"
    found, findings = parse_agent(text, "a.md")
    assert not findings
    assert found
    assert found.settings.selected_skills == ("research", "zip")
    assert found.settings.labels == ("web", "fast")


def test_a_list_of_skills_is_a_list_of_texts() -> None:
    _, findings = parse_agent("---\nname: a\nselected_skills: [1]\n---\nHi", "a.md")
    (finding,) = findings
    assert finding.message.startswith('"selected_skills" must be a list of skill ids, found array')


UNKNOWN = (
    'unknown-skill-ref: "resaerch" in "selected_skills" is not a skill of this bundle or a '
    'built-in; did you mean "research"?'
)


@pytest.mark.parametrize(
    ("written", "place"), [("[zip, resaerch]", "3:24"), ("zip, resaerch", "3:18")]
)
def test_a_skill_that_is_selected_in_vain_is_named_with_the_nearest(
    written: str, place: str
) -> None:
    text = f"---\nname: a\nselected_skills: {written}\n---\nHi"
    agent, findings = parse_agent(text, "a.md", {"research", "zip"})
    assert agent is None
    assert [str(each) for each in findings] == [f"a.md:{place}: error {UNKNOWN}"]


def test_without_the_skills_of_a_project_nobody_looks_for_them(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/a.md").write_text("---\nname: a\nselected_skills: [none]\n---\n")
    assert load_agents(tmp_path).agents
    assert not load_agents(tmp_path, ()).agents
