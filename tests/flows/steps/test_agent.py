"""The kind `agent`: its contract, and the fields of its result."""

from penstock.core.events.flow_events import STANDARD_FIELDS, Output
from penstock.flows.steps.agent import AgentStep
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import by_task, finish, run_flow, worker

STEP = "  - {id: look, agent: scout, task: look, outputs: [why, where]}"


async def test_an_agent_must_return_the_outputs_of_its_file_and_of_its_step() -> None:
    scout = worker("scout", outputs=(Output(name="why"), Output(name="cost")))
    model = ScriptedModel(by_task({"look": finish(why="w", where="x", cost="1")}))
    envelope = await run_flow(STEP, model, agents=[scout])
    (offered,) = [tool for tool in model.requests[0].tools if tool.name == "finish"]
    assert {"why", "where", "cost"} <= offered.parameters["properties"].keys()
    assert envelope.output["results"]["look"]["where"] == "x"


def test_the_fields_of_a_result_are_unknown_while_the_agent_is() -> None:
    step = AgentStep(step_id="look", agent="scout", outputs=(Output(name="where"),))
    assert step.result_fields(None) is None
    assert step.result_fields(["why"]) == (*STANDARD_FIELDS, "why", "where")
