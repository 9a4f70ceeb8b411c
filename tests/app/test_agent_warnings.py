"""Warnings about offered tools, and about levels of thinking."""

import pytest

from penstock.app.agent_warnings import MAX_OFFERED, MIN_DESCRIPTION, check_offers, check_thinking
from penstock.app.flows import check_flows
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.requests import NewRun
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import HEAD, by_task
from tests.kit.project import ProjectFolder

TOP = "from penstock import tool\n"


def reports_of(project: ProjectFolder) -> list[str]:
    settings = load(project.root, cache_dir=str(project.cache))
    return [str(each) for each in check_offers(settings, load_project(settings))]


def tools(count: int) -> str:
    one = '@tool(effect="none")\ndef t{0}() -> str:\n    """{1}"""\n    return ""\n'
    return TOP + "".join(one.format(each, "d" * MIN_DESCRIPTION) for each in range(count))


@pytest.mark.parametrize(("over", "is_reported"), [(0, False), (1, True)])
def test_an_agent_with_more_than_20_tools_is_reported(
    project: ProjectFolder, over: int, is_reported: bool
) -> None:
    project.write("tools/many.py", tools(MAX_OFFERED - 3 + over))  # three are built in
    project.write("agents/few.md", "---\nname: few\ndescription: Has few.\ntools: t1\n---\n")
    findings = reports_of(project)
    assert len(findings) == is_reported
    assert all('many-tools: agent "assistant" is offered 21 tools' in each for each in findings)


def test_a_description_under_20_characters_is_reported_at_its_line(project: ProjectFolder) -> None:
    short, long = "d" * (MIN_DESCRIPTION - 1), "d" * MIN_DESCRIPTION
    one = '@tool(effect="none")\ndef {0}() -> str:\n    """{1}"""\n    return ""\n'
    project.write("tools/own.py", TOP + one.format("brief", short) + one.format("whole", long))
    (finding,) = reports_of(project)
    assert finding == (
        'tools/own.py:2:1: warning short-description: the description of tool "brief" has 19 '
        "characters, fewer than 20; say what it does and when to call it"
    )


AGENT = """
---
name: scout
description: d
tools:
{more}
---
Look.
"""
FLOW = HEAD + "steps:\n  - {{id: look, agent: scout, task: look{more}}}\n"


@pytest.mark.parametrize(
    ("agent", "step", "level"),
    [
        ("", "", None),
        ("thinking: high", "", "high"),
        ("model: scripted:low", "", "low"),
        ("model: scripted:low\nthinking: high", "", "high"),
        ("", ", model: 'scripted:minimal'", "minimal"),
        ('model: "@fast"', "", "xhigh"),
        ("thinking: off", "", "off"),
    ],
)
async def test_the_level_reaches_the_model(
    project: ProjectFolder, agent: str, step: str, level: str | None
) -> None:
    """`thinking`: the suffix of `model`, else the model's own; beats the suffix."""
    project.write("agents/scout.md", AGENT.format(more=agent))
    project.write("flows/demo.yaml", FLOW.format(more=step))
    model = ScriptedModel(by_task({}))
    settings = {"models": {"default": "scripted", "roles": {"fast": "scripted:xhigh"}}}
    async with project.opened(models=[model], settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="demo", task="t"))
    assert envelope.ok
    assert [each.thinking for each in model.requests] == [level]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        (", model: 'llama.cpp:tiny:high'", []),
        (", model: 'openai:gpt-4o'", []),
        (", model: 'nowhere:high'", []),
        (", model: 'openai:gpt-4o:low'", ["openai:gpt-4o"]),
        (", model: '@deaf'", ["openai:gpt-4o"]),
        (", model: '@fast:high'", ["offline"]),
    ],
)
def test_a_step_whose_model_has_no_levels_is_reported(
    project: ProjectFolder, more: str, expected: list[str]
) -> None:
    """§4.2: "Step `model` beats the agent's", also with a level behind it."""
    project.write("agents/scout.md", AGENT.format(more="").replace("\n\n", "\n"))
    project.write("flows/demo.yaml", FLOW.format(more=more))
    settings = load(project.root, models={"roles": {"deaf": "openai/gpt-4o:low"}})
    findings = list(check_flows(settings, load_project(settings)))
    assert [(each.code, each.line, each.message) for each in findings] == [
        (
            "thinking-unheeded",
            4,
            f'the model "{name}" has no levels of thinking: the level is ignored',
        )
        for name in expected
    ]


@pytest.mark.parametrize(
    ("model", "expected"), [("openai:gpt-4o", ["openai:gpt-4o"]), ("llama.cpp:tiny", [])]
)
def test_a_step_whose_model_ignores_the_level_of_its_agent_is_reported(
    project: ProjectFolder, model: str, expected: list[str]
) -> None:
    """§3: `thinking` "beats the suffix"; §4.2: "Step `model` beats the agent's"."""
    wants = AGENT.format(more="model: 'llama.cpp:tiny'\nthinking: high")
    project.write("agents/scout.md", wants.replace("\n\n", "\n"))
    project.write("flows/demo.yaml", FLOW.format(more=f", model: '{model}'"))
    settings = load(project.root)
    findings = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line, each.message) for each in findings] == [
        (
            "flows/demo.yaml",
            4,
            f'the model "{name}" has no levels of thinking: the level is ignored',
        )
        for name in expected
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ("model: 'llama.cpp:tiny'\nthinking: high", []),
        ("model: 'openai:gpt-5:high'", []),
        ("model: nowhere\nthinking: low", []),
        ("thinking: high", [("offline", 5, 11)]),
        ("model: 'openai:gpt-4o:low'", [("openai:gpt-4o", 5, 8)]),
    ],
)
def test_an_agent_whose_model_has_no_levels_is_reported_once(
    project: ProjectFolder, more: str, expected: list[tuple[str, int, int]]
) -> None:
    project.write("agents/scout.md", AGENT.format(more=more).replace("\n\n", "\n"))
    settings = load(project.root)
    findings = list(check_thinking(settings, load_project(settings)))
    assert [(each.message, each.line, each.column) for each in findings] == [
        (f'the model "{name}" has no levels of thinking: the level is ignored', line, column)
        for name, line, column in expected
    ]
