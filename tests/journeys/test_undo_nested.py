"""Undo of a script that an agent called which worked for another agent, on the example shop."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock import open as open_project
from penstock.agents.agent import Agent, ChatSettings
from penstock.models.scripted import ScriptedModel, call, say

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow("runs scripts in the sandbox")
async def test_the_calls_of_a_script_in_an_agent_in_an_agent_are_taken_back(
    tmp_path: Path, machine_code: Path
) -> None:
    """The agent and the script act through these calls alone, so they have no rows of their own."""
    for folder in ("orders", "tools"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    inner = ScriptedModel([call("take_order", item="tea", email="ann@example.com"), say("Taken.")])
    outer = ScriptedModel([call("desk", task="One tea"), say("Done.")])
    settings = ChatSettings(selected_skills=("orders",))
    desk: Agent[Any, Any] = Agent("desk", model=inner, settings=settings)
    boss: Agent[Any, Any] = Agent("boss", model=outer, tools=[desk])
    cache = {"cache_dir": str(machine_code)}
    async with open_project(tmp_path, agents=[boss], settings=cache) as runtime:
        reply = await runtime.chat("Go", agent=boss)
        undo = await runtime.undo(reply.task_id)
        assert [(each.tool, each.status) for each in undo.calls] == [
            ("send_mail", "impossible"),
            ("write_text_file", "undone"),
            ("charge", "undone"),
            ("ship_order", "undone"),
            ("state.put", "undone"),
        ]
        assert (await runtime.call("take_order", {"item": "tea"})).output["order"] == "A1"
