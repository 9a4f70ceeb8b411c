"""A log that nobody keeps."""

from penstock.core.call import CallPath
from penstock.core.flow_events import FlowTold
from penstock.flows.dry_run.unkept import TASK, unkept_task
from tests.flows.dry_run.walks import world


async def test_what_is_added_is_in_the_state_and_nowhere_else() -> None:
    ledger = unkept_task(world(), "demo")
    ledger.add(FlowTold(kind="flow_warning"), CallPath(TASK))
    ledger.held.submit_soon()
    assert await ledger.held.commit() == 0
    assert [event.kind for _, event in ledger.task.story if isinstance(event, FlowTold)] == [
        "flow_warning"
    ]
