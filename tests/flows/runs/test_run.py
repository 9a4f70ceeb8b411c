"""The state of a run, folded from its log, and its result."""

from typing import Any

from msgspec.structs import replace

from penstock.core.events.flow_events import (
    Outcome,
    StepResult,
    StepSettled,
    StepStarted,
    StepStatus,
)
from penstock.flows.runs.run import Run
from penstock.models.scripted import ScriptedModel
from tests.flows.examples import W4, W8, W10, flow
from tests.kit.flows import by_task, finish, run_flow


def settled(step_id: str, **more: Any) -> StepSettled:
    fields: dict[str, Any] = {"outcome": Outcome.SUCCESS, "result": StepResult(summary=step_id)}
    return StepSettled(step_id=step_id, visit=1, **fields | more)


def run_of(*steps: Any) -> Run:
    return Run(flow(*steps), "the task")


def test_the_target_of_a_fork_has_its_choice_until_it_has_run() -> None:
    """On that visit only: fork id, question, answer, note, and who decided."""
    run = run_of(*W4)
    run.start(StepStarted(step_id="choose", visit=1))
    run.settle(settled("choose", targets=("quick",), answer="quick", notes="n", decided_by="judge"))
    choice = run.choices["quick"]
    assert (choice.fork_id, choice.answer, choice.decided_by) == ("choose", "quick", "judge")
    run.start(StepStarted(step_id="quick", visit=1))
    run.settle(settled("quick"))
    assert run.choices == {}
    assert run.forks["choose"].answer == "quick"


def test_a_choice_dropped_by_a_jump_reaches_no_agent() -> None:
    """7.3: "an `on_error` or branch jump drops the rest" of several targets."""
    fork, unit, *rest = W10
    run = run_of(fork, replace(unit, on_error="report"), *rest)
    run.start(StepStarted(step_id="which", visit=1))
    run.settle(settled("which", targets=("unit", "load"), answer="Unit, Load"))
    assert set(run.choices) == {"unit", "load"}
    run.start(StepStarted(step_id="unit", visit=1))
    run.settle(settled("unit", outcome=Outcome.SOFT))
    assert run.plan.ready() == ["report"]
    assert run.choices == {}


def test_every_step_has_an_entry_when_the_run_has_ended() -> None:
    run = run_of(*W8)
    run.start(StepStarted(step_id="fetch", visit=1))
    run.start(StepStarted(step_id="side", visit=1))
    run.settle(settled("fetch", outcome=Outcome.HARD, text="no key"))
    assert {name: each.status for name, each in run.results.items()} == {
        "fetch": StepStatus.COMPLETE,
        "side": StepStatus.ABORTED,
        "parse": StepStatus.SKIPPED,
        "sum": StepStatus.SKIPPED,
        "cached": StepStatus.SKIPPED,
    }
    assert (run.failure, run.failed_by) == ("no key", Outcome.HARD)


def test_a_failed_attempt_is_counted_and_the_step_continues() -> None:
    run = run_of(*W8)
    run.start(StepStarted(step_id="fetch", visit=1))
    assert run.settle(settled("fetch", outcome=Outcome.SOFT, will_retry=True)) == ()
    assert (run.tries, run.between_tries) == ({"fetch": 1}, {"fetch"})
    run.start(StepStarted(step_id="fetch", visit=2))
    assert run.between_tries == set()
    assert run.plan.running == {"fetch"}


def inside(results: dict[str, StepResult]) -> Run:
    run = run_of(*W4)
    run.results |= results
    run.plan.visits["sum"] = 2
    return run


def test_only_results_of_exactly_one_reference_are_flat() -> None:
    """7.7: `STEP`, flat, only if no step of the parent and no other flow-ref of it has that id."""
    run = run_of(*W4)
    run.adopt("a", inside({"sum": StepResult(summary="1"), "quick": StepResult(summary="inner")}))
    assert run.results["sum"].summary == "1"
    assert "quick" not in run.results
    run.adopt("b", inside({"sum": StepResult(summary="2")}), "1")
    assert "sum" not in run.results
    assert [run.results[name].summary for name in ("a.sum", "b.sum", "b.1.sum", "a.quick")] == [
        "1",
        "2",
        "2",
        "inner",
    ]
    assert (run.visits_of("a.sum"), run.visits_of("quick"), run.visits_of("gone")) == (2, 0, 0)


def test_a_result_that_another_reference_may_bring_is_not_flat() -> None:
    run = run_of(*W4)
    run.promised = {"sum": frozenset({"a", "b"}), "own": frozenset({"a"})}
    run.adopt("a", inside({"sum": StepResult(), "own": StepResult()}))
    assert {"a.sum", "own"} <= set(run.results)
    assert "sum" not in run.results


def test_a_failure_without_a_text_still_has_a_reason() -> None:
    run = run_of(*W8)
    run.start(StepStarted(step_id="fetch", visit=1))
    run.settle(settled("fetch", outcome=Outcome.HARD))
    assert run.failure == "step 'fetch' failed without a reason"


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


async def test_the_result_of_a_failed_run_has_the_reason() -> None:
    answers = {"code": finish("no key", status="blocked")}
    result = (await run_flow(FLOW, ScriptedModel(by_task(answers)))).output
    assert (result["status"], result["reason"]) == ("error", "no key")
    assert result["results"]["code"]["status"] == "blocked"
