"""The contract of every log: leases, and when a log needs a run."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.core.call import CallPath
from penstock.core.clock import Moment
from penstock.core.errors import LeaseLost, NameTaken
from penstock.core.events.events import CallStarted, Entry, ReplyRestarted
from penstock.core.ids import LogId
from penstock.store.logs.log import Lease, Log, PendingLog
from penstock.store.logs.owners import this_process
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import (
    ANN,
    BOB,
    CHAT,
    ONE,
    THREE,
    TWO,
    answered,
    asked,
    cancelled,
    ended,
    held,
    message,
    note,
    opened,
    resumed,
    settled,
    started,
    suspended,
    taken,
)

Use = Callable[[Log, Lease], Awaitable[object]]
USES: dict[str, Use] = {
    "append": lambda log, lease: log.append(lease, [note("late")]),
    "append of a large event": lambda log, lease: log.append(lease, [note("l" * 9999)]),
    "renew": lambda log, lease: log.renew(lease, after=0),
    "release": lambda log, lease: log.release(lease, head=2),
}


# ---- taking --------------------------------------------------------------------------------------


async def test_a_log_has_one_holder_at_a_time(log: Log, clock: FakeClock) -> None:
    lease = await held(log)
    assert lease == Lease(log_id=CHAT, epoch=1, head=2, crashed=False, recoveries=0)
    assert await log.acquire(CHAT, "another") is None
    assert await log.acquire(CHAT, "me") is None


async def test_only_one_of_many_applicants_acquires_a_lease(log: Log) -> None:
    await log.send(CHAT, [opened(), message()])
    wanted = [log.acquire(CHAT, f"owner {number}") for number in range(8)]
    assert len([lease for lease in await asyncio.gather(*wanted) if lease]) == 1


async def test_a_released_lease_can_be_acquired(log: Log) -> None:
    lease = await held(log)
    assert await log.release(lease, head=2) in ([], ())
    after = await taken(log, "another")
    assert after.epoch > lease.epoch
    assert (after.head, after.crashed, after.recoveries) == (2, False, 0)


async def test_a_lease_lasts_its_seconds_and_not_longer(log: Log, clock: FakeClock) -> None:
    await held(log)
    clock.advance(2.999)
    assert await log.acquire(CHAT, "another") is None
    clock.advance(0.001)
    after = await taken(log, "another")
    assert (after.epoch, after.head, after.crashed, after.recoveries) == (2, 2, True, 1)


KEEPING: dict[str, Use] = {key: USES[key] for key in ("append", "renew")}


@pytest.mark.parametrize("keep", KEEPING.values(), ids=list(KEEPING))
async def test_an_append_or_a_renewal_keeps_the_lease(
    log: Log, clock: FakeClock, keep: Use
) -> None:
    lease = await held(log)
    clock.advance(2)
    await keep(log, lease)
    clock.advance(2)
    assert await log.acquire(CHAT, "another") is None


async def test_the_lease_of_a_process_that_died_here_is_free_at_once(log: Log) -> None:
    host, boot, *_ = this_process("me").split("/")
    await held(log, f"{host}/{boot}/4194305/1/me")
    assert (await taken(log, "another")).crashed


async def test_the_lease_of_a_living_process_or_of_another_host_is_not(log: Log) -> None:
    host, boot, *_ = this_process("me").split("/")
    await log.send(CHAT, [opened(), message()])
    await log.send(LogId("conv_2"), [opened(), message(TWO)])
    await taken(log, this_process("me"))
    assert await log.acquire(CHAT, "another") is None
    await log.acquire(LogId("conv_2"), f"not-{host}/{boot}/4194305/1/me")
    assert await log.acquire(LogId("conv_2"), "another") is None


async def test_crashes_at_one_place_are_counted(log: Log, clock: FakeClock) -> None:
    """While nothing was settled between them."""
    await held(log)
    counts = []
    for _ in range(3):
        clock.advance(4)
        counts.append((await taken(log)).recoveries)
    clock.advance(4)
    lease = await taken(log)
    await log.append(lease, [settled("got on")])
    clock.advance(4)
    after = await taken(log)
    assert (counts, after.recoveries) == ([1, 2, 3], 1)
    await log.release(after, head=3)
    assert (await taken(log)).recoveries == 0


@pytest.mark.parametrize(
    "again",
    [
        [resumed(crashed=True)],
        [resumed(crashed=True), Entry(ReplyRestarted(iteration=1), ONE)],
        [Entry(CallStarted(tool_id="t", idempotency_key="k"), ONE, CallPath("task_1/1/t#ab"))],
        [note("here again")],
        [note("n" * 9999)],
    ],
    ids=["resumed", "reply begun again", "call entered again", "note", "large note"],
)
async def test_repeating_the_same_events_is_not_progress(
    log: Log, clock: FakeClock, again: list[Entry]
) -> None:
    await log.append(await held(log), [started()])
    counts = []
    for _ in range(3):
        clock.advance(4)
        lease = await taken(log)
        counts.append(lease.recoveries)
        for entry in again:
            await log.append(lease, [entry])
    clock.advance(4)
    lease = await taken(log)
    await log.append(lease, [*again, settled("got on")])
    clock.advance(4)
    assert (counts, (await taken(log)).recoveries) == ([1, 2, 3], 1)


async def test_outside_events_are_not_progress(log: Log, clock: FakeClock) -> None:
    await held(log)
    counts = []
    for sent in (message(TWO), message(THREE), cancelled()):
        clock.advance(4)
        await log.send(CHAT, [sent])
        counts.append((await taken(log)).recoveries)
    assert counts == [1, 2, 3]


# ---- beginning -----------------------------------------------------------------------------------


async def test_a_new_log_can_be_held_from_its_first_event(log: Log) -> None:
    first = await log.begin(CHAT, [opened(), message(), started()], "me", head=0)
    assert first is not None
    lease, records = first
    assert lease == Lease(
        log_id=CHAT, epoch=1, head=3, crashed=False, recoveries=0, is_started=True
    )
    assert [record.seq for record in records] == [1, 2, 3]
    assert [record.seq for record in await log.append(lease, [ended()])] == [4]
    assert await log.release(lease, head=4) in ([], ())
    assert await log.read(CHAT, after=3) != []


async def test_a_log_with_nothing_to_do_can_be_held_with_its_next_message(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started(), ended()])
    await log.release(lease, head=4)
    first = await log.begin(CHAT, [message(TWO), started(TWO)], "me", head=4)
    assert first is not None
    assert first[0].epoch > lease.epoch
    assert [record.seq for record in first[1]] == [5, 6]
    assert await log.acquire(CHAT, "another") is None
    await log.send(CHAT, [cancelled(TWO)])
    assert [record.seq for record in await log.renew(first[0], after=6)] == [7]
    told = await log.append(first[0], [ended(TWO)])
    assert [record.seq for record in told] == [7, 8]


@pytest.mark.parametrize("head", [0, 1, 3])
async def test_begin_refuses_a_log_with_another_head(log: Log, head: int) -> None:
    lease = await held(log)
    await log.release(lease, head=2)
    assert await log.begin(CHAT, [opened(), message(TWO), started(TWO)], "me", head=head) is None
    assert await log.head(CHAT) == 2


async def test_begin_refuses_a_log_that_another_process_holds(log: Log) -> None:
    await held(log)
    assert await log.begin(CHAT, [message(TWO), started(TWO)], "another", head=2) is None
    assert await log.head(CHAT) == 2


async def test_an_unknown_log_ends_nowhere(log: Log) -> None:
    assert await log.begin(CHAT, [message(), started()], "me", head=2) is None
    assert await log.read(CHAT) == []


async def test_a_begin_with_a_conflict_raises_and_writes_nothing(log: Log) -> None:
    lease = await held(log)
    await log.release(lease, head=2)
    with pytest.raises(NameTaken):
        await log.begin(CHAT, [message(), started()], "me", head=2)
    assert await log.head(CHAT) == 2
    assert await log.acquire(CHAT, "another") is not None


async def test_a_holder_that_begins_and_dies_has_crashed(log: Log, clock: FakeClock) -> None:
    await log.begin(CHAT, [opened(), message(), started()], "me", head=0)
    clock.advance(3)
    after = await taken(log, "another")
    assert (after.head, after.crashed, after.recoveries, after.is_started) == (3, True, 1, False)


async def test_a_beginning_with_a_large_event_is_written_or_left(log: Log) -> None:
    entries = [opened("T" * 300), message(), started()]
    first = await log.begin(CHAT, entries, "me", head=0)
    assert await log.head(CHAT) == (3 if first else 0)


# ---- losing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
async def test_a_holder_that_lost_the_lease_can_change_nothing(
    log: Log, clock: FakeClock, use: Use
) -> None:
    """A process that was frozen and came back."""
    stale = await held(log)
    clock.advance(3)
    current = await taken(log, "another")
    with pytest.raises(LeaseLost):
        await use(log, stale)
    await log.surrender(stale)
    assert await log.head(CHAT) == 2
    assert await log.acquire(CHAT, "a third") is None
    assert [each.seq for each in await log.append(current, [note("mine")])] == [3]


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
async def test_a_released_lease_is_not_current(log: Log, use: Use) -> None:
    lease = await held(log)
    await log.release(lease, head=2)
    with pytest.raises(LeaseLost):
        await use(log, lease)
    assert await log.head(CHAT) == 2


async def test_an_append_that_is_not_awaited_raises_nothing_yet(log: Log, clock: FakeClock) -> None:
    stale = await held(log)
    clock.advance(3)
    await taken(log, "another")
    waiting = [log.append(stale, [note("a")]), log.append(stale, [note("b")])]
    for each in waiting:
        with pytest.raises(LeaseLost):
            await each


async def test_a_lease_that_ran_out_counts_until_another_has_it(log: Log, clock: FakeClock) -> None:
    """The page: "Who could not renew in time stops appending at once", by a fence (decision 12)."""
    lease = await held(log)
    clock.advance(60)
    assert [each.seq for each in await log.append(lease, [note("late")])] == [3]
    assert await log.acquire(CHAT, "another") is None


# ---- giving back ---------------------------------------------------------------------------------


async def test_a_log_with_new_events_is_not_released(log: Log) -> None:
    lease = await held(log)
    await log.send(CHAT, [message(TWO)])
    late = await log.release(lease, head=2)
    assert [(each.seq, each.task_id) for each in late] == [(3, TWO)]
    assert await log.acquire(CHAT, "another") is None
    await log.append(lease, [note("done")])
    assert not await log.release(lease, head=4)
    assert not await log.pending(limit=9)


async def test_a_surrender_leaves_the_log_pending(log: Log) -> None:
    lease = await held(log)
    await log.append(lease, [started()])
    await log.surrender(lease)
    assert [each.log_id for each in await log.pending(limit=9)] == [CHAT]
    after = await taken(log, "another")
    assert (after.crashed, after.recoveries, after.head) == (False, 0, 3)


# ---- needing a run -------------------------------------------------------------------------------


def waiting(at: int = 0) -> PendingLog:
    return PendingLog(log_id=CHAT, profile_id=ANN, wake_at=Moment(at))


async def test_a_log_needs_a_run_until_it_is_released(log: Log, clock: FakeClock) -> None:
    lease = await held(log)
    assert await log.pending(limit=9) == [], "it is held"
    clock.advance(3)
    assert await log.pending(limit=9) == [waiting()], "its lease ran out"
    await log.renew(lease, after=2)
    assert await log.pending(limit=9) == []
    await log.release(lease, head=2)
    assert await log.pending(limit=9) == []


@pytest.mark.parametrize("sent", [answered("x"), cancelled(), message(TWO)])
async def test_an_outside_event_makes_the_log_pending(log: Log, sent: Entry) -> None:
    lease = await held(log)
    await log.append(lease, [started(), asked(), suspended()])
    await log.release(lease, head=5, wake_at=Moment(9))
    await log.send(CHAT, [sent])
    assert await log.pending(limit=9) == [waiting()]


async def test_a_log_can_schedule_a_later_visit(log: Log, clock: FakeClock) -> None:
    at = clock.now() + 60_000
    lease = await held(log)
    await log.release(lease, head=2, wake_at=Moment(at))
    assert await log.pending(limit=9) == [waiting(at)]


async def test_the_soonest_is_pending_first_and_not_more_than_asked_for(
    log: Log, clock: FakeClock
) -> None:
    times = {"conv_3": 30, "conv_1": 10, "conv_2": 20, "conv_0": None, "conv_4": 0}
    for name, at in times.items():
        await log.send(LogId(name), [opened(profile_id=BOB)])
        lease = await log.acquire(LogId(name), "me")
        assert lease is not None
        await log.release(lease, head=1, wake_at=None if at is None else Moment(at))
    found = await log.pending(limit=3)
    assert [(each.log_id, each.wake_at) for each in found] == [
        ("conv_4", 0),
        ("conv_1", 10),
        ("conv_2", 20),
    ]
    assert {each.profile_id for each in found} == {BOB}
    among = {LogId("conv_3"), LogId("conv_2"), LogId("conv_9")}
    found = await log.pending(limit=9, among=among)
    assert [each.log_id for each in found] == ["conv_2", "conv_3"]
    assert await log.pending(limit=9, among=()) == []


async def test_a_task_that_ended_leaves_nothing_to_do(log: Log) -> None:
    lease = await held(log)
    records = await log.append(lease, [started(), ended()])
    assert records[-1].task_id == ONE
    assert not await log.release(lease, head=4)
    assert not await log.pending(limit=9)


async def test_begin_holds_a_log_for_the_usual_time(log: Log, clock: FakeClock) -> None:
    await log.begin(CHAT, [opened(), message(), started()], "me", head=0)
    clock.advance(2.9)
    assert await log.acquire(CHAT, "another") is None
    clock.advance(0.2)
    assert await log.acquire(CHAT, "another") is not None


IN_USE = [
    (opened(), "the log 'conv_1' already exists; use a new id"),
    (message(ONE), "the task 'task_1' already exists; use a new id"),
]


@pytest.mark.parametrize(("sent", "message"), IN_USE)
async def test_an_id_in_use_is_refused_with_the_next_step(
    log: Log, sent: Entry, message: str
) -> None:
    await held(log)
    with pytest.raises(NameTaken) as refusal:
        await log.send(CHAT, [sent])
    assert str(refusal.value) == message
