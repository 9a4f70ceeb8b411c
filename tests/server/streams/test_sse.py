"""Streams on the wire: pings, limits, readers that leave or stall."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from anyio.lowlevel import checkpoint
from openai._streaming import SSEDecoder

from penstock.chat.log_follower import MAX_STREAM_FRAMES, LogSource, LogTail
from penstock.core.clock import SystemClock
from penstock.core.errors import TooManyStreams
from penstock.core.ids import LogId, ProfileId, SessionId
from penstock.core.limits import Limits
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.engine.bus import Bus
from penstock.server.streams.frame import Position
from penstock.server.streams.sse import BEGIN, PING, EventStream, Streams, encode
from penstock.server.streams.wire import ChatFrames, StreamView
from penstock.testing.log import MemoryLog
from tests.kit.conversation_events import no_tools
from tests.kit.log_entries import message, opened
from tests.kit.server import HERE, frames

ANN, BOB = Profile(profile_id=ProfileId("ann")), Profile(profile_id=ProfileId("bob"))
LIMITS = Limits(ping_seconds=0.02, streams=3, streams_per_profile=2)


def test_a_frame_is_encoded_as_an_event() -> None:
    """The chat's promise: `event: message`, and data with a type; LF only, one line of JSON."""
    result = encode([(Position(3, 5), {"type": "content_delta", "delta": "é\n\u2028\r"})])
    assert result == (
        b"id: 3.5\nevent: message\n"
        b'data: {"type":"content_delta","delta":"\xc3\xa9\\n\xe2\x80\xa8\\r"}\n\n'
    )


def test_a_stream_over_the_limit_is_refused() -> None:
    streams = Streams(LIMITS)
    first = streams.enter(ANN)
    streams.enter(ANN)
    with pytest.raises(TooManyStreams, match="2 streams are open for this key, the limit"):
        streams.enter(ANN)
    streams.enter(BOB)
    with pytest.raises(TooManyStreams, match="the server has 3 open streams"):
        streams.enter(BOB)
    first.leave()
    first.leave()
    assert streams.open == 2


def test_only_the_total_limits_the_local_profile() -> None:
    streams = Streams(LIMITS)
    places = [streams.enter(LOCAL_PROFILE) for _ in range(3)]
    for place in places:
        place.leave()
    assert streams.open == 0


class Line:
    """A connection that a test reads from, or does not."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.bus = Bus()
        self.streams = Streams(limits)
        self.sent: list[bytes] = []
        self.free = asyncio.Event()
        self.free.set()
        self.waits = False
        """Whether it has not taken what was sent last."""
        self.gone = asyncio.Event()
        story = no_tools()
        self.story = story
        self.log = MemoryLog(SystemClock(), LIMITS)
        source = LogSource(log=self.log, bus=self.bus, limits=LIMITS)
        tail = LogTail(source, LogId(story.log_id), after=2, stored=False)
        frames = ChatFrames(StreamView(SessionId(story.log_id), str, 8), Position(2))
        place = self.streams.enter(LOCAL_PROFILE)
        self.stream = EventStream(tail, frames, place, headers={"x-task-id": "t"})

    def open(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.run())

    async def run(self) -> None:
        """Stream what follows the two events of a log."""
        await self.log.send(LogId(self.story.log_id), [opened(), message()])
        await self.stream({"type": "http"}, self.receive, self.send)

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.waits = not self.free.is_set()
        await self.free.wait()
        if body := message.get("body"):
            self.sent.append(body)

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await checkpoint()

    def tell(self, first: int, last: int) -> None:
        self.bus.publish([each for each in self.story.stored if first <= each.seq <= last])


async def test_a_silent_stream_is_pinged() -> None:
    line = Line()
    running = line.open()
    await line.until(lambda: len(line.sent) == 2)
    assert line.sent == [BEGIN, PING]
    line.tell(3, 5)
    await running
    assert line.sent[2].startswith(b"id: 3\nevent: message\n")
    assert line.streams.open == 0
    assert not line.bus.is_followed(LogId("conv_01"))


async def events_of_httpx(pieces: Sequence[bytes]) -> list[tuple[str, str]]:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers, request = {"content-type": "text/event-stream"}, httpx2.Request("GET", HERE)
    response = httpx2.Response(200, headers=headers, content=body(), request=request)
    return [(event.id, event.data) async for event in httpx2.EventSource(response)]


async def events_of_openai(pieces: Sequence[bytes]) -> list[tuple[str, str]]:
    return [(event.id or "", event.data) for event in SSEDecoder().iter_bytes(iter(pieces))]


@pytest.mark.parametrize("read", [events_of_httpx, events_of_openai])
async def test_readers_without_event_source_get_only_frames(
    read: Callable[[Sequence[bytes]], Awaitable[list[tuple[str, str]]]],
) -> None:
    """Chat API 7.1: `retry:` and pings are no blocks of their own, which would be empty events."""
    line = Line()
    running = line.open()
    await line.until(lambda: len(line.sent) == 3)
    line.tell(3, 5)
    await running
    sent = b"".join(line.sent)
    assert sent.startswith(BEGIN + PING + PING + b"id: 3\n")
    blocks = sent.split(b"\n\n")
    events = await read([blocks[0], *(b"\n\n" + PING + each for each in blocks[1:])])
    assert [(at, json.loads(data)) for at, data in events] == frames(sent.decode())
    assert len(events) == 4


async def test_a_client_that_disconnects_leaves_no_task() -> None:
    line = Line()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    line.gone.set()
    await running
    assert line.streams.open == 0
    assert not line.bus.is_followed(LogId("conv_01"))


async def test_a_slow_reader_is_disconnected_with_an_id_to_resume_from() -> None:
    """It is disconnected when its queue is full, and no more frames are kept."""
    line = Line()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    line.free.clear()
    line.tell(3, 3)
    await line.until(lambda: line.waits)
    record = line.story.stored[2]
    line.bus.publish([record] * (MAX_STREAM_FRAMES + 1))
    line.free.set()
    await running
    assert line.sent[-1].startswith(b"id: 3\n")
    assert b"message_complete" not in b"".join(line.sent)
    assert line.streams.open == 0


async def test_frames_that_are_ready_together_are_sent_together() -> None:
    line = Line()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    line.tell(3, 5)
    await running
    assert len(line.sent) == 2
    assert line.sent[1].count(b"\ndata: ") == 4


async def test_a_reader_that_reads_nothing_for_long_is_disconnected() -> None:
    line = Line()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    line.free.clear()
    line.tell(3, 3)
    await line.until(lambda: line.waits)
    line.streams.check_writes()
    assert not running.done()
    line.streams.check_writes()
    await running
    assert line.streams.open == 0


async def test_the_time_without_reading_is_a_limit() -> None:
    line = Line(replace(LIMITS, stalled_seconds=0.02))
    running = line.open()
    await line.until(lambda: bool(line.sent))
    line.free.clear()
    line.tell(3, 3)
    await running
    assert (line.sent, line.streams.open) == ([BEGIN], 0)


async def test_a_cancelled_stream_leaves_no_task() -> None:
    line = Line()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert line.streams.open == 0


async def test_a_waiting_stream_has_one_task_and_sends_later_frames() -> None:
    line, before = Line(), asyncio.all_tasks()
    running = line.open()
    await line.until(lambda: bool(line.sent))
    await line.until(lambda: asyncio.all_tasks() - before == {running})
    line.tell(3, 5)
    await running
    assert line.sent[-1].startswith(b"id: 3\n")
    assert line.streams.open == 0
