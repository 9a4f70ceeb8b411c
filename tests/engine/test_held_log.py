"""A held log: the order of events, outside events, and the loss of the lease."""

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import AlreadyAnswered, LeaseLost, QuestionClosed, SessionBusy, TaskOver
from penstock.core.events.events import (
    CancelRequested,
    Entry,
    QuestionAsked,
    Record,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.ids import TaskId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.engine.held_log import MOMENT_SECONDS, HeldLog
from penstock.engine.session_state import SessionState, fold
from penstock.store.logs.log import Lease
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.session_events import (
    LOG,
    ONE,
    TWO,
    answered,
    ended,
    held_log,
    message,
    outcome,
    path_of,
    question,
    reply,
)


async def kinds(log: MemoryLog) -> list[str]:
    return [type(each.event).__name__ for each in await log.read(LOG)][2:]


async def test_added_events_are_folded_at_once_and_written_in_order() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    assert held.state.current
    assert await kinds(log) == []
    held.submit()
    held.add(reply(1, "a"), ONE)
    assert await held.commit() == 4
    assert await kinds(log) == ["TaskStarted", "ReplyReceived"]


async def test_concurrent_commits_keep_their_order() -> None:
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)

    async def work(name: str) -> int:
        held.add(outcome(name), ONE, path_of(name))
        return await held.commit()

    working = [asyncio.ensure_future(work(str(number))) for number in range(5)]
    await settle()
    assert await kinds(log) == ["TaskStarted"] + ["CallSettled"] * 5
    assert not any(each.done() for each in working)
    log.let_go()
    assert set(await asyncio.gather(*working)) == {8}
    written = [str(each.path)[-1] for each in (await log.read(LOG))[3:]]
    assert written == ["0", "1", "2", "3", "4"]


async def test_commit_waits_for_events_that_others_submitted() -> None:
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    held.submit()
    waiting = asyncio.ensure_future(held.commit())
    await settle()
    assert not waiting.done()
    log.let_go()
    assert await waiting == 3


async def test_a_cancelled_commit_does_not_cancel_others() -> None:
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    first, second = (asyncio.ensure_future(held.commit()) for _ in range(2))
    await settle()
    first.cancel()
    log.let_go()
    assert await second == 3


async def test_outside_events_are_read_with_the_next_commit() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), log=log)
    await log.send(LOG, [Entry(message("2"), TWO)])
    assert TWO not in held.state.queue
    held.add(reply(1, text="A"), ONE)
    assert await held.commit() == 5
    assert TWO in held.state.queue


async def test_an_own_event_is_not_applied_twice() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), reply(1, "a"), log=log)
    await log.send(LOG, [Entry(CancelRequested(), ONE)])
    await held.refresh()
    await held.refresh()
    assert held.state.current
    assert held.state.current.spent.model_calls == 1
    assert held.state.seq == 5


async def test_a_cancel_is_notified_once() -> None:
    log, told = MemoryLog(FakeClock()), list[str]()
    held = await held_log(TaskStarted(), log=log)
    held.when_cancelled(told.append)
    await log.send(LOG, [Entry(CancelRequested(), ONE)])
    await held.refresh()
    await held.refresh()
    assert told == [ONE]


async def test_a_log_with_unread_events_is_not_released() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), ended(), log=log)
    await log.send(LOG, [Entry(message("2"), TWO)])
    assert not await held.release(wake_at=None)
    assert TWO in held.state.queue
    held.add(ended(), TWO)
    assert await held.release(wake_at=None)
    assert await log.pending(limit=9) == []


async def test_a_lost_lease_ends_every_commit() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    held = await held_log(TaskStarted(), log=log, clock=clock)
    clock.advance(4)
    assert await log.acquire(LOG, "other")
    held.add(reply(1, text="A"), ONE)
    for _ in range(2):
        with pytest.raises(LeaseLost):
            await held.commit()
    with pytest.raises(LeaseLost):
        await held.make_sure()
    assert await kinds(log) == ["TaskStarted"]


@pytest.mark.parametrize(("leaves", "stopped"), [(False, ["stopped"]), (True, [])])
async def test_a_lost_lease_stops_the_work_unless_it_has_ended(
    leaves: bool, stopped: list[str]
) -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    held = await held_log(log=log, clock=clock)
    told: list[str] = []
    held.when_lost(lambda: told.append("stopped"))
    clock.advance(10)
    assert await log.acquire(LOG, "other")
    if leaves:
        held.leave()
    await held.keep()
    assert (told, held.lost is None) == (stopped, False)


async def test_a_process_that_was_frozen_makes_sure_before_it_acts() -> None:
    clock = FakeClock()
    log = MemoryLog(clock)
    held = await held_log(log=log, clock=clock)
    await held.make_sure()
    clock.advance(10)
    await held.make_sure()
    assert await log.acquire(LOG, "other") is None


class SlowLog(MemoryLog):
    """Writes immediately, and reports it after `let_go`."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._is_slow = asyncio.Event()

    def let_go(self) -> None:
        self._is_slow.set()

    def append(self, lease: Lease, entries: Sequence[Entry]) -> Awaitable[Sequence[Record]]:
        return Late(super().append(lease, entries), self._is_slow)


class Late:
    """An append whose outcome is not reported before `let_go`."""

    def __init__(self, done: Awaitable[Sequence[Record]], let_go: asyncio.Event) -> None:
        self._done = done
        self._let_go = let_go

    def __await__(self) -> Generator[Any, None, Sequence[Record]]:
        """Wait until it is released."""
        yield from self._let_go.wait().__await__()
        return (yield from self._done.__await__())


def snapshot(state: SessionState) -> Any:
    """Return the state that decides how the session continues."""
    task, turn = state.current, state.next_task()
    return (
        turn and turn.task_id,
        state.messages.entries,
        state.messages.tokens,
        [(each.task_id, each.cancel_requested) for each in state.queue.values()],
        task
        and (
            task.task_id,
            task.main.iteration,
            task.is_suspended,
            task.cancel_requested,
            task.is_ended,
            task.main.reply,
            sorted(task.waits.waiting),
            task.waits.answers,
            task.settled,
            task.main.messages.requests,
        ),
    )


class Holder:
    """Plays a holder that takes one valid action after another, chosen by the test."""

    def __init__(self, log: MemoryLog, held: HeldLog) -> None:
        self.log = log
        self.held = held
        self.number = 0

    async def do(self, what: str) -> None:
        """Do it, if it makes sense now."""
        self.number += 1
        if what in {"say", "answer", "cancel"}:
            await self._outside(what)
        elif what == "commit":
            await self.held.commit()
        elif what == "refresh":
            await self.held.refresh()
        else:
            self._inside(what)

    async def _outside(self, what: str) -> None:
        task = self.held.state.current
        if what == "say":
            entry = Entry(message(str(self.number)), TaskId(f"task_{self.number}"))
        elif task is None or task.is_ended:
            return
        elif what == "cancel":
            entry = Entry(CancelRequested(), task.task_id)
        elif task.waits.waiting:
            asked = next(iter(task.waits.waiting.values()))
            entry = Entry(answered(str(asked.question_id).removeprefix("q_")), task.task_id)
        else:
            return
        with suppress(AlreadyAnswered, QuestionClosed, SessionBusy, TaskOver):
            await self.log.send(LOG, [entry])

    def _inside(self, what: str) -> None:
        state, held = self.held.state, self.held
        task = state.current
        if task is None or task.is_ended:
            if state.queue and what == "start":
                held.add(TaskStarted(), next(iter(state.queue)))
            return
        open_calls = [
            call for call in (task.main.reply.calls if task.main.reply else ())
            if path_of(call.call_id) not in task.settled
        ]  # fmt: skip
        if what == "reply" and task.main.reply is None:
            names = (f"a{self.number}", f"b{self.number}")
            held.add(reply(task.main.iteration + 1, *names), task.task_id)
        elif what == "settle" and open_calls:
            name = open_calls[-1].call_id
            held.add(outcome(name), task.task_id, path_of(name))
        elif (
            what == "ask" and open_calls and path_of(open_calls[0].call_id) not in task.waits.asked
        ):
            asked = question(open_calls[0].call_id)
            held.add(QuestionAsked(question=asked), task.task_id, asked.path)
            held.submit()
        elif what == "park" and task.waits.waiting:
            held.add(TaskSuspended(questions=tuple(task.waits.waiting)), task.task_id)
        elif what == "resume":
            held.add(TaskResumed(), task.task_id)
        elif what == "end":
            held.add(ended(), task.task_id)


DEEDS = ["say", "answer", "cancel", "start", "reply", "settle", "ask", "park", "resume", "end"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([*DEEDS, *["answer", "park", "commit", "refresh"] * 2]), max_size=60)
)
async def test_the_log_always_folds_to_the_state_that_wrote_it(deeds: list[str]) -> None:
    log = MemoryLog(FakeClock())
    holder = Holder(log, await held_log(log=log))
    for deed in ["start", "reply", "ask", *deeds]:
        await holder.do(deed)
        if deed in {"commit", "refresh"}:
            await holder.held.commit()
            await holder.held.refresh()
            records = await log.read(LOG)
            assert snapshot(fold(LOG, records)) == snapshot(holder.held.state)
            assert holder.held.state.seq == len(records)


# ---- changes -------------------------------------------------------------------------------------


def put(name: str, *expected: str | None) -> StateChange:
    scope = Scope(ScopeKind.SHARED, "s")
    return StateChange(
        verb=StateVerb.PUT, scope=scope, key="k", revision=name, value=name, expected=expected
    )


async def test_the_outcome_of_a_change_is_known_once_it_is_on_disk() -> None:
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    task = held.state.current
    assert task
    held.add_change(outcome("a"), put("r1"), ONE, path_of("a"))
    committing = asyncio.ensure_future(held.commit())
    await settle()
    assert not task.settled
    log.let_go()
    await committing
    found = task.settled[path_of("a")].envelope.output
    assert found == {"ok": True, "entry": {"key": "k", "revision": "r1"}}


async def test_an_outcome_is_applied_after_an_outside_event() -> None:
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    held.add_change(outcome("a"), put("r1"), ONE, path_of("a"))
    held.submit()
    await log.send(LOG, [Entry(CancelRequested(), ONE)])
    await held.refresh()
    log.let_go()
    await held.commit()
    assert held.state.current
    assert path_of("a") in held.state.current.settled
    assert held.state.current.cancel_requested


async def test_outcomes_are_delivered_in_the_order_of_the_log() -> None:
    """L4: "in the order in which they first settled"."""
    log = SlowLog(FakeClock())
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    held.add_change(outcome("a"), put("r1"), ONE, path_of("a"))
    held.add(outcome("b"), ONE, path_of("b"))
    waiting = asyncio.ensure_future(held.in_order())
    await settle()
    assert not waiting.done()
    log.let_go()
    await waiting
    await held.in_order()
    again = fold(LOG, await log.read(LOG)).current
    assert held.state.current
    assert again
    assert again.settled == held.state.current.settled
    assert list(again.settled) == [path_of("a"), path_of("b")]


@pytest.mark.parametrize(("leaves", "written"), [(False, ["TaskStarted"]), (True, [])])
async def test_a_delayed_commit_is_dropped_once_the_log_is_left(
    leaves: bool, written: list[str]
) -> None:
    log, moment = MemoryLog(FakeClock()), asyncio.Event()
    held = await held_log(log=log)
    held.add(TaskStarted(), ONE)
    held.submit_later()
    if leaves:
        held.leave()
    asyncio.get_running_loop().call_later(2 * MOMENT_SECONDS, moment.set)
    await moment.wait()
    assert await kinds(log) == written
