"""The kind `agent-decision`: the agent's branch decides which step is next."""

import pytest

from penstock.models.scripted import ScriptedModel
from tests.kit.flows import by_task, finish, run_flow

DECISION = """
  - {id: pick, agent: judge, task: pick, branches: {quick: short, deep: long}}
  - {id: short, agent: scout, task: short, end: true}
  - {id: long, agent: scout, task: long}
"""


@pytest.mark.parametrize(("branch", "ran"), [("quick", "short"), ("deep", "long")])
async def test_the_run_continues_at_the_step_of_the_chosen_branch(branch: str, ran: str) -> None:
    model = ScriptedModel(by_task({"pick": finish(branch=branch)}))
    results = (await run_flow(DECISION, model)).output["results"]
    assert [each for each in ("short", "long") if results[each]["status"] == "complete"] == [ran]


async def test_an_agent_that_fails_decides_nothing() -> None:
    model = ScriptedModel(by_task({"pick": finish("I cannot tell", status="error")}))
    envelope = await run_flow(DECISION, model)
    assert envelope.output["status"] == "error"
    assert envelope.output["results"]["pick"]["summary"] == "I cannot tell"
