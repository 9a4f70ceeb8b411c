"""A log from any event on: stored events, then live ones, without gaps or duplicates."""

import asyncio
from collections.abc import Sequence

import pytest
from anyio.lowlevel import checkpoint

from penstock.chat.log_follower import PAGE, LogSource, LogTail, follow, so_far
from penstock.core.clock import SystemClock
from penstock.core.events.events import (
    Entry,
    MessageReceived,
    NoteEmitted,
    Record,
    SessionOpened,
)
from penstock.core.ids import LogId, MessageId, ProfileId, TaskId
from penstock.core.limits import Limits
from penstock.engine.bus import Bus, Delta, DeltaKind, Live, LiveReply, ReplyStarted
from penstock.store.logs.log import Lease, TextPiece, TextPosition
from penstock.testing.log import MemoryLog

LOG, TASK = LogId("conv_1"), TaskId("task_1")
OPENED = SessionOpened(profile_id=ProfileId("local"), agent="assistant", title="t")
FAST = Limits(poll_seconds=0.01, ping_seconds=0.05)
FRAMES = 8


class Scene:
    """A log with two events, and the bus that publishes what is written here."""

    def __init__(self, limits: Limits = FAST) -> None:
        self.log = MemoryLog(SystemClock(), limits)
        self.bus = Bus()
        self.source = LogSource(log=self.log, bus=self.bus, limits=limits, max_frames=FRAMES)

    async def open(self) -> None:
        message = MessageReceived(message_id=MessageId("msg_1"), content="?")
        await self.log.send(LOG, [Entry(OPENED), Entry(message, TASK)])

    def listen(self) -> None:
        self.log.listen(self.bus.publish)

    async def write(self, count: int = 1) -> None:
        await self.log.send(LOG, [Entry(NoteEmitted(event_type="n"), TASK)] * count)

    def begin(self, base: int) -> LiveReply:
        reply = LiveReply(LOG, TASK, base, 1)
        self.bus.begin(reply)
        return reply


@pytest.fixture
async def scene() -> Scene:
    """A log that this process writes."""
    scene = Scene()
    await scene.open()
    scene.listen()
    return scene


def seqs(items: Sequence[Live] | None) -> list[int]:
    """Return the `seq` of each event among the items."""
    return [each.seq for each in items or () if isinstance(each, Record)]


async def test_stored_events_come_before_live_ones(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=0)
    assert seqs(await tail.take()) == [1, 2]
    await scene.write()
    assert seqs(await tail.take()) == [3]


async def test_an_event_during_the_first_read_is_delivered_once(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=1)
    await scene.write(2)
    assert seqs(await tail.take()) == [2, 3, 4]
    await scene.write()
    assert seqs(await tail.take()) == [5]


async def test_a_reader_from_the_start_does_not_read_the_log(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    await scene.write()
    assert seqs(await tail.take()) == [3]


async def test_a_long_log_is_read_in_pages(scene: Scene) -> None:
    await scene.write(PAGE)
    tail = LogTail(scene.source, LOG, after=0)
    pages = [seqs(await tail.take()), seqs(await tail.take())]
    assert [len(page) for page in pages] == [PAGE, 2]
    assert not tail.is_stored


async def test_a_gap_is_filled_from_the_log(scene: Scene) -> None:
    """Another process wrote events that the bus of this one did not publish."""
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    records = await scene.log.send(LOG, [Entry(NoteEmitted(event_type="n"), TASK)] * 3)
    scene.bus.subscribe(LOG, 1)
    late = LogTail(scene.source, LOG, after=2, stored=False)
    scene.bus.publish(records[2:])
    assert seqs(await tail.take()) == [3, 4, 5]
    assert seqs(await late.take()) == [3, 4, 5]


async def test_events_of_another_process_are_found_by_polling() -> None:
    scene = Scene()
    await scene.open()
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    waiting = asyncio.ensure_future(tail.take())
    await scene.write()
    assert seqs(await waiting) == [3]


async def test_the_log_is_not_polled_while_a_reply_streams_here() -> None:
    scene = Scene()
    await scene.open()
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    scene.begin(2)
    await tail.take()
    await scene.write()
    assert await tail.take() == ()


async def test_a_quiet_tail_returns_after_each_pause(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    tail.is_quiet = True
    assert await tail.take() == ()
    assert await tail.take() == ()


async def test_a_streaming_reply_arrives_from_its_beginning(scene: Scene) -> None:
    reply = scene.begin(2)
    scene.bus.say(reply, DeltaKind.REASONING, "hm")
    scene.bus.say(reply, DeltaKind.TEXT, "Hel")
    tail = LogTail(scene.source, LOG, after=2)
    scene.bus.say(reply, DeltaKind.TEXT, "lo")
    items = await tail.take() or ()
    text_so_far = [(each.kind, each.text, each.units) for each in items if isinstance(each, Delta)]
    assert text_so_far == [(DeltaKind.REASONING, "hm", 2), (DeltaKind.TEXT, "Hello", 7)]
    scene.bus.say(reply, DeltaKind.TEXT, "!")
    (last,) = await tail.take() or ()
    assert isinstance(last, Delta)
    assert (last.text, last.units) == ("!", 8)


async def test_a_burst_is_read_again_from_the_log(scene: Scene) -> None:
    """A reader that waits for more is never too slow."""
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    waiting = asyncio.ensure_future(tail.take())
    await checkpoint()
    reply = scene.begin(2)
    for _ in range(20):
        scene.bus.say(reply, DeltaKind.TEXT, "x")
    started, delta = await waiting or ()
    assert isinstance(started, ReplyStarted)
    assert isinstance(delta, Delta)
    assert delta.text == "x" * 20


async def test_a_slow_reader_is_cut(scene: Scene) -> None:
    """The queue of a slow reader is bounded."""
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    for _ in range(FRAMES + 1):
        await scene.write()
    assert await tail.take() is None


async def test_the_end_of_the_process_ends_the_stream(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    await scene.write()
    scene.bus.close()
    assert seqs(await tail.take()) == [3]
    assert await tail.take() is None
    assert await LogTail(scene.source, LOG, after=3, stored=False).take() is None


async def test_stopping_a_reader_ends_only_its_stream(scene: Scene) -> None:
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    waiting = asyncio.ensure_future(tail.take())
    await checkpoint()
    tail.stop()
    assert await waiting is None
    tail.close()
    assert not scene.bus.is_followed(LOG)


async def test_following_one_task_ends_with_the_task(scene: Scene) -> None:
    other = TaskId("task_2")
    message = MessageReceived(message_id=MessageId("msg_2"), content="?")
    await scene.log.send(LOG, [Entry(message, other)])
    await scene.write()
    scene.bus.close()
    items_of_task = [each async for each in follow(scene.source, LOG, task_id=TASK)]
    assert seqs(items_of_task) == [2, 4]
    assert not scene.bus.is_followed(LOG)


def test_adjacent_pieces_of_a_reply_are_joined() -> None:
    reply = LiveReply(LOG, TASK, 2, 1)
    reply.pieces = [(DeltaKind.TEXT, "a"), (DeltaKind.TEXT, "b"), (DeltaKind.REASONING, "c")]
    started, *deltas = so_far(reply)
    assert started == ReplyStarted(reply)
    assert [(each.text, each.units) for each in deltas if isinstance(each, Delta)] == [
        ("ab", 2),
        ("c", 3),
    ]


async def elsewhere(scene: Scene) -> Lease:
    """Let another process hold the log without notifying this one."""
    lease = await scene.log.acquire(LOG, "another")
    assert lease
    return lease


def piece(units: int, text: str) -> TextPiece:
    spot = TextPosition(2, units)
    return TextPiece(task_id=TASK, spot=spot, iteration=1, closing=False, kind="text", text=text)


async def test_a_reply_that_streams_in_another_process_is_found() -> None:
    scene = Scene()
    await scene.open()
    lease = await elsewhere(scene)
    tail = LogTail(scene.source, LOG, after=0)
    assert seqs(await tail.take()) == [1, 2]
    await scene.log.live_text.write(LOG, lease.epoch, [piece(0, ""), piece(3, "Hel")])
    started, delta = await tail.take() or ()
    assert isinstance(started, ReplyStarted)
    assert isinstance(delta, Delta)
    assert (started.reply.base, delta.text, delta.units) == (2, "Hel", 3)
    await scene.log.live_text.write(LOG, lease.epoch, [piece(5, "lo")])
    assert [each.units for each in await tail.take() or () if isinstance(each, Delta)] == [5]


async def test_events_before_a_remote_reply_come_first() -> None:
    scene = Scene()
    await scene.open()
    lease = await elsewhere(scene)
    tail = LogTail(scene.source, LOG, after=1, stored=False)
    await scene.log.live_text.write(LOG, lease.epoch, [piece(3, "Hel")])
    items = await tail.take() or ()
    assert [type(each) for each in items] == [Record, ReplyStarted, Delta]


async def test_a_quiet_tail_asks_for_no_live_text() -> None:
    scene = Scene()
    await scene.open()
    lease = await elsewhere(scene)
    tail = LogTail(scene.source, LOG, after=2, stored=False)
    tail.is_quiet = True
    assert await tail.take() == ()
    assert not scene.log.live_text.is_followed(LOG, lease.epoch)


class ErasableLog(MemoryLog):
    """A log that can be erased, as another process does it."""

    def erase(self, log_id: LogId) -> None:
        self._logs.pop(log_id)


@pytest.mark.parametrize("replying", [False, True])
async def test_a_stream_ends_when_another_process_erased_its_log(replying: bool) -> None:
    scene = Scene()
    scene.log = log = ErasableLog(SystemClock(), FAST)
    scene.source = LogSource(log=log, bus=scene.bus, limits=FAST)
    await scene.open()
    tail = LogTail(scene.source, LOG, after=0)
    assert seqs(await tail.take()) == [1, 2]
    if replying:
        scene.begin(2)
        assert await tail.take()
    assert await tail.take() == (), "a silence, while the log is there"
    log.erase(LOG)
    assert await tail.take() is None
    tail.close()
