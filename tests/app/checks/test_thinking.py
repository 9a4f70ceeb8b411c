"""What an agent's file says of thinking reaches the model, or is told to be in vain."""

import pytest

from penstock.app.checks.thinking import thinking_faults
from penstock.app.flows import check_flows
from penstock.app.project import load_project
from penstock.app.settings import load
from penstock.chat.message import NewRun
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import HEAD, by_task
from tests.kit.project import ProjectFolder

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
    ("more", "said"),
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
def test_a_step_whose_model_cannot_be_told_is_named(
    project: ProjectFolder, more: str, said: list[str]
) -> None:
    """§4.2: "Step `model` beats the agent's", also with a level behind it."""
    project.write("agents/scout.md", AGENT.format(more="").replace("\n\n", "\n"))
    project.write("flows/demo.yaml", FLOW.format(more=more))
    settings = load(project.root, models={"roles": {"deaf": "openai/gpt-4o:low"}})
    found = list(check_flows(settings, load_project(settings)))
    assert [(each.code, each.line, each.message) for each in found] == [
        (
            "thinking-unheeded",
            4,
            f'the model "{name}" cannot be told how much to think; it is not',
        )
        for name in said
    ]


@pytest.mark.parametrize(
    ("model", "said"), [("openai:gpt-4o", ["openai:gpt-4o"]), ("llama.cpp:tiny", [])]
)
def test_a_step_whose_model_cannot_be_told_what_its_agent_wants_is_named(
    project: ProjectFolder, model: str, said: list[str]
) -> None:
    """§3: `thinking` "beats the suffix"; §4.2: "Step `model` beats the agent's"."""
    wants = AGENT.format(more="model: 'llama.cpp:tiny'\nthinking: high")
    project.write("agents/scout.md", wants.replace("\n\n", "\n"))
    project.write("flows/demo.yaml", FLOW.format(more=f", model: '{model}'"))
    settings = load(project.root)
    found = list(check_flows(settings, load_project(settings)))
    assert [(each.file, each.line, each.message) for each in found] == [
        ("flows/demo.yaml", 4, f'the model "{name}" cannot be told how much to think; it is not')
        for name in said
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", []),
        ("model: 'llama.cpp:tiny'\nthinking: high", []),
        ("model: 'openai:gpt-5:high'", []),
        ("model: nowhere\nthinking: low", []),
        ("thinking: high", [("offline", 5, 11)]),
        ("model: 'openai:gpt-4o:low'", [("openai:gpt-4o", 5, 8)]),
    ],
)
def test_who_cannot_be_told_is_named_once(
    project: ProjectFolder, more: str, said: list[tuple[str, int, int]]
) -> None:
    project.write("agents/scout.md", AGENT.format(more=more).replace("\n\n", "\n"))
    settings = load(project.root)
    found = list(thinking_faults(settings, load_project(settings)))
    assert [(each.message, each.line, each.column) for each in found] == [
        (f'the model "{name}" cannot be told how much to think; it is not', line, column)
        for name, line, column in said
    ]
