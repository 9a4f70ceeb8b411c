"""The result of a run, for people and programs."""

from penstock.models.scripted import ScriptedModel
from tests.kit.flows import by_task, finish, run_flow

FLOW = """
  - {id: web, agent: scout, task: "web ${{result.nothing}}"}
  - {id: code, agent: scout, task: code, blockedBy: [web]}
"""


async def test_a_result_has_the_documented_fields() -> None:
    """FlowResult: runId, flowName, status, task, stepCount, results, forks, lastResult, …."""
    answers = {"code": finish("done", files=[{"path": "a.py", "action": "created"}])}
    result = (await run_flow(FLOW, ScriptedModel(by_task(answers)))).output
    assert {name: result[name] for name in ("runId", "flowName", "status", "task")} == {
        "runId": "task_1",
        "flowName": "demo",
        "status": "success",
        "task": "the task",
    }
    assert result["stepCount"] == 2
    assert 0 <= result["totalDuration"] < 1000
    code = result["results"]["code"]
    assert (code["files"], code["visits"]) == ("a.py (created)", 1)
    assert code["finish"]["files"] == [{"path": "a.py", "action": "created"}]
    assert result["lastResult"]["summary"] == "done"
    assert result["warnings"] == ["${{result.nothing}} names nothing"]
    assert result["usage"]["modelCalls"] == 2
    assert "reason" not in result


async def test_a_run_that_failed_says_why() -> None:
    answers = {"code": finish("no key", status="blocked")}
    result = (await run_flow(FLOW, ScriptedModel(by_task(answers)))).output
    assert (result["status"], result["reason"]) == ("error", "no key")
    assert result["results"]["code"]["status"] == "blocked"
