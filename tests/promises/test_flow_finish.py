"""The arguments of `finish` in real sessions, and their effects: the seed's sentences."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.core.events.flow_events import Output
from penstock.models.scripted import ScriptedModel, call
from tests.kit.flows import WORKERS, by_task, finish, run_flow, task_of, worker

ONE = "  - {id: one, agent: scout, task: one}"
BRANCHES = """
  - {id: pick, agent: judge, task: pick, branches: {Quick: quick, Deep: deep}}
  - {id: quick, agent: scout, task: quick}
  - {id: deep, agent: scout, task: deep}
"""
LOOP = """
  - {id: make, agent: scout, task: make}
  - id: gate
    type: agent-loop-decision
    agent: judge
    task: gate
    loop_target: make
    exit_target: done
    max_iterations: 3
  - {id: done, agent: scout, task: done}
"""
FORK = """
  - {id: pick, question: "How?", branches: {Quick: quick, Deep: deep}, agent: judge}
  - {id: quick, agent: scout, task: quick}
  - {id: deep, agent: scout, task: deep}
"""
SEVERAL = FORK.replace("agent: judge}", "agent: judge, multiSelect: true}")


def parameters(model: ScriptedModel, task: str) -> Mapping[str, Any]:
    """Return what `finish` took in the session that was given a task."""
    request = next(each for each in model.requests if task_of(each).startswith(task))
    (offered,) = [tool for tool in request.tools if tool.name == "finish"]
    return offered.parameters


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        {"files": [{"path": "a", "action": "burnt"}]},
        {"files": "a"},
        {"summary": None},
    ],
)
async def test_an_invalid_finish_is_rejected_and_a_second_try_works(
    wrong: dict[str, Any],
) -> None:
    """T24: "other status or action → `validation_error`, a second try works"."""
    model = ScriptedModel([finish(**{"summary": "no", **wrong}), finish("mended")])
    envelope = await run_flow(ONE, model)
    (field,) = wrong
    told = model.requests[1].messages[-1].content
    assert "finish was not accepted" in told
    assert f"/{field}" in told
    assert envelope.output["results"]["one"]["summary"] == "mended"


async def test_agent_steps_have_no_branch_and_artifacts_are_optional() -> None:
    """T24: "`artifacts` and (on agent steps) `branch` absent"."""
    model = ScriptedModel(by_task({}))
    envelope = await run_flow(ONE, model)
    found = parameters(model, "one")
    assert list(found["properties"]) == ["status", "summary", "artifacts", "files"]
    assert found["required"] == ["status", "summary", "files"]
    assert envelope.output["results"]["one"]["artifacts"] == ""


@pytest.mark.parametrize(
    ("text", "task", "branch", "expected"),
    [
        (BRANCHES, "pick", "Quick", {"enum": ["Quick", "Deep"]}),
        (LOOP, "gate", "done", {"enum": ["make", "done", "loop", "exit"]}),
        (FORK, "How?", "Deep", {"enum": ["Quick", "Deep"]}),
        (
            SEVERAL,
            "How?",
            ["Deep"],
            {
                "type": "array",
                "items": {"enum": ["Quick", "Deep"]},
                "minItems": 1,
                "uniqueItems": True,
            },
        ),
    ],
    ids=["decision", "loop", "fork", "fork of several"],
)
async def test_a_session_that_decides_is_offered_the_names_of_its_branches(
    text: str, task: str, branch: Any, expected: dict[str, Any]
) -> None:
    """T25: "guard injects a branch parameter whose allowed values are the defined branch names"."""
    said, others = finish("so", branch=branch), by_task({})
    model = ScriptedModel(lambda each: said if task_of(each).startswith(task) else others(each))
    envelope = await run_flow(text, model, autonomous=True)
    assert envelope.ok, envelope
    found = parameters(model, task)
    assert found["properties"]["branch"] == expected
    assert "branch" in found["required"]


async def test_an_output_is_an_optional_text_that_the_next_task_receives() -> None:
    """T27: "names are added as optional string parameters"; `${{result.STEP_ID.outputName}}`."""
    text = """
  - {id: one, agent: promising, task: one}
  - {id: two, agent: scout, blockedBy: [one], task: "on ${{result.one.topics}}${{result.one.rest}}"}
"""
    agents = [*WORKERS, worker("promising", outputs=(Output(name="topics"), Output(name="rest")))]
    model = ScriptedModel(by_task({"one": finish("so", topics="cats")}))
    envelope = await run_flow(text, model, agents=agents)
    found = parameters(model, "one")
    assert [found["properties"][each] for each in ("topics", "rest")] == [{"type": "string"}] * 2
    assert not {"topics", "rest"} & set(found["required"])
    assert task_of(model.requests[1]) == "on cats"
    assert envelope.output["results"]["one"]["outputs"] == {"topics": "cats"}


async def test_finish_is_the_last_act_of_an_agent() -> None:
    """T22, N5: "must call finish as its last action": no model call follows it."""
    model = ScriptedModel([finish("done") + call("look")])
    envelope = await run_flow(ONE, model)
    assert envelope.output["results"]["one"]["summary"] == "done"
    assert len(model.requests) == 1
