"""Which tasks worked for a task, from the events of its log."""

import pytest

from penstock.chat.recorded.task_family import own_records, spawned_by, started_by
from penstock.core.call import EXECUTE_WORKFLOW, CallPath
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.child_events import ChildrenSpawned
from penstock.core.events.events import CallSettled, CallStarted, Event, Record
from penstock.core.events.history_events import Forked
from penstock.core.ids import LogId, TaskId
from penstock.core.stored.changes import Revert

TASK = TaskId("task_1")
RUN = CallStarted(tool_id=EXECUTE_WORKFLOW, idempotency_key="k")
SPAWNED = ChildrenSpawned(children=(TaskId("task_a"), TaskId("task_b")))
FORKED = Forked(from_task=TaskId("task_0"), from_log=LogId("conv_0"), seq=1)
COVERED = CallSettled(
    tool_id="plan", envelope=Envelope.success(1), revert=Revert(tool_id="back", input="{}")
)


def log(*events: tuple[str, Event]) -> list[Record]:
    """Return events with their paths as a log."""
    return [
        Record(LogId(TASK), seq, Moment(0), TASK, CallPath(path) if path else None, event)
        for seq, (path, event) in enumerate(events, 1)
    ]


@pytest.mark.parametrize(
    ("records", "children", "runs"),
    [
        (log(("t/1/plan#a", SPAWNED)), ["task_a", "task_b"], {}),
        (log(("t/1/x#a", RUN)), [], {"t/1/x#a": "task_k"}),
        (log(("t/1/x#a", CallStarted(tool_id="x", idempotency_key="k"))), [], {}),
        (log(("t/1/plan#a", SPAWNED), ("t/1/plan#a", COVERED)), [], {}),
        (log(("t/1/plan#a/x#b", RUN), ("t/1/plan#a", COVERED)), [], {}),
        (log(("t/1/plan#ab", SPAWNED), ("t/1/plan#a", COVERED)), ["task_a", "task_b"], {}),
    ],
)
def test_children_and_runs_are_in_the_log_unless_a_revert_covers_them(
    records: list[Record], children: list[str], runs: dict[str, str]
) -> None:
    assert (spawned_by(records), started_by(records)) == (children, runs)


def test_events_that_a_fork_copied_are_not_its_own() -> None:
    records = log(("t/1/plan#a", SPAWNED), ("", FORKED), ("t/2/x#b", RUN))
    assert [each.seq for each in own_records(records)] == [3]
