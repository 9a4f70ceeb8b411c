"""Frames as text/event-stream: pings, slow readers, clients that go away."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.chat.follow import LogTail
from penstock.core.errors import TooManyStreams
from penstock.core.ids import ProfileId
from penstock.core.json_values.canonical import compact
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.engine.bus import Live
from penstock.server.requests.problem import request_id_of
from penstock.server.streams.frame import Frame
from penstock.server.streams.wire import FrameSource

log = logging.getLogger(__name__)

BEGIN = b"retry: 2000\n"
"""The first line of the first frame's block.

A block without `data:` is an event for readers that are not an EventSource: httpx-sse, the SDK of
OpenAI. So neither this line nor a ping is a block of its own.
"""
PING = b": ping\n"
"""A comment line, in the block of the frame that comes next."""
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_GONE = "http.disconnect"
_LOOKS = 2
_STALLED = "its reader took nothing for a while"
_OVER = "the stream is over"
LEFT = "penstock.left"
"""Where a route leaves its stream, to be gone on with outside of what is around routes."""


class Streams:
    """Counts the open streams, and refuses one too many."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all = 0
        self._of: dict[ProfileId, int] = {}
        self._writing: dict[asyncio.Task[None], int] = {}
        """Who waits for a piece to be taken, and how often that was seen."""
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, profile: Profile) -> "StreamSlot":
        """Take a place, to be left again. Raises TooManyStreams."""
        profile_id, most = profile.profile_id, self._limits.streams_per_profile
        own = self._of.get(profile_id, 0)
        if not profile.everything and own >= most:
            raise TooManyStreams(f"{own} streams are open for this key, at most {most}; close one")
        if self._all >= self._limits.streams:
            raise TooManyStreams(f"{self._all} streams are open here; try again in a moment")
        self._all += 1
        self._of[profile_id] = own + 1
        return StreamSlot(self, profile_id)

    def leave(self, profile_id: ProfileId) -> None:
        """Give a place back."""
        self._all -= 1
        self._of[profile_id] -= 1
        if not self._of[profile_id]:
            del self._of[profile_id]

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._all

    def begin_to_write(self, task: "asyncio.Task[None]") -> None:
        """Note that a piece is on its way; what is not taken for long ends the stream."""
        self._writing[task] = 0
        if self._timer is None:
            self._look_later()

    def end_to_write(self, task: "asyncio.Task[None]") -> None:
        """Note that a piece was taken."""
        self._writing.pop(task, None)

    def look(self) -> None:
        """Cut the streams whose piece was on its way the last times too."""
        for task, looks in list(self._writing.items()):
            self._writing[task] = looks + 1
            if looks + 1 == _LOOKS:
                task.cancel(_STALLED)
        self._timer = None
        if self._writing:
            self._look_later()

    def _look_later(self) -> None:
        seconds = self._limits.stalled_seconds / _LOOKS
        self._timer = asyncio.get_running_loop().call_later(seconds, self.look)


class StreamSlot(Struct):
    """One place among the streams; left once."""

    streams: Streams
    profile_id: ProfileId
    is_taken: bool = True

    def leave(self) -> None:
        """Give it back."""
        if self.is_taken:
            self.is_taken = False
            self.streams.leave(self.profile_id)


class EventStream(Response):
    """A conversation as it happens, until it ends, the client goes, or the client is too slow."""

    def __init__(
        self,
        tail: LogTail,
        frames: FrameSource,
        slot: StreamSlot,
        *,
        headers: Mapping[str, str],
        first: Sequence[Frame] = (),
    ) -> None:
        self._tail = tail
        self._frames = frames
        self._slot = slot
        self._first = first
        self._here: asyncio.Task[Any] | None = None
        """Where it runs, as long as it does."""
        self._sender: asyncio.Future[bool] | None = None
        self._failure: BaseException | None = None
        self.request_id = ""
        """Of the request that it answers, once it has begun."""
        self.status_code = 200
        self.background = None
        own = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.raw_headers = [*HEADERS, *own]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin, and leave the rest to who stands outside of all that is around a route."""
        left: list[EventStream] | None = scope.get(LEFT)
        try:
            headers, self.raw_headers = self.raw_headers, []
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        except BaseException:
            self.close()
            raise
        if left is None:
            await self.run(receive, send)
        else:
            self.request_id = request_id_of(scope)
            left.append(self)

    async def run(self, receive: Receive, send: Send) -> None:
        """Send frames as they come, in as few pieces as possible, until the client has gone.

        While there is nothing to send no task waits to do it: thousands of streams are idle.
        """
        here = asyncio.current_task()
        assert here is not None  # noqa: S101  a stream runs in a task
        self._here, self._send = here, send
        try:
            body, self._first = BEGIN + encode(self._first), ()
            self._go_on(body)
            while (await receive())["type"] != _GONE:
                pass
        except asyncio.CancelledError as error:
            if error.args not in {(_STALLED,), (_OVER,)}:
                raise
            here.uncancel()
            if error.args == (_STALLED,):
                log.info("a stream was cut: %s", _STALLED)
        finally:
            self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Give back what the stream holds."""
        here, self._here = self._here, None
        if here is not None:
            self._slot.streams.end_to_write(here)
        if self._sender is not None:
            self._sender.cancel()
        self._tail.close()
        self._slot.leave()

    def _go_on(self, body: bytes, *, is_late: bool = False) -> None:
        self._sender = asyncio.ensure_future(self._pass_on(body, is_late=is_late))
        self._sender.add_done_callback(self._rest)

    def _rest(self, sender: "asyncio.Future[bool]") -> None:
        """End the stream, if there is nothing more to wait for."""
        self._sender = None
        self._failure = None if sender.cancelled() else sender.exception()
        is_over = sender.cancelled() or self._failure is not None or sender.result()
        if is_over and self._here is not None:
            self._here.cancel(_OVER)

    def _wake(self, _: "asyncio.Future[None]") -> None:
        if self._here is not None:
            self._go_on(b"", is_late=not self._tail.has_more)

    async def _pass_on(self, body: bytes, *, is_late: bool) -> bool:
        """Send this and all that there is; returns whether the stream is over, or waits."""
        tail = self._tail
        if is_late and (found := await tail.look()) is not None:
            body = self._shown(found) if found else PING
        while True:
            if is_over := self._is_over:
                break
            if body:
                await self._put(body)
                if tail.is_cut:
                    break
            if not tail.has_more:
                tail.more().add_done_callback(self._wake)
                return False
            found = await tail.take_ready()
            if found is None:
                break
            body = self._shown(found)
        await self._put(body if is_over else b"", is_last=True)
        return True

    async def _put(self, body: bytes, *, is_last: bool = False) -> None:
        here, streams = self._here, self._slot.streams
        assert here is not None  # noqa: S101  nothing is sent once the stream is closed
        streams.begin_to_write(here)
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
        streams.end_to_write(here)

    def _shown(self, found: Sequence[Live]) -> bytes:
        body = encode(self._frames.feed(found))
        self._tail.is_quiet = not self._frames.is_at_work
        return body

    @property
    def _is_over(self) -> bool:
        frames, tail = self._frames, self._tail
        return frames.is_over and not tail.is_stored


def encode(frames: Sequence[Frame]) -> bytes:
    """Return frames as they stand on the wire."""
    return "".join(
        [f"id: {at}\nevent: message\ndata: {compact(frame)}\n\n" for at, frame in frames]
    ).encode()
