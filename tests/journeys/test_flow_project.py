"""Flows of a project on disk: files, settings and the built-in agents together."""

from penstock.chat.requests import NewRun
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import by_task, finish
from tests.kit.project import ProjectFolder

SCOUT = """---
name: scout
description: Looks.
model: @fast
tools:
---
Look at ${{config.region}} for ${{input.who}}.
"""
FLOW = """
name: Research
description: Looks twice
config: {depth: 2}
steps:
  - id: web
    agent: scout
    task: "web ${{config.region}} ${{config.depth}}"
    inputs: {who: Ann}
  - {id: pick, question: "Good?", branches: {Yes: done, No: web}, max_iterations: 1}
  - {id: done, agent: scout, task: done, inputs: {who: Bob}}
"""
SETTINGS = """
[flows]
autonomous = true
config = {region = "eu", depth = 1}
[models.roles]
fast = "scripted"
"""


async def test_the_settings_of_a_project_apply_to_its_flows(project: ProjectFolder) -> None:
    """`${{config.KEY}}`: step over flow over project; a role is the project's; forks decide."""
    project.write("agents/scout.md", SCOUT)
    project.write("flows/dom/research.yaml", FLOW)
    project.write("penstock.toml", SETTINGS)
    model = ScriptedModel(by_task({"Good?": finish("fine", branch="Yes")}))
    async with project.opened(models=[model]) as runtime:
        envelope = await runtime.run_flow(NewRun(command="dom:research", task="t"))
    assert envelope.ok, envelope
    results = envelope.output["results"]
    assert results["web"]["summary"] == "web eu 2 done"
    assert envelope.output["forks"]["pick"] == {"answer": "Yes", "notes": "fine"}
    scouted = [each.system for each in model.requests if "Look at eu for Ann." in each.system]
    assert len(scouted) == 1
