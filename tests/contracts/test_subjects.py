"""The contract of subjects of dispatchers, in memory and in each database."""

from itertools import count
from typing import Any

import pytest

from penstock.core.call import CallPath
from penstock.core.clock import Moment, to_iso
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.ids import TaskId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.subjects import SubjectChange, SubjectVerb
from penstock.store.logs.log import Lease, Log
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import ANN, ONE, TWO, held, started

MAIL = Scope(ScopeKind.PROFILE, ANN).part("dispatcher/mail")
NUMBERS = count()


class Dispatcher:
    """A dispatcher whose changes are records of one log."""

    def __init__(self, log: Log, lease: Lease) -> None:
        self._log = log
        self._lease = lease

    async def make(self, verb: SubjectVerb, task_id: TaskId = ONE, **more: Any) -> Any:
        """Make a change; return what the log has of it."""
        scope = more.pop("scope", MAIL)
        change = SubjectChange(
            verb=verb, scope=scope, dispatcher_id="mail", task_id=task_id, **more
        )
        settled = CallSettled(tool_id="d", envelope=Envelope.success(None), ran=False)
        path = CallPath(f"task_1/1/d#{next(NUMBERS)}")
        records = await self._log.append(self._lease, [Entry(settled, ONE, path, change)])
        event = records[-1].event
        assert isinstance(event, CallSettled)
        if event.envelope.error is not None:
            return (event.envelope.error.details or {})["reason"]
        return event.envelope.output

    async def sync(self, *subjects: Any, **more: Any) -> Any:
        keyed = [each if isinstance(each, dict) else {"subject_key": each} for each in subjects]
        return await self.make(SubjectVerb.SYNC, subjects=tuple(keyed), **more)

    async def claim(self, task_id: TaskId = ONE, limit: int = 10, **more: Any) -> list[Any]:
        """Lease for one second; return the subjects."""
        given = {"limit": limit, "lease_ms": 1000, **more}
        return list((await self.make(SubjectVerb.CLAIM, task_id, **given))["subjects"])

    async def end(self, verb: SubjectVerb, subject: Any, **more: Any) -> Any:
        """Make one of the last four changes with the revision of a subject."""
        at = {"subject_key": subject["subject_key"], "revision": subject["revision"]}
        return await self.make(verb, **at | more)


@pytest.fixture
async def mail(log: Log) -> Dispatcher:
    lease = await held(log)
    await log.append(lease, [started()])
    return Dispatcher(log, lease)


def keys(subjects: Any) -> list[str]:
    return [each["subject_key"] for each in subjects]


async def test_new_subjects_are_idle_and_due_now(mail: Dispatcher, clock: FakeClock) -> None:
    made = await mail.sync("b", "a")
    now = to_iso(clock.now())
    assert made["dispatcher"] == {
        "dispatcher_id": "mail",
        "subject_count": 2,
        "created_at": now,
        "updated_at": now,
    }
    assert made["subjects"][0] == {
        "dispatcher_id": "mail",
        "subject_key": "b",
        "status": "idle",
        "next_due_at": now,
        "attempt": 0,
        "failure_count": 0,
        "consecutive_timeouts": 0,
        "revision": 1,
        "created_at": now,
        "updated_at": now,
    }
    assert keys(await mail.claim()) == ["a", "b"]


async def test_a_claim_takes_what_is_due_in_order_and_once(
    mail: Dispatcher, clock: FakeClock
) -> None:
    later, soon = Moment(clock.now() + 2000), Moment(clock.now() + 1000)
    await mail.sync(
        {"subject_key": "late", "next_due_at": later},
        {"subject_key": "soon", "next_due_at": soon},
        "now",
    )
    assert keys(await mail.claim()) == ["now"]
    clock.advance(0.999)
    assert keys(await mail.claim(TWO)) == []
    clock.advance(1.001)
    (now, soonest), (last,) = await mail.claim(TWO, limit=2), await mail.claim(TWO)
    assert keys([now, soonest, last]) == ["now", "soon", "late"]
    assert (soonest["status"], soonest["lease_owner_id"], soonest["attempt"]) == ("leased", TWO, 1)
    assert soonest["lease_expires_at"] == to_iso(Moment(clock.now() + 1000))


async def test_a_lease_that_is_over_is_due_and_its_task_has_lost_it(
    mail: Dispatcher, clock: FakeClock
) -> None:
    await mail.sync("a")
    (first,) = await mail.claim()
    clock.advance(1)
    (second,) = await mail.claim(TWO)
    assert (second["attempt"], second["consecutive_timeouts"]) == (2, 1)
    assert await mail.end(SubjectVerb.COMPLETE, first) == "not_leased"
    done = await mail.end(SubjectVerb.COMPLETE, second, task_id=TWO)
    assert (done["status"], done["consecutive_timeouts"]) == ("succeeded", 0)


async def test_a_task_whose_lease_is_over_but_free_may_still_end_its_work(
    mail: Dispatcher, clock: FakeClock
) -> None:
    await mail.sync("a")
    (mine,) = await mail.claim()
    clock.advance(60)
    assert (await mail.end(SubjectVerb.COMPLETE, mine))["status"] == "succeeded"
    assert await mail.claim() == []


async def test_a_checkpoint_keeps_the_lease_and_stores_the_cursor(
    mail: Dispatcher, clock: FakeClock
) -> None:
    await mail.sync({"subject_key": "a", "meta": {"url": "u"}})
    (mine,) = await mail.claim()
    clock.advance(0.9)
    more = {"given": {"cursor": [1]}, "lease_ms": 5000}
    running = await mail.end(SubjectVerb.CHECKPOINT, mine, **more)
    assert (running["status"], running["cursor"], running["meta"]) == ("running", [1], {"url": "u"})
    clock.advance(4.9)
    assert await mail.claim(TWO) == []
    assert await mail.end(SubjectVerb.CHECKPOINT, mine) == "stale_revision"
    plain = await mail.end(SubjectVerb.CHECKPOINT, running, given={"cursor": None})
    assert plain["lease_expires_at"] == running["lease_expires_at"]
    assert "cursor" not in plain


async def test_a_completed_subject_is_due_again_when_it_says_so_or_a_sync_does(
    mail: Dispatcher, clock: FakeClock
) -> None:
    await mail.sync("a", "b")
    first, second = await mail.claim()
    due = {"next_due_at": Moment(clock.now() + 5000)}
    assert (await mail.end(SubjectVerb.COMPLETE, first, given=due))["next_due_at"]
    assert "next_due_at" not in await mail.end(SubjectVerb.COMPLETE, second)
    clock.advance(5)
    assert keys(await mail.claim()) == ["a"]
    await mail.sync("b")
    assert await mail.claim() == []
    await mail.sync({"subject_key": "b", "next_due_at": clock.now()})
    assert keys(await mail.claim()) == ["b"]


FAILS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [60, 120, 240, 480, 960, 1920, 3600, 3600]),
    ({"retry_after_ms": 5000}, [5, 5]),
]


@pytest.mark.parametrize(("more", "pauses"), FAILS)
async def test_a_failed_subject_is_due_again_after_a_pause(
    mail: Dispatcher, clock: FakeClock, more: dict[str, Any], pauses: list[int]
) -> None:
    await mail.sync("a")
    given, failed = {"error": {"code": "BUSY", "message": "no"}, **more}, dict[str, Any]()
    for number, seconds in enumerate(pauses, 1):
        (mine,) = await mail.claim()
        failed = await mail.end(SubjectVerb.FAIL, mine, given=given)
        assert (failed["status"], failed["failure_count"]) == ("failed", number)
        assert failed["next_due_at"] == to_iso(Moment(clock.now() + 1000 * seconds))
        clock.advance(seconds)
    error = {"code": "BUSY", "message": "no", "retryable": False, "continuable": True}
    assert failed["last_error"] == error
    (mine,) = await mail.claim()
    assert (await mail.end(SubjectVerb.COMPLETE, mine))["failure_count"] == 0


async def test_a_released_subject_is_free_at_once_and_counts_no_attempt(
    mail: Dispatcher, clock: FakeClock
) -> None:
    await mail.sync("a")
    (mine,) = await mail.claim()
    free = await mail.end(SubjectVerb.RELEASE, mine)
    assert (free["status"], free["attempt"], "lease_owner_id" in free) == ("idle", 0, False)
    assert keys(await mail.claim(TWO)) == ["a"]
    assert await mail.end(SubjectVerb.RELEASE, mine) == "not_leased"


async def test_a_sync_changes_nothing_that_a_task_has(mail: Dispatcher) -> None:
    await mail.sync({"subject_key": "a", "cursor": 1}, "b")
    (mine,) = await mail.claim(limit=1)
    made = await mail.sync({"subject_key": "a", "cursor": 9}, {"subject_key": "b", "cursor": 2})
    assert [each.get("cursor") for each in made["subjects"]] == [1, 2]
    assert [each["revision"] for each in made["subjects"]] == [mine["revision"], 2]
    assert made["dispatcher"]["subject_count"] == 2


async def test_an_unknown_subject_and_another_dispatcher_have_no_lease(mail: Dispatcher) -> None:
    await mail.sync("a")
    at: dict[str, Any] = {"subject_key": "b", "revision": 1}
    assert await mail.make(SubjectVerb.RELEASE, **at) == "no_such_subject"
    other = Scope(ScopeKind.PROFILE, ANN).part("dispatcher/other")
    assert await mail.claim(scope=other) == []


async def test_a_dispatcher_has_room_for_so_many_subjects_and_a_full_sync_adds_none(
    mail: Dispatcher,
) -> None:
    await mail.sync("a", "b")
    assert await mail.sync("a", "c", "d", "e") == "quota"
    assert keys(await mail.claim()) == ["a", "b"]
    assert (await mail.sync("a", "c", "d"))["dispatcher"]["subject_count"] == 4
