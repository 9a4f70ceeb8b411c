"""The bus: committed events and deltas to readers in this process, bounded."""

import asyncio

import pytest

from penstock.core.clock import Moment
from penstock.core.events.events import Record, TaskEnded, TaskStarted, TaskSuspended
from penstock.core.ids import LogId, TaskId
from penstock.core.task import TaskStatus
from penstock.engine.bus import (
    Bus,
    Delta,
    DeltaKind,
    LiveReply,
    ReplyStarted,
    SharedTimer,
    Subscription,
)

LOG, OTHER = LogId("conv_1"), LogId("conv_2")
TASK = TaskId("task_1")
ENDED = TaskEnded(status=TaskStatus.SUCCEEDED)


def record(seq: int, event: TaskStarted | TaskEnded | TaskSuspended, log_id: LogId = LOG) -> Record:
    return Record(log_id, seq, Moment(seq), TASK, None, event)


def live_reply() -> LiveReply:
    return LiveReply(LOG, TASK, base=3, iteration=1)


def test_a_reader_gets_only_the_events_of_its_log() -> None:
    bus = Bus()
    reader = bus.subscribe(LOG, 10)
    bus.publish([record(1, TaskStarted()), record(1, TaskStarted(), OTHER)])
    assert reader.take() == [record(1, TaskStarted())]
    assert reader.take() == []


def test_pieces_of_a_reply_carry_the_count_of_units_so_far() -> None:
    bus, reply = Bus(), live_reply()
    reader = bus.subscribe(LOG, 10)
    bus.begin(reply)
    bus.say(reply, DeltaKind.REASONING, "hm")
    bus.say(reply, DeltaKind.TEXT, "Hello")
    assert reader.take() == [
        ReplyStarted(reply),
        Delta(reply, DeltaKind.REASONING, "hm", 2),
        Delta(reply, DeltaKind.TEXT, "Hello", 7),
    ]
    assert reply.pieces == [(DeltaKind.REASONING, "hm"), (DeltaKind.TEXT, "Hello")]


def test_a_late_reader_gets_the_reply_so_far() -> None:
    bus, reply = Bus(), live_reply()
    bus.begin(reply)
    bus.say(reply, DeltaKind.TEXT, "Hel")
    assert bus.reply(LOG) is reply
    assert bus.reply(OTHER) is None
    bus.end(reply)
    assert bus.reply(LOG) is None


def test_the_end_of_an_older_reply_leaves_the_newer_one() -> None:
    bus, old, new = Bus(), live_reply(), live_reply()
    bus.begin(old)
    bus.begin(new)
    bus.end(old)
    assert bus.reply(LOG) is new


def test_a_reader_that_falls_too_far_behind_is_cut() -> None:
    bus = Bus()
    reader, other = bus.subscribe(LOG, 2), bus.subscribe(LOG, 10)
    for seq in range(1, 5):
        bus.publish([record(seq, TaskStarted())])
    assert reader.is_cut
    assert reader.take() == []
    assert len(other.take()) == 4


async def test_waiters_of_equal_duration_share_one_timer() -> None:
    loop, timer = asyncio.get_running_loop(), SharedTimer()
    waiters = [loop.create_future() for _ in range(100)]
    late, gone = loop.create_future(), loop.create_future()
    sets = {id(timer.set(each, 0.05)) for each in waiters}
    timer.set(late, 60)
    timer.set(gone, 0.05).discard(gone)
    assert len(sets) <= 2
    began = loop.time()
    await asyncio.gather(*waiters)
    assert loop.time() - began >= 0.04
    assert not late.done()
    assert not gone.done()


async def test_a_reader_that_no_longer_waits_is_not_woken() -> None:
    timer, waiter = SharedTimer(), asyncio.get_running_loop().create_future()
    timer.set(waiter, 0)
    waiter.cancel()
    last = asyncio.get_running_loop().create_future()
    timer.set(last, 0.03)
    await last
    assert waiter.cancelled()


async def test_waiting_ends_with_news_with_time_and_with_the_end() -> None:
    bus = Bus()
    reader = bus.subscribe(LOG, 10)
    assert not await reader.wait(0)
    waiting = asyncio.ensure_future(reader.wait(60))
    await asyncio.wait({waiting}, timeout=0)
    bus.publish([record(1, TaskStarted())])
    assert await waiting
    reader.take()
    bus.close()
    assert await reader.wait(60)
    assert reader.is_closed


def test_a_closed_bus_returns_ended_streams() -> None:
    bus = Bus()
    bus.close()
    assert bus.subscribe(LOG, 10).is_closed


def test_readers_of_an_erased_log_are_closed() -> None:
    bus = Bus()
    reader, other = bus.subscribe(LOG, 10), bus.subscribe(OTHER, 10)
    reply = LiveReply(LOG, TASK, 1, 1)
    bus.begin(reply)
    bus.part_with(LOG)
    assert (reader.is_closed, other.is_closed, bus.reply(LOG)) == (True, False, None)
    bus.say(reply, DeltaKind.TEXT, "late")
    bus.end(reply)


def test_an_erasure_withdraws_events_that_readers_have_not_taken() -> None:
    bus = Bus()
    reader, other = bus.subscribe(LOG, 10), bus.subscribe(OTHER, 10)
    bus.publish([record(1, TaskStarted())])
    bus.forget(LOG)
    bus.forget(OTHER)
    assert (reader.take(), reader.is_cut, reader.is_closed, other.take()) == ([], False, False, [])
    bus.publish([record(2, TaskStarted())])
    assert len(reader.take()) == 1


def test_readers_that_left_are_removed() -> None:
    bus = Bus()
    readers = [bus.subscribe(LOG, 10) for _ in range(2)]
    assert bus.is_followed(LOG)
    bus.unsubscribe(LOG, readers[0])
    bus.unsubscribe(LOG, readers[0])
    assert bus.is_followed(LOG)
    bus.publish([record(1, TaskStarted())])
    assert [len(each.take()) for each in readers] == [0, 1]
    bus.unsubscribe(LOG, readers[1])
    bus.unsubscribe(LOG, readers[1])
    assert not bus.is_followed(LOG)


@pytest.mark.parametrize("event", [ENDED, TaskSuspended(questions=())])
async def test_the_end_of_a_task_reaches_all_waiters(event: TaskEnded | TaskSuspended) -> None:
    bus = Bus()
    first, second = bus.end_of(TASK), bus.end_of(TASK)
    second.cancel()
    bus.publish([record(1, TaskStarted())])
    assert not first.done()
    bus.publish([record(2, event)])
    ended = await first
    assert ended is not None
    assert ended.event is event


async def test_a_waiter_that_left_is_not_notified_of_the_end() -> None:
    bus = Bus()
    end = bus.end_of(TASK)
    bus.forget_end(TASK, end)
    bus.forget_end(TASK, end)
    bus.publish([record(2, ENDED)])
    assert not end.done()


def test_a_reader_is_cut_above_its_limit() -> None:
    bus = Bus()
    reader = bus.subscribe(LOG, 2)
    for count in (2, 2, 3):
        bus.publish([record(seq, TaskStarted()) for seq in range(count)])
        assert reader.is_cut is (count > 2)
        assert len(reader.take()) == (count if count <= 2 else 0)


async def test_a_finished_wait_leaves_nothing_in_the_timer() -> None:
    timer = SharedTimer()
    reader = Subscription(10, timer)
    waiter = reader.begin_to_wait(5)
    beside = asyncio.get_running_loop().create_future()
    others = timer.set(beside, 5)
    assert waiter in others or len(others) == 1
    reader.end_to_wait()
    assert waiter not in others
    reader.end_to_wait()
    reader.put(ReplyStarted(live_reply()))
    assert not waiter.done()


async def test_the_end_of_a_stream_wakes_a_waiting_reader() -> None:
    bus = Bus()
    reader = bus.subscribe(LOG, 10)
    waiting = asyncio.ensure_future(reader.wait(60))
    await asyncio.wait({waiting}, timeout=0)
    bus.part_with(LOG)
    done, _ = await asyncio.wait({waiting}, timeout=5)
    assert waiting in done
    assert reader.is_closed


async def test_one_of_two_waiters_for_an_end_may_leave() -> None:
    bus = Bus()
    first, second = bus.end_of(TASK), bus.end_of(TASK)
    bus.forget_end(TASK, first)
    bus.publish([record(2, ENDED)])
    assert (first.done(), second.done()) == (False, True)
