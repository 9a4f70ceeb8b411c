"""Warnings of a run, without repetition."""

from penstock.core.call import CallPath
from penstock.core.events.flow_events import FlowNotified
from penstock.engine.ledger import Ledger
from penstock.flows.dry_run.dry_run import discarding_ledger
from penstock.flows.runs.warnings import warn, warn_once, warnings_of
from tests.flows.dry_run.walks import world

ONE, OTHER = CallPath("task_1/a"), CallPath("task_1/b")


def test_a_frame_is_warned_of_the_same_thing_once() -> None:
    ledger = discarding_ledger(world(), "demo")
    for frame in (ONE, ONE, OTHER):
        warn(ledger, frame, "odd", stepId="a")
    warn(ledger, ONE, "odd", stepId="b")
    assert _told(ledger) == [(ONE, "a"), (OTHER, "a"), (ONE, "b")]


def test_a_whole_run_is_warned_once_whichever_frame_it_was() -> None:
    ledger = discarding_ledger(world(), "demo")
    for frame in (ONE, OTHER):
        warn_once(ledger, frame, "odd")
    assert _told(ledger) == [(ONE, None)]


def test_a_result_lists_each_warning_once_and_no_other_event() -> None:
    ledger = discarding_ledger(world(), "demo")
    ledger.add(FlowNotified(kind="flow_jump", body={"message": "no warning"}), ONE)
    for frame, said in ((ONE, "b"), (ONE, "a"), (OTHER, "b")):
        warn(ledger, frame, said)
    assert warnings_of(ledger.task) == ["b", "a"]


def _told(ledger: Ledger) -> list[tuple[CallPath | None, object]]:
    story = ledger.task.story
    return [(at, each.body.get("stepId")) for at, each in story if isinstance(each, FlowNotified)]
