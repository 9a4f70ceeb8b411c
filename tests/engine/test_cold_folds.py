"""Cached states are as new as the log, and never contain erased text."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.core.events.events import Entry, NoteEmitted, Record, SessionOpened, TaskStarted
from penstock.core.events.history_events import Erased, MessagesErased
from penstock.core.ids import LogId, TaskId
from penstock.engine.cold_folds import ColdFolds
from penstock.engine.held_log import HeldLog
from penstock.engine.session_state import SessionState, StateCache, fold
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Lease
from penstock.testing.clock import FakeClock
from penstock.testing.log import MemoryLog
from tests.kit.activations import ActiveLog, finish
from tests.kit.long_logs import LongLog, picture
from tests.kit.session_events import ANN, LOG, ONE, TWO, ended, held_log, message


class Shelf:
    """A log of some conversations, and their states."""

    def __init__(self, *held: LogId, most: int = 9, hears: bool = True) -> None:
        self.log = MemoryLog(FakeClock())
        self.held = set(held)
        self.states = StateCache(self.log, self.held, ColdFolds(self.log).folded, most=most)
        if hears:
            self.log.listen(self.states.observe, of_holders=False)

    async def say(self, log_id: LogId = LOG) -> None:
        opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
        task_id = TaskId(f"task_{log_id}")
        await self.log.send(log_id, [Entry(opened), Entry(message(), task_id)])

    async def lease(self) -> Lease:
        lease = await self.log.acquire(LOG, "me")
        assert lease
        return lease


async def test_events_committed_here_are_folded_at_once() -> None:
    shelf = Shelf()
    await shelf.say()
    await shelf.log.send(LOG, [Entry(message(), TWO)])
    state = shelf.states.find(LOG)
    assert state
    assert (state.seq, list(state.queue)) == (3, ["task_conv_1", TWO])


class PartedLog(MemoryLog):
    """Notes how many events were asked for at once."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.parts: list[int] = []

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        self.parts.append(len(records))
        return records


@pytest.mark.parametrize(
    ("events", "parts"), [(3, [3]), (3999, [3999]), (4000, [4000, 0]), (8001, [4000, 4000, 1])]
)
async def test_a_long_log_is_folded_a_part_at_a_time(events: int, parts: list[int]) -> None:
    shelf = Shelf(hears=False)
    shelf.log = log = PartedLog()
    shelf.states = StateCache(log, (), ColdFolds(log).folded, most=9)
    await shelf.say()
    lease = await shelf.lease()
    notes = [Entry(NoteEmitted(event_type="t"), ONE) for _ in range(events - 2)]
    await log.append(lease, notes)
    await log.surrender(lease)
    state = await shelf.states.take(await shelf.lease())
    assert (log.parts, state.seq, state.tick) == (parts, events, events)


async def test_a_log_with_large_bodies_is_folded_in_smaller_parts() -> None:
    shelf = Shelf(hears=False)
    shelf.log = log = PartedLog()
    shelf.states = StateCache(log, (), ColdFolds(log).folded, most=9)
    await shelf.say()
    lease = await shelf.lease()
    large = NoteEmitted(event_type="t", payload={"text": "x" * 3_000_000})
    await log.append(lease, [Entry(large, ONE)] * 6)
    await log.surrender(lease)
    state = await shelf.states.take(await shelf.lease())
    assert (log.parts, state.seq, state.tick) == ([5, 3], 8, 8)


class ErasedMeanwhile(PartedLog):
    """Loses a message when its first part was read."""

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        if len(self.parts) == 1:
            told = TaskId(f"task_{LOG}")
            await self.send(LOG, [Entry(MessagesErased(of_task=told, user=True, answer=False))])
        return records


async def test_text_erased_between_two_parts_is_in_no_state() -> None:
    shelf = Shelf(hears=False)
    shelf.log = log = ErasedMeanwhile()
    shelf.states = StateCache(log, (), ColdFolds(log).folded, most=9)
    await shelf.say()
    await log.append(await shelf.lease(), [Entry(NoteEmitted(event_type="t"), ONE)] * 4000)
    await shelf.states.ensure_readable(LOG)
    state = shelf.states.find(LOG)
    assert state
    assert (log.parts, state.seq) == ([4000, 3, 4000, 3], 4003)


async def test_events_of_others_are_read_when_the_lease_is_acquired() -> None:
    shelf = Shelf(hears=False)
    await shelf.say()
    await shelf.states.ensure_readable(LOG)
    await shelf.log.send(LOG, [Entry(message(), TWO)])
    state = await shelf.states.take(await shelf.lease())
    assert (state.seq, list(state.queue)) == (3, ["task_conv_1", TWO])
    assert shelf.states.find(LOG) is None


async def test_the_state_that_was_put_back_first_goes_first() -> None:
    shelf = Shelf(most=2)
    names = [LogId(each) for each in ("a", "b", "c")]
    for name in names:
        await shelf.say(name)
    assert [shelf.states.find(name) is not None for name in names] == [False, True, True]


@pytest.mark.parametrize("hears", [True, False])
async def test_a_log_is_folded_again_after_an_erasure(hears: bool) -> None:
    shelf = Shelf(hears=hears)
    await shelf.say()
    await shelf.states.ensure_readable(LOG)
    before, told = shelf.states.find(LOG), TaskId(f"task_{LOG}")
    await shelf.log.send(LOG, [Entry(MessagesErased(of_task=told, user=True, answer=False))])
    assert (shelf.states.find(LOG) is None) is hears  # what is erased does not stay in memory
    assert await shelf.states.take(await shelf.lease()) is not before


async def test_a_state_in_use_is_not_cached_after_an_erasure() -> None:
    shelf = Shelf(LOG)
    await shelf.say()
    state = await shelf.states.take(await shelf.lease())
    shelf.states.forget(LOG)
    shelf.states.keep(state)
    assert shelf.states.find(LOG) is None
    shelf.states.keep(state)
    assert shelf.states.find(LOG) is state


async def test_a_missing_or_running_log_is_not_looked_up() -> None:
    shelf = Shelf(LogId("b"), hears=False)
    for name in (LOG, LogId("b")):
        await shelf.states.ensure_readable(name)
        assert shelf.states.find(name) is None


async def test_a_log_that_loses_text_while_it_is_looked_up_is_not_kept() -> None:
    """A state that was read before the erase is not cached after it."""

    class Forgotten(MemoryLog):
        async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
            records = await super().read(log_id, **part)
            states.forget(log_id)
            return records

    log = Forgotten(FakeClock())
    states = StateCache(log, (), ColdFolds(log).folded, most=1)
    opened = SessionOpened(profile_id=ANN, agent="assistant", title="")
    await log.send(LOG, [Entry(opened), Entry(message(), ONE)])
    await states.ensure_readable(LOG)
    assert states.find(LOG) is None


async def test_states_of_logs_in_which_others_erased_something_are_dropped() -> None:
    """What others merely wrote to is read on when it is needed."""
    shelf = Shelf(hears=False)
    names = [LogId(each) for each in ("written", "erased", "left")]
    for name in names:
        await shelf.say(name)
        await shelf.states.ensure_readable(name)
    told = TaskId("task_erased")
    await shelf.log.send(names[0], [Entry(message(), TWO)])
    await shelf.log.send(names[1], [Entry(MessagesErased(of_task=told, user=True, answer=True))])
    await shelf.states.drop_erased()
    assert [shelf.states.find(name) is not None for name in names] == [True, False, True]


# ---- what an activation keeps ----


class CountedLog(MemoryLog):
    """Notes from where it is read."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.reads: list[int] = []

    async def read(self, log_id: LogId, *, after: int = 0, **part: Any) -> Sequence[Record]:
        self.reads.append(after)
        return await super().read(log_id, after=after, **part)


async def test_a_folded_log_is_not_read_again_until_it_is_forgotten() -> None:
    log = CountedLog()
    active = ActiveLog(finish, log=log)
    await active.say()
    await active.run()
    log.reads.clear()
    await active.say(TWO, is_new=False)
    await active.run()
    assert log.reads == [4]
    active.activations.forget(LOG)
    await active.say(TaskId("task_3"), is_new=False)
    await active.run()
    assert log.reads == [4, 0]


async def test_text_erased_by_another_process_is_not_remembered() -> None:
    """Only the event shows it: the text is blank on disk, not in the cached fold."""
    seen: list[list[str]] = []

    async def look(held: HeldLog, task: TaskState) -> None:
        held.add(TaskStarted(), task.task_id)
        seen.append([each.content for each in held.state.messages.entries])
        held.add(ended(), task.task_id)

    log = BlankedLog(FakeClock())
    active = ActiveLog(look, log=log)
    await active.say()
    await active.run()
    log.is_blank = True
    await active.log.send(LOG, [Entry(MessagesErased(of_task=ONE, user=True, answer=True), ONE)])
    await active.say(TWO, is_new=False)
    await active.run()
    assert seen == [["Hi"], ["Hi"]]


class BlankedLog(MemoryLog):
    """Has lost the text of its first message, on demand."""

    is_blank = False

    async def read(self, log_id: LogId, **part: Any) -> Sequence[Record]:
        records = await super().read(log_id, **part)
        if not self.is_blank:
            return records
        return [replace(each, event=Erased()) if each.seq == 2 else each for each in records]


async def test_a_cached_log_is_not_folded_again_for_a_lookup() -> None:
    shelf = Shelf()
    await shelf.say()
    state = shelf.states.find(LOG)
    await shelf.states.ensure_readable(LOG)
    assert shelf.states.find(LOG) is state


# ---- snapshots -----------------------------------------------------------------------------------


class Long:
    """A log of many short tasks, written by another process, and its snapshots."""

    def __init__(self, tasks: int = 130) -> None:
        self.log = MemoryLog(FakeClock())
        self.folds = ColdFolds(self.log)
        self.states = StateCache(self.log, (), self.folds.folded)
        self.talk = LongLog()
        for _ in range(tasks):
            for deed in ("say", "start", "end"):
                self.talk.do(deed)

    async def write(self) -> None:
        """Append to the log what was played since."""
        for record in self.talk.records[await self.log.head(LOG) :]:
            await self.log.send(LOG, [Entry(record.event, record.task_id, record.path)])

    async def save(self) -> int:
        """Fold the log, and write what is due; return how many events the snapshot has."""
        await self.write()
        await self.states.ensure_readable(LOG)
        await self.folds.save(self.states.next_due)
        kept = await self.log.snapshots.read(LOG)
        return kept.seq if kept else 0

    async def whole(self) -> SessionState:
        return fold(LOG, await self.log.read(LOG))

    async def folded(self) -> SessionState:
        return await self.folds.folded(LOG, await self.log.head(LOG))


@pytest.mark.parametrize(("tasks", "events"), [(1, 0), (124, 0), (125, 501)])
async def test_a_snapshot_is_written_once_enough_events_lie_behind_the_last(
    tasks: int, events: int
) -> None:
    long = Long(tasks)
    assert await long.save() == events
    assert await long.save() == events


async def test_a_cold_fold_continues_from_the_snapshot() -> None:
    long = Long()
    await long.save()
    for deed in ("say", "start", "reply", "end"):
        long.talk.do(deed)
    await long.write()
    state = await long.folded()
    assert state.saved == 521
    assert picture(state) == picture(await long.whole())


async def test_a_message_that_replaces_what_was_left_out_is_folded_from_the_first_event() -> None:
    long = Long()
    for deed in ("say", "fresh", "end"):
        long.talk.do(deed)
    await long.save()
    long.talk.do("oldest")
    await long.write()
    state = await long.folded()
    assert (state.saved, state.omits) == (0, False)
    assert picture(state) == picture(await long.whole())


Damage = dict[str, Any]


@pytest.mark.parametrize(
    "damage", [{"version": "another"}, {"seq": 10**6}, {"body": b"\x80"}, {"body": b""}]
)
async def test_a_snapshot_that_does_not_fit_is_ignored(damage: Damage) -> None:
    long = Long()
    await long.save()
    kept = await long.log.snapshots.read(LOG)
    assert kept
    long.log.snapshots.kept[LOG] = kept._replace(**damage)
    state = await long.folded()
    assert state.saved == 0
    assert picture(state) == picture(await long.whole())


async def test_text_that_was_erased_after_the_snapshot_is_in_no_state() -> None:
    long = Long()
    await long.save()
    kept = await long.log.snapshots.read(LOG)
    assert kept
    erased = MessagesErased(of_task=long.talk.tasks[0], user=True, answer=True)
    await long.log.send(LOG, [Entry(erased, long.talk.tasks[0])])
    long.log.snapshots.kept[LOG] = kept  # read before the transaction that erased
    assert (await long.folded()).saved == 0
    assert not await long.log.snapshots.write(LOG, kept)


async def test_a_state_that_was_held_during_an_erasure_elsewhere_is_not_kept() -> None:
    log = MemoryLog(FakeClock())
    held = await held_log(TaskStarted(), ended(), log=log)
    await log.send(LOG, [Entry(MessagesErased(of_task=ONE, user=True, answer=True), ONE)])
    await held.refresh()
    states = StateCache(log, (), ColdFolds(log).folded)
    states.keep(held.state)
    assert states.find(LOG) is None


async def test_a_log_that_is_taken_before_its_turn_is_not_saved() -> None:
    long = Long()
    await long.write()
    await long.states.ensure_readable(LOG)
    lease = await long.log.acquire(LOG, "me")
    assert lease
    await long.states.take(lease)
    await long.folds.save(long.states.next_due)
    assert await long.log.snapshots.read(LOG) is None
