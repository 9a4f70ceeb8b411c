"""The contract of every log about holders that died; `test_lease.py` tests the count."""

from collections.abc import Sequence

import pytest

from penstock.core.errors import SessionBusy
from penstock.core.events.events import Entry, TaskBlocked
from penstock.core.ids import LogId, TaskId
from penstock.core.task import Missing, MissingKind
from penstock.store.logs.log import Lease, Log
from penstock.store.logs.owners import this_process
from penstock.testing.clock import FakeClock
from tests.kit.log_entries import CHAT, ONE, held, message, opened, settled, started, taken

LOGS = [LogId(f"conv_{letter}") for letter in "abcd"]


async def made(log: Log) -> None:
    for log_id in LOGS:
        await log.send(log_id, [opened(), message(TaskId(f"task_{log_id}"))])


async def die(log: Log, clock: FakeClock, name: str) -> list[LogId]:
    """Have a process take what it gets, and die; returns what it got."""
    host, boot, *_ = this_process("me").split("/")
    found = [each.log_id for each in await log.pending(limit=9)]
    owner = f"{host}/{boot}/4194305/1/{name}"
    got = [log_id for log_id in found if await log.acquire(log_id, owner)]
    clock.advance(1)
    return sorted(got)


async def test_suspects_resume_in_halves_until_each_runs_alone(log: Log, clock: FakeClock) -> None:
    await made(log)
    assert [await die(log, clock, owner) for owner in "12"] == [LOGS, LOGS]
    halves = [await die(log, clock, owner) for owner in "34"]
    assert halves == [LOGS[:2], LOGS[2:]], "the half that was not tried comes first"
    alone = [await die(log, clock, owner) for owner in "5678"]
    assert sorted(alone) == [[each] for each in LOGS], "one at a time, by turns"
    found = [(each.deaths, each.alone, each.is_at_work) for each in await log.suspects()]
    assert sorted(found) == [(3, 0, True), (4, 1, False), (4, 1, False), (4, 1, False)]


async def test_a_log_that_was_never_cut_starts_beside_suspects_and_is_not_one(
    log: Log, clock: FakeClock
) -> None:
    await held(log, "1")
    clock.advance(4)
    await taken(log, "2")
    clock.advance(4)
    suspect = await taken(log, "3")
    await log.send(LOGS[0], [opened(), message(TaskId("task_2"))])
    beside = await log.acquire(LOGS[0], "3")
    assert (suspect.recoveries, suspect.alone, beside and beside.recoveries) == (2, 2, 0)
    clock.advance(4)
    again = await taken(log, "4")
    assert (again.recoveries, again.alone) == (3, 3)
    assert await log.acquire(LOGS[0], "4") is None, "not beside the suspect, after the crash"
    await log.append(again, [settled("got on")])
    innocent = await log.acquire(LOGS[0], "4")
    assert innocent
    assert (innocent.recoveries, innocent.alone) == (1, 0)


async def test_a_stop_counts_no_crash_and_clears_none(log: Log, clock: FakeClock) -> None:
    await held(log, "1")
    clock.advance(4)
    counts = []
    for owner in "2345":
        lease = await taken(log, owner)
        counts.append(lease.recoveries)
        await log.surrender(lease)
    lease = await taken(log, "6")
    clock.advance(4)
    counts.append((await taken(log, "7")).recoveries)
    assert counts == [1, 1, 1, 1, 2]


async def test_a_stop_after_a_step_clears(log: Log, clock: FakeClock) -> None:
    await held(log, "1")
    clock.advance(4)
    lease = await taken(log, "2")
    await log.append(lease, [settled("got on")])
    await log.surrender(lease)
    assert (await taken(log, "3")).recoveries == 0


async def test_a_block_in_another_process_is_not_progress(log: Log, clock: FakeClock) -> None:
    """Else crashes would begin at one again, each time another process tried the task."""
    blocked = Entry(TaskBlocked(blocked_on=(Missing(MissingKind.AGENT, "a"),)), ONE)
    await held(log, "1")
    counts = []
    for owner in "234":
        clock.advance(4)
        lease = await taken(log, f"without {owner}")
        await log.append(lease, [blocked])
        await log.surrender(lease)
        counts.append((await taken(log, owner)).recoveries)
    assert counts == [1, 2, 3]


@pytest.mark.parametrize("others", [0, 3])
async def test_a_lease_that_expired_beside_valid_ones_waits_for_its_cause(
    log: Log, clock: FakeClock, others: int
) -> None:
    """A process that died lost all of them; one that lives renews the others meanwhile."""
    await made(log)
    await held(log, "alive")
    clock.advance(2)
    rest: Sequence[Lease | None] = [await log.acquire(each, "alive") for each in LOGS[:others]]
    clock.advance(1)
    first = await log.acquire(CHAT, "another")
    assert (first is None) == bool(others)
    clock.advance(2)
    for lease in rest:
        assert lease is not None
        await log.renew(lease, after=0)
    if others:
        after = await taken(log, "another")
        assert (after.recoveries, after.alone) == (1, 1)
        assert await log.acquire(LOGS[0], "another") is None, "it lives, and keeps the others"


async def test_tasks_that_wait_behind_a_blocked_one_are_counted_as_all_that_wait(
    log: Log, clock: FakeClock
) -> None:
    """Three may wait: a blocked conversation takes no more messages than another."""
    blocked = TaskBlocked(blocked_on=(Missing(MissingKind.AGENT, "a"),))
    lease = await held(log)
    waiting = [TaskId(f"task_{number}") for number in range(2, 4)]
    for task_id in waiting:
        await log.send(CHAT, [message(task_id)])
    await log.append(lease, [Entry(blocked, each) for each in (ONE, *waiting)])
    with pytest.raises(SessionBusy):
        await log.send(CHAT, [message(TaskId("task_5"))])
    await log.append(lease, [started()])
    await log.send(CHAT, [message(TaskId("task_5"))])
