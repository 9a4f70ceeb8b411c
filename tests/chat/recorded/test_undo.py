"""Plans of undos, from the events of logs; tests/journeys/test_undo.py makes undos."""

from typing import Any

import pytest

from penstock.chat.recorded.undo import (
    STORED,
    PlannedCall,
    UndoCall,
    UndoPlan,
    outcomes_of,
    planned_calls,
    with_outcome,
)
from penstock.core.call import CallPath
from penstock.core.call_errors import Interrupted, ToolFailed
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, CallStarted, Event, Record
from penstock.core.events.history_events import Erased, Forked
from penstock.core.ids import CallId, LogId, TaskId, undo_id
from penstock.core.stored.changes import Revert
from penstock.tools.spec import ANY_INPUT, ToolSpec

TASK = TaskId("task_1")
BACK = Revert(tool_id="back", input='{"n":1}')


def spec(tool_id: str, **more: Any) -> ToolSpec:
    """Return a tool."""
    return ToolSpec(tool_id=tool_id, description="", input_schema=ANY_INPUT, **more)


TOOLS = {"back": spec("back"), "script": spec("script", is_frame=True)}
TOOLS["write_text_file"] = spec("write_text_file", is_transactional=True)


def log(*events: tuple[str, Event]) -> list[Record]:
    """Return events with their paths as a log."""
    log_id = LogId(TASK)
    return [
        Record(log_id, seq, Moment(0), TASK, CallPath(path) if path else None, event)
        for seq, (path, event) in enumerate(events, 1)
    ]


def started(tool: str) -> CallStarted:
    """Return the start of a write."""
    return CallStarted(tool_id=tool, idempotency_key="k")


def settled(tool: str, error: Exception | None = None, **more: Any) -> CallSettled:
    """Return the outcome of a call."""
    envelope = (
        error.envelope() if isinstance(error, ToolFailed | Interrupted) else Envelope.success(1)
    )
    return CallSettled(tool_id=tool, envelope=envelope, **more)


def plan(*events: tuple[str, Event]) -> list[tuple[str, str, str]]:
    """Return the calls of a plan: id, tool and status or reason."""
    calls = planned_calls(log(*events), lambda _, tool_id: TOOLS.get(tool_id))
    return [(each.call.id, each.call.tool, each.call.reason or each.call.status) for each in calls]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([("t/1/look#a", settled("look"))], []),
        ([("t/1/do#a", settled("do", revert=BACK))], [("1", "do", "ready")]),
        (
            [
                ("t/1/do#a", settled("do", revert=BACK)),
                ("", Forked(from_task=TaskId("task_0"), from_log=LogId("conv_0"), seq=1)),
                ("t/2/do#b", settled("do", revert=BACK)),
            ],
            [("3", "do", "ready")],
        ),
        (
            [("t/1/do#a", started("do")), ("t/1/do#a", settled("do"))],
            [("2", "do", "its tool declares no revert")],
        ),
        (
            [("t/1/do#a", started("do"))],
            [("1", "do", "it has no outcome yet: undo cancels the task first")],
        ),
        (
            [("t/1/do#a", started("do")), ("t/1/do#a", settled("do", Interrupted("cut")))],
            [("2", "do", "it ended as INTERRUPTED: it may have happened")],
        ),
        (
            [("t/1/do#a", settled("do", revert=Revert(tool_id="gone", input="{}")))],
            [("1", "do", "its revert 'gone' is not loaded here")],
        ),
        (
            [("t/1/do#a", settled("do", revert=Revert(tool_id="back", input=None)))],
            [("1", "do", "its input contained a secret")],
        ),
        (
            [("t/1/do#a/workspace.write#b", settled("workspace.write"))],
            [("1", "workspace.write", STORED)],
        ),
        (
            [("t/1/do#a/state.profile.put#b", settled("state.profile.put"))],
            [("1", "state.profile.put", STORED)],
        ),
        (
            [("t/1/write_text_file#b", settled("write_text_file"))],
            [("1", "write_text_file", STORED)],
        ),
        ([("t/1/do#a/state.profile.get#b", settled("state.profile.get"))], []),
        # A frame acts through the calls inside it; a revert of a frame covers them.
        (
            [
                ("t/1/script#a", started("script")),
                ("t/1/script#a/do#b", settled("do", revert=BACK)),
                ("t/1/script#a", settled("script")),
            ],
            [("2", "do", "ready")],
        ),
        (
            [
                ("t/1/script#a/do#b", settled("do", revert=BACK)),
                ("t/1/script#a", settled("script", revert=BACK)),
            ],
            [("2", "script", "ready")],
        ),
        ([("", Erased())], [("1", "", "this event was erased, and with it what it did")]),
    ],
)
def test_a_plan_says_what_each_call_needs(
    events: list[tuple[str, Event]], expected: list[tuple[str, str, str]]
) -> None:
    assert plan(*events) == expected


def test_the_newest_call_goes_first() -> None:
    found = plan(*[(f"t/{n}/do#a", settled("do", revert=BACK)) for n in range(3)])
    assert [each[0] for each in found] == ["3", "2", "1"]


def test_undos_are_numbered() -> None:
    assert [undo_id(TASK, number) for number in (1, 2)] == ["undo_task_1", "undo_task_1.2"]


def test_the_outcome_of_a_revert_belongs_to_the_call_in_its_path() -> None:
    """Calls inside a revert, and events of the undo itself, are no outcomes."""
    undo = undo_id(TASK, 1)
    first, failed = settled("back"), settled("back", ToolFailed("no"))
    records = log(
        (f"{undo}/7/back#a", started("back")),
        (f"{undo}/7/back#a/inner#b", settled("inner")),
        (f"{undo}/7/back#a", first),
        (f"{undo}/5/back#a", failed),
        (f"{undo}/3/back#a", started("back")),
        ("", Erased()),
    )
    assert outcomes_of(undo, records) == {"7": first, "5": failed, "3": None}


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (None, "ready", ""),
        (settled("back"), "undone", ""),
        (settled("back", ToolFailed("no")), "ready", "its revert failed: no"),
        (
            settled("back", Interrupted("cut")),
            "unclear",
            "its revert was cut and may or may not have happened: look, then name the call",
        ),
    ],
)
def test_the_outcome_of_a_revert_changes_the_plan(
    outcome: CallSettled | None, status: str, reason: str
) -> None:
    planned = PlannedCall(UndoCall(id="7", tool="do", status="ready"))
    call = with_outcome(planned, outcome).call
    assert (call.status, call.reason) == (status, reason)


def test_only_a_call_that_is_named_runs_again_after_its_revert_was_cut() -> None:
    """Also by the id that its model gave it."""
    cut = UndoCall(id="7", tool="do", status="unclear")
    ready = UndoCall(id="5", tool="do", status="ready")
    planned = [PlannedCall(cut, settled("do", call_id=CallId("tc_1"))), PlannedCall(ready)]
    whole = UndoPlan(calls=planned)
    chosen = [[each.call.id for each in whole.chosen(name)] for name in (None, "7", "tc_1", "9")]
    assert chosen == [["5"], ["7"], ["7"], []]
