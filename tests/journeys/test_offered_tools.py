"""The tools that a chat is offered in a new project, and in one with everything."""

from pathlib import Path
from typing import Any

import pytest

from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.cli.authoring.init import init
from penstock.models.model import ToolDefinition, tool_tokens
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder

OURS = 1_200
"""Tokens of built-in tools that a chat is sent at most, unless a project asks for more."""
SKILL = "skill_id: trips\nname: Trips\ndescription: d\ninstruction: i\nversion: 1.0.0\n"
FLOW = "name: trip\ndescription: d\nsteps:\n  - {id: a, agent: clerk, task: t}\n"


async def sent(folder: ProjectFolder, **settings: Any) -> list[tuple[ToolDefinition, ...]]:
    """Return the tools of each request of a chat with three messages."""
    model = ScriptedModel([call("hello", name="Ann"), say("1"), say("2"), say("3")])
    opening = {"models": {"default": "scripted"}} | settings
    async with folder.opened(models=[model], settings=opening) as runtime:
        first = await runtime.chat("Go")
        for _ in range(2):
            await runtime.chat("More", session=first.session)
    return [tuple(each.tools) for each in model.requests]


@pytest.fixture
def fresh(project: ProjectFolder, capsys: pytest.CaptureFixture[str]) -> ProjectFolder:
    """Make a project as `penstock init` does."""
    init(project.root, force=True)
    return project


def write_everything(folder: ProjectFolder) -> None:
    """Give a project a skill, a handbook, another agent and a flow."""
    folder.write("skills/trips/trips.skill.yaml", SKILL)
    folder.write("handbooks/manual/SKILL.md", "---\nname: manual\nfiles: [a.md]\n---\n.")
    folder.write("handbooks/manual/a.md", "Read it.")
    folder.write("agents/clerk.md", "---\nname: clerk\ndescription: d\ntools:\n---\nWork.\n")
    folder.write("flows/trip.yaml", FLOW)


async def test_a_new_project_offers_its_own_tool_and_two_built_in_ones(
    fresh: ProjectFolder,
) -> None:
    requests = await sent(fresh)
    names = [each.name for each in requests[0]]
    assert names == ["ask_user", "read_tool_result_artifact", "hello"]
    assert sum(map(tool_tokens, requests[0])) <= OURS // 2


async def test_built_in_definitions_take_at_most_1200_tokens(
    fresh: ProjectFolder,
) -> None:
    """`chat.md` §13: the core has at most 1,200 tokens in all."""
    write_everything(fresh)
    ours = [each for each in (await sent(fresh))[0] if each.is_builtin]
    assert [each.name for each in ours] == [
        "ask_user",
        "read_tool_result_artifact",
        "list_available_skills",
        "activate_skill",
        "read_skill_resource",
        "skill_read",
        "subagent",
        "execute_workflow",
    ]
    assert sum(map(tool_tokens, ours)) <= OURS


async def test_the_offered_tools_stay_the_same_over_a_conversation(
    fresh: ProjectFolder,
) -> None:
    """Another list would cost the provider's cache of the prompt."""
    write_everything(fresh)
    requests = await sent(fresh, tools={"builtin": ["sheets"]})
    assert len(requests) == 4
    assert len(set(map(str, requests))) == 1


async def test_a_family_is_offered_when_the_project_names_it(fresh: ProjectFolder) -> None:
    names = [each.name for each in (await sent(fresh, tools={"builtin": ["archive"]}))[0]]
    assert names == ["ask_user", "read_tool_result_artifact", "zip", "unzip", "hello"]


def test_the_commented_line_in_the_new_settings_file_works(fresh: ProjectFolder) -> None:
    file = Path(fresh.root, "penstock.toml")
    text = file.read_text()
    assert '# [tools]\n# builtin = ["files", "sheets"]' in text
    file.write_text(text.replace("# [tools]", "[tools]").replace("# builtin", "builtin"))
    result = load_project(load(fresh.root, cache_dir=str(fresh.cache)))
    offered = {each.spec.tool_id for each in result.builtin_tools if each.spec.is_offered}
    assert {"read", "csv_read"} <= offered
    assert not result.diagnostics


@pytest.mark.parametrize(
    ("name", "text", "tool_id"),
    [
        ("handbooks/manual/SKILL.md", "---\nname: manual\n---\nNothing to read.\n", "skill_read"),
        ("agents/assistant.md", "---\nname: assistant\ndescription: d\n---\n.", "subagent"),
        ("agents/broken.md", "---\nname: broken\ntools: [qqqqqqq]\n---\n.", "subagent"),
        ("flows/handlers/part.yaml", FLOW, "execute_workflow"),
        (
            "flows/broken.yaml",
            "name: broken\nsteps:\n  - {id: a, kind: nothing}\n",
            "execute_workflow",
        ),
        ("flows/torn.yaml", "name: [", "execute_workflow"),
        ("skills/s/s.skill.yaml", "skill_id: s\n", "list_available_skills"),
    ],
)
async def test_an_empty_or_broken_part_offers_no_tool(
    fresh: ProjectFolder, name: str, text: str, tool_id: str
) -> None:
    fresh.write(name, text)
    assert tool_id not in [each.name for each in (await sent(fresh))[0]]
