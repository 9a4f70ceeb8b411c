"""The relay: replies on their way are written for readers elsewhere, and only for them."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import UNSET

from penstock.core.errors import StoreFull
from penstock.core.events.events import Entry, MessageReceived, SessionOpened
from penstock.core.ids import LogId, MessageId, ProfileId, TaskId, new_id
from penstock.core.limits import Limits, World
from penstock.engine.bus import Bus, DeltaKind, LiveReply
from penstock.engine.relay import Relay, RelayedReply
from penstock.store.logs.log import (
    OUTPUT_KIND,
    OUTPUT_UNITS,
    TEXT_START,
    Followed,
    Lease,
    LiveText,
    TextPiece,
    TextPosition,
)
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog

LOG, TASK = LogId("conv_1"), TaskId("task_1")
TEXT, REASONING = DeltaKind.TEXT, DeltaKind.REASONING


class BrittleLiveText(LiveText):
    """Records writes, and is full when the test sets it."""

    def __init__(self, there: LiveText) -> None:
        self._there = there
        self.writes: list[Sequence[TextPiece]] = []
        self.is_full = False

    def listen(self, listener: Followed) -> None:
        self._there.listen(listener)

    def is_followed(self, log_id: LogId, epoch: int) -> bool:
        return self._there.is_followed(log_id, epoch)

    async def write(self, log_id: LogId, epoch: int, pieces: Sequence[TextPiece]) -> None:
        if self.is_full:
            raise StoreFull
        self.writes.append(pieces)
        await self._there.write(log_id, epoch, pieces)

    async def read(self, log_id: LogId, *, after: TextPosition = TEXT_START) -> Sequence[TextPiece]:
        return await self._there.read(log_id, after=after)


class Scene:
    """A held log, a bus, and the relay between it and other processes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = MemoryLog(self.clock)
        self.bus = Bus()
        self.live_text = BrittleLiveText(self.log.live_text)
        self.writes = self.live_text.writes
        self.relay = Relay(self.live_text, self.bus, World(self.clock, Limits(), new_id))

    async def hold(self) -> Lease:
        opened = SessionOpened(profile_id=ProfileId("ann"), agent="assistant", title="")
        message = MessageReceived(message_id=MessageId("msg_1"), content="?")
        await self.log.send(LOG, [Entry(opened), Entry(message, TASK)])
        lease = await self.log.acquire(LOG, "me")
        assert lease
        return lease

    async def follow(self, lease: Lease) -> None:
        await self.log.live_text.read(LOG)
        await self.log.renew(lease, after=2)
        await settle()

    async def pass_time(self, seconds: float = 0.1) -> None:
        self.clock.advance(seconds)
        await settle()


@pytest.fixture
async def scene() -> Any:
    """A scene whose relay is closed after the test."""
    opened = Scene()
    yield opened
    await opened.relay.close()


def said(pieces: Sequence[TextPiece]) -> list[tuple[str, str, int]]:
    return [(each.kind, each.text, each.spot.units) for each in pieces]


async def test_without_a_reader_nothing_is_written(scene: Scene) -> None:
    lease = await scene.hold()
    reply = LiveReply(LOG, TASK, 2, 1)
    scene.bus.begin(reply)
    scene.bus.say(reply, TEXT, "Hello")
    await scene.log.renew(lease, after=2)
    await scene.pass_time(9)
    assert scene.writes == []


async def test_new_text_is_written_at_most_once_per_interval(scene: Scene) -> None:
    """One coalesced row at most every 100 ms."""
    lease = await scene.hold()
    reply = LiveReply(LOG, TASK, 2, 1)
    scene.bus.begin(reply)
    scene.bus.say(reply, REASONING, "Hm")
    await scene.follow(lease)
    for text in "Hello":
        scene.bus.say(reply, TEXT, text)
        await settle()
    assert [said(each) for each in scene.writes] == [[("text", "", 0), ("reasoning", "Hm", 2)]]
    await scene.pass_time()
    await scene.pass_time()
    assert [said(each) for each in scene.writes[1:]] == [[("text", "Hello", 7)]]
    assert said(await scene.log.live_text.read(LOG)) == [
        ("text", "", 0),
        ("reasoning", "Hm", 2),
        ("text", "Hello", 7),
    ]


async def test_a_reply_that_begins_later_is_relayed_from_its_beginning(scene: Scene) -> None:
    lease = await scene.hold()
    await scene.follow(lease)
    assert scene.writes == []
    for base in (2, 5):
        reply = LiveReply(LOG, TASK, base, 1)
        scene.bus.begin(reply)
        scene.bus.say(reply, TEXT, "Hi")
        await scene.pass_time()
        scene.bus.end(reply)
        await scene.pass_time()
    assert [each[0].spot for each in scene.writes] == [
        TextPosition(2, 0),
        TextPosition(5, 0),
    ]


async def test_it_ends_with_its_readers_and_begins_again_with_new_ones(scene: Scene) -> None:
    lease = await scene.hold()
    reply = LiveReply(LOG, TASK, 2, 1)
    scene.bus.begin(reply)
    await scene.follow(lease)
    await scene.pass_time(4)
    scene.bus.say(reply, TEXT, "Hi")
    await scene.pass_time()
    assert len(scene.writes) == 1
    await scene.follow(lease)
    assert said(scene.writes[-1]) == [("text", "", 0), ("text", "Hi", 2)]


async def test_only_the_current_holder_relays_a_reply(scene: Scene) -> None:
    lease = await scene.hold()
    await scene.follow(lease)
    reply = LiveReply(LOG, TASK, 2, 1)
    scene.bus.begin(reply)
    await scene.log.surrender(lease)
    await scene.pass_time()
    assert scene.writes == []
    assert await scene.log.acquire(LOG, "me")
    await settle()
    assert [said(each) for each in scene.writes] == [[("text", "", 0)]]


async def test_text_that_could_not_be_written_is_written_later(scene: Scene) -> None:
    lease = await scene.hold()
    reply = LiveReply(LOG, TASK, 2, 1)
    scene.bus.begin(reply)
    scene.live_text.is_full = True
    await scene.follow(lease)
    scene.bus.say(reply, TEXT, "Hel")
    await scene.pass_time()
    scene.live_text.is_full = False
    scene.bus.say(reply, TEXT, "lo")
    await scene.pass_time()
    assert [said(each) for each in scene.writes] == [[("text", "", 0), ("text", "Hello", 5)]]


def test_sent_text_is_not_sent_again() -> None:
    sent, reply = RelayedReply(), LiveReply(LOG, TASK, 2, 3, closing=True)
    reply.pieces = [(TEXT, "a"), (TEXT, ""), (TEXT, "b"), (REASONING, "c")]
    assert said(sent.unsent(reply)) == [("text", "", 0), ("text", "ab", 2), ("reasoning", "c", 3)]
    sent.mark_sent(reply, 3, sent.unsent(reply))
    assert said(sent.unsent(reply)) == [("reasoning", "c", 3)]
    sent.mark_sent(reply, 4, sent.unsent(reply))
    assert sent.unsent(reply) == []
    reply.pieces.append((REASONING, "d"))
    (piece,) = sent.unsent(reply)
    assert (piece.spot, piece.iteration, piece.closing) == (TextPosition(2, 4), 3, True)
    assert piece.spot > TEXT_START


def test_the_typed_output_so_far_is_sent_last_and_again_when_it_has_changed() -> None:
    sent, reply, partial = RelayedReply(), LiveReply(LOG, TASK, 2, 1), list[Any]([UNSET])
    reply.output = lambda: partial[0]
    reply.pieces = [(TEXT, "ab")]
    written = []
    for value in (UNSET, {}, {"a": "\0\ud83d"}, {"a": "\0\ud83d"}, None):
        partial[0] = value
        written.append(pieces := sent.unsent(reply))
        if pieces:
            sent.mark_sent(reply, 1, pieces)
    assert [said(each) for each in written] == [
        [("text", "", 0), ("text", "ab", 2)],
        [(OUTPUT_KIND, "{}", OUTPUT_UNITS)],
        [(OUTPUT_KIND, '{"a": "\\u0000\\ud83d"}', OUTPUT_UNITS)],
        [],
        [(OUTPUT_KIND, "null", OUTPUT_UNITS)],
    ]
    again = LiveReply(LOG, TASK, 2, 1, output=lambda: None)
    assert said(sent.unsent(again)) == [("text", "", 0), (OUTPUT_KIND, "null", OUTPUT_UNITS)]


def test_a_long_output_is_written_again_only_after_it_has_grown_by_a_share_of_itself() -> None:
    """Else a long output that grows by a word each time would cost the square of its length."""
    sent, words = RelayedReply(), list[str]()
    reply = LiveReply(LOG, TASK, 2, 1, output=lambda: {"text": "".join(words)})
    written = 0
    for _ in range(4_000):
        words.append("word ")
        pieces = sent.unsent(reply)
        written += sum(len(each.text) for each in pieces)
        if pieces:
            sent.mark_sent(reply, 0, pieces)
    assert 20_000 < written < 40 * 20_000
