"""Visits of code steps."""

from penstock.core.call import CallPath
from penstock.core.profile import LOCAL_PROFILE
from penstock.flows.code.steps import NO_SANDBOX, CodeSteps, CodeVisit
from penstock.flows.definition import Code
from penstock.testing.invocation import open_workbench


async def test_without_a_sandbox_nothing_runs() -> None:
    bench = await open_workbench()
    frame = CallPath(f"{bench.ledger.task.task_id}/count/1")
    visit = CodeVisit(
        step=Code(step_id="count"), inputs={}, task="t", frame=frame, profile=LOCAL_PROFILE
    )
    ended = await CodeSteps(None, lambda tool: bench.invoker).pursue(visit, bench.ledger)
    assert (ended.source, ended.text) == ("code_node", NO_SANDBOX)
