"""A log that nobody keeps."""

from penstock.core.call import CallPath
from penstock.core.flow_events import FlowNotified
from penstock.flows.dry_run.discarding_log import TASK, discarding_ledger
from tests.flows.dry_run.walks import world


async def test_what_is_added_is_in_the_state_and_nowhere_else() -> None:
    ledger = discarding_ledger(world(), "demo")
    ledger.add(FlowNotified(kind="flow_warning"), CallPath(TASK))
    ledger.held.submit_soon()
    assert await ledger.held.commit() == 0
    assert [event.kind for _, event in ledger.task.story if isinstance(event, FlowNotified)] == [
        "flow_warning"
    ]
