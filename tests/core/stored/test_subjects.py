"""Subjects of a dispatcher on a shelf; tests/contracts/test_subjects.py has the whole contract."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment
from penstock.core.ids import TaskId
from penstock.core.limits import Limits
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.subjects import SubjectChange, SubjectVerb, dispatched
from penstock.testing.resources import MemoryShelf

HERE = Scope(ScopeKind.PROFILE, "ann/dispatcher/mail")
KEYS = ["a", "b/c", "\N{SNOWMAN}", "due/1"]
ENDS = [SubjectVerb.COMPLETE, SubjectVerb.FAIL, SubjectVerb.RELEASE, SubjectVerb.CHECKPOINT]


def made(shelf: MemoryShelf, verb: SubjectVerb, at: int, **more: Any) -> Any:
    more = {"task_id": TaskId("task_1"), "dispatcher_id": "mail", **more}
    change = SubjectChange(verb=verb, scope=HERE, **more)
    return dispatched(change, shelf, Moment(at), Limits()).to_wire()


STEPS = st.lists(
    st.tuples(st.sampled_from(["claim", *ENDS]), st.integers(0, 3), st.integers(0, 3000)),
    max_size=40,
)


@given(STEPS)
def test_at_every_time_one_task_has_a_subject_and_no_subject_is_lost(steps: Any) -> None:
    shelf, now, leases = MemoryShelf({}), 10_000, dict[str, tuple[str, Any]]()
    made(shelf, SubjectVerb.SYNC, now, subjects=tuple({"subject_key": key} for key in KEYS))
    for verb, number, passed in steps:
        now, owner = now + passed, TaskId(f"task_{number}")
        if verb == "claim":
            claimed = made(
                shelf, SubjectVerb.CLAIM, now, task_id=owner, limit=number + 1, lease_ms=1000
            )
            for subject in claimed["subjects"]:
                before = leases.get(subject["subject_key"])
                assert before is None or before[1] <= now
                leases[subject["subject_key"]] = (owner, now + 1000)
            continue
        subject_key = KEYS[number]
        revision = revision_of(shelf, subject_key)
        more = {"given": {"error": {"code": "X", "message": "x"}, "next_due_at": now}}
        more = {} if verb is SubjectVerb.RELEASE else more
        by = leases.get(subject_key, (owner,))[0]
        at = {"task_id": by, "subject_key": subject_key, "revision": revision, **more}
        if subject_key not in leases:
            with pytest.raises(ToolFailed, match="no lease"):
                made(shelf, verb, now, **at)
            continue
        made(shelf, verb, now, **at)
        if verb is not SubjectVerb.CHECKPOINT:
            del leases[subject_key]
    rest = made(shelf, SubjectVerb.CLAIM, now + 1000, limit=100, lease_ms=1000)["subjects"]
    assert sorted(each["subject_key"] for each in rest) == sorted(KEYS)
    assert len(shelf.between("due/", "due0", 100)) == len(KEYS)


def revision_of(shelf: MemoryShelf, key: str) -> int:
    known = made(shelf, SubjectVerb.SYNC, 0, subjects=({"subject_key": key},))["subjects"]
    return int(known[0]["revision"])


@pytest.mark.parametrize(("due", "is_due"), [(-(10**13), 1), (0, 1), (10**14, 0)])
def test_a_due_time_far_away_keeps_its_place(due: int, is_due: int) -> None:
    shelf = MemoryShelf({})
    made(shelf, SubjectVerb.SYNC, 5, subjects=({"subject_key": "a", "next_due_at": due},))
    found = made(shelf, SubjectVerb.CLAIM, 5, limit=9, lease_ms=1000)["subjects"]
    assert len(found) == is_due
