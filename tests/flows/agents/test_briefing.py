"""Briefings with files and handbooks."""

from pathlib import Path
from typing import Any

import pytest

from penstock.core.envelope import Envelope
from penstock.flows.agents.briefing import brief_call
from penstock.flows.agents.materials import Materials
from penstock.manifest.handbook import find_handbooks
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import ProjectFolder
from tests.kit.flows import by_task, finish, flows_of, run_in, steps, worker

INDEX = "---\nname: docs\nfiles: [a.md]\n---\nThe ${{task}} index.\n"
LOOK = """
  - {id: make, agent: maker, task: make}
  - {id: look, agent: g, task: "look at ${{input.notes}}", blockedBy: [make], inputs: {
      notes: "file://${{result.make.files}}", more: "file://a.txt"}}
"""


@pytest.fixture
def place(tmp_path: Path) -> MemoryStorage:
    (tmp_path / "a.txt").write_text("text of ${{task}}")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/SKILL.md").write_text(INDEX)
    place = MemoryStorage(flows=flows_of(demo=steps(LOOK)))
    place.project = ProjectFolder(root=tmp_path)
    place.handbooks = find_handbooks([tmp_path])
    return place


async def ran(
    place: MemoryStorage, made: str, **agent_profile: Any
) -> tuple[Envelope, ScriptedModel]:
    files = [{"path": made, "action": "created"}]
    model = ScriptedModel(by_task({"make": finish("made", files=files)}))
    agents = [worker("maker"), worker("g", **agent_profile)]
    async with memory_runtime(model=model, agents=agents, place=place) as runtime:
        return await run_in(runtime), model


async def test_context_files_come_before_handbooks_and_these_before_the_body(
    place: MemoryStorage,
) -> None:
    """4.1: `## Context: PATH`, then `## Skill: NAME` and the whole `SKILL.md`, then the body."""
    given = {"context_files": ("a.txt", "gone.txt"), "handbooks": ("docs",)}
    envelope, model = await ran(place, "a.txt", **given)
    rules, told = model.requests[-1].system.split("\n\n", 1)
    assert "finish" in rules
    assert told == (
        f"## Context: a.txt\n\ntext of ${{{{task}}}}\n\n## Skill: docs\n\n{INDEX}\n\nYou are g."
    )
    (warning,) = envelope.output["warnings"]
    assert warning.startswith("the context file 'gone.txt' is left out")


async def test_files_named_in_inputs_are_in_the_message_and_not_expanded(
    place: MemoryStorage,
) -> None:
    """V13: `file://${{result.w.files}}`; "one trailing ` (action)` is dropped"."""
    envelope, model = await ran(place, "a.txt")
    assert envelope.ok
    text = "text of ${{task}}"
    assert model.requests[-1].messages[0].content == (
        f"Task: look at {text}\n\n## Inputs\n\nmore:\n{text}"
    )


async def test_a_missing_file_is_a_soft_failure(place: MemoryStorage) -> None:
    """V13: "soft `input_file`"."""
    envelope, model = await ran(place, "gone.txt")
    assert envelope.output["status"] == "error"
    assert envelope.output["reason"] == (
        "an input cannot be read: there is no 'gone.txt' in the project"
    )
    assert len(model.requests) == 1


def test_task_and_inputs_of_a_call_are_not_expanded() -> None:
    agent = worker("g", output="report.md")
    told, missing = brief_call(agent, "do ${{task}}", {"n": "${{input.n}}"}, materials=Materials())
    assert (told.task, told.inputs) == ("do ${{task}}", {"n": "${{input.n}}"})
    assert (told.instructions, told.output, missing) == ("You are g.", "report.md", [])
