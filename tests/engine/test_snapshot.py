"""Snapshots: folding the rest from one gives what folding all gives, at every cut of every log."""

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.core.events.child_events import WaiterAdded
from penstock.core.events.events import Event
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import LogId, ScheduleId, TaskId
from penstock.engine.session_state import catch_up, fold
from penstock.engine.snapshot import FOLD_SOURCES, is_at_rest, to_snapshot
from tests.kit.long_logs import LongLog, check_every_cut, restored
from tests.kit.session_events import LOG

DEEDS = ["say", "start", "reply", "end", "again", "oldest", "fresh", "command", "call", "cancel"]
RARE = ["shorten", "previews", "skill", "prompt", "hand off", "back", "refuse"]
ROOT = Path(penstock.__file__).parent


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([*DEEDS, *DEEDS[:4] * 4, *RARE]), max_size=25))
def test_the_rest_after_a_snapshot_folds_to_the_state_of_all_events(deeds: list[str]) -> None:
    log = LongLog()
    for deed in ["say", "start", "reply", "end", *deeds]:
        log.do(deed)
    assert check_every_cut(log.records) > 0


TALK = ["say", "start", "reply", "end"]


@pytest.mark.parametrize(
    ("deeds", "is_short"),
    [
        ([*TALK, *TALK, "again"], False),
        (["say", "start", "end", "say", "fresh", "end", "oldest"], True),
        ([*TALK, *TALK, "say", "start", "shorten", "end", "oldest"], True),
        ([*TALK, *TALK, "say", "start", "shorten", "end", "say", "start", "end"], False),
    ],
)
def test_only_a_message_that_replaces_what_was_left_out_needs_all_events(
    deeds: list[str], is_short: bool
) -> None:
    log = LongLog()
    for deed in deeds[:-1]:
        log.do(deed)
    cut = len(log.records)
    log.do(deeds[-1])
    state = restored(fold(LOG, log.records[:cut]))
    catch_up(state, log.records[cut:])
    assert state.is_short is is_short


@pytest.mark.parametrize("deeds", [["say"], ["say", "start", "reply"]])
def test_a_task_at_work_is_no_place_for_a_snapshot(deeds: list[str]) -> None:
    log = LongLog()
    log.do("say").do("start")
    assert not is_at_rest(log.state)
    for deed in deeds:
        log.do(deed)
    assert not is_at_rest(log.state)
    assert is_at_rest(log.do("end").state)


@pytest.mark.parametrize(
    "event",
    [
        ScheduleFired(schedule_id=ScheduleId("sched_1"), name="News", suspension_seconds=60),
        WaiterAdded(waiter=TaskId("task_9"), waiter_log=LogId("task_9")),
    ],
)
def test_a_queued_task_that_is_more_than_its_request_is_no_place_for_one(event: Event) -> None:
    state = LongLog().do("say").do("start").do("end").do("say").state
    assert is_at_rest(state)
    state.apply(event, next(iter(state.queue)), None, 0)
    assert not is_at_rest(state)


def test_half_a_character_waits_for_the_text_of_the_log() -> None:
    state = LongLog().do("say").do("start").do("reply").do("end").state
    state.selected = ("\ud83d",)
    assert to_snapshot(state) is None


def test_the_size_of_a_snapshot_does_not_grow_with_the_log() -> None:
    log, sizes = LongLog(), list[int]()
    for _ in range(200):
        for deed in ["say", "start", "reply", "shorten", "skill", "end"]:
            log.do(deed)
        log.state.selected = ()
        sizes.append(len(to_snapshot(log.state) or b""))
    assert log.state.messages.gone
    assert max(sizes[100:]) < max(sizes[10:30]) * 1.1


# ---- the version ---------------------------------------------------------------------------------

NOT_FOLDED = {
    *("core/call_errors.py", "core/clock.py", "core/diagnostics.py", "core/errors.py"),
    *("core/foreign_code.py", "core/ids.py", "core/limits.py", "core/stored/changes.py"),
    *("core/exhaustion.py", "core/profile.py", "core/late.py"),
    "store/logs/log.py",
    "store/logs/quarantine.py",
}
"""Imported by the fold, but no state depends on them: types, errors, limits and ports."""


def test_every_module_that_the_fold_depends_on_is_part_of_its_version() -> None:
    found: set[str] = set()
    waiting = ["engine/snapshot.py"]
    while waiting:
        name = waiting.pop()
        if name not in found | NOT_FOLDED:
            found.add(name)
            waiting += imports_of(name)
    assert found == set(FOLD_SOURCES)


def imports_of(name: str) -> list[str]:
    tree = ast.parse((ROOT / name).read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [each.split(".")[1:] for each in modules if each.startswith("penstock.")]
    return [f"{'/'.join(parts)}.py" for parts in own]
