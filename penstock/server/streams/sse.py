"""Frames as text/event-stream: pings, slow readers, disconnected clients.

A stream always ends, and it never skips a frame without the reader noticing. It ends when the
conversation has nothing more to show, when the client disconnects, or when the client is too slow;
a client that reconnects with the id of its last frame gets the frames after it. Every end releases
the slot in `Streams` and the subscription of the tail (`EventStream.close`).

How it works: the task of the request only waits for the disconnect. A second task (`_sender`)
exists while there is something to send: `LogTail.more` starts it through a callback, so an idle
stream costs one task and no timer of its own. Two limits cut a slow client: the tail cuts a reader
that leaves more frames unread than its queue holds, and `Streams` cancels a request whose last
write did not finish within `stalled_seconds`.

It relies on the ASGI server to make `send` wait while the client reads nothing. It uses the
cancellation of its own request task as a signal, told apart by the message (`_STALLED`, `_OVER`);
any other cancellation passes through.

Tests: tests/server/streams/test_sse.py.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.chat.log_follower import LogTail
from penstock.core.errors import TooManyStreams
from penstock.core.ids import ProfileId
from penstock.core.json_values.json_text import compact
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.engine.bus import Live
from penstock.server.problem import request_id_of
from penstock.server.streams.frame import Frame
from penstock.server.streams.wire import FrameSource

log = logging.getLogger(__name__)

BEGIN = b"retry: 2000\n"
"""The first line of the first frame's block.

httpx-sse and the OpenAI SDK read a block without `data:` as an empty event and fail to parse it. So
this line and pings belong to the block of the frame that follows.
"""
PING = b": ping\n"
"""A comment line in the block of the next frame."""
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_GONE = "http.disconnect"
_CHECKS = 2
_STALLED = "its client stopped reading"
_OVER = "the stream is over"
DETACHED = "penstock.detached"
"""The key in the scope of the streams that run after the middleware has returned."""


class Streams:
    """The open streams of a server, with limits on their number and on blocked writes."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all = 0
        self._of: dict[ProfileId, int] = {}
        self._writing: dict[asyncio.Task[None], int] = {}
        """The streams whose write has not finished, each with the number of checks that saw it."""
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, profile: Profile) -> "StreamSlot":
        """Reserve a slot; the caller must release it. Raises TooManyStreams."""
        profile_id, limit = profile.profile_id, self._limits.streams_per_profile
        own = self._of.get(profile_id, 0)
        if not profile.everything and own >= limit:
            raise TooManyStreams(f"{own} streams are open for this key, the limit; close one")
        if self._all >= self._limits.streams:
            raise TooManyStreams(
                f"the server has {self._all} open streams, its limit; try again in a moment"
            )
        self._all += 1
        self._of[profile_id] = own + 1
        return StreamSlot(self, profile_id)

    def leave(self, profile_id: ProfileId) -> None:
        """Release a slot."""
        self._all -= 1
        self._of[profile_id] -= 1
        if not self._of[profile_id]:
            del self._of[profile_id]

    @property
    def open(self) -> int:
        """The number of open streams."""
        return self._all

    def begin_to_write(self, task: "asyncio.Task[None]") -> None:
        """Record that a write started; `check_writes` cuts the stream if it does not finish."""
        self._writing[task] = 0
        if self._timer is None:
            self._schedule_check()

    def end_to_write(self, task: "asyncio.Task[None]") -> None:
        """Record that the write finished."""
        self._writing.pop(task, None)

    def check_writes(self) -> None:
        """Cut each stream whose write was unfinished at the previous check as well."""
        # one timer for all streams: a timeout per write would cost a timer for every frame
        for task, checks in list(self._writing.items()):
            self._writing[task] = checks + 1
            if checks + 1 == _CHECKS:
                task.cancel(_STALLED)
        self._timer = None
        if self._writing:
            self._schedule_check()

    def _schedule_check(self) -> None:
        seconds = self._limits.stalled_seconds / _CHECKS
        self._timer = asyncio.get_running_loop().call_later(seconds, self.check_writes)


class StreamSlot(Struct):
    """A slot among the open streams. Releasing it twice has no effect."""

    streams: Streams
    profile_id: ProfileId
    is_taken: bool = True

    def leave(self) -> None:
        """Release the slot."""
        if self.is_taken:
            self.is_taken = False
            self.streams.leave(self.profile_id)


class EventStream(Response):
    """A response that streams frames until they end, or the client disconnects or is too slow."""

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
        self._task: asyncio.Task[Any] | None = None
        """The task that runs the stream; None before and after."""
        self._sender: asyncio.Future[bool] | None = None
        self._failure: BaseException | None = None
        self.request_id = ""
        """The id of the request; empty until the response starts."""
        self.status_code = 200
        self.background = None
        own = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.raw_headers = [*HEADERS, *own]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, and detach: `Application` runs the stream after the middleware."""
        detached: list[EventStream] | None = scope.get(DETACHED)
        try:
            headers, self.raw_headers = self.raw_headers, []
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        except BaseException:
            self.close()
            raise
        if detached is None:
            await self.run(receive, send)
        else:
            self.request_id = request_id_of(scope)
            detached.append(self)

    async def run(self, receive: Receive, send: Send) -> None:
        """Send frames when they arrive, in as few writes as possible, until the stream ends.

        No task waits while there is nothing to send: most of thousands of streams are idle.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a stream runs in a task
        self._task, self._send = task, send
        try:
            body, self._first = BEGIN + encode(self._first), ()
            self._start_sender(body)
            while (await receive())["type"] != _GONE:
                pass
        except asyncio.CancelledError as error:
            if error.args not in {(_STALLED,), (_OVER,)}:
                raise
            # the cancellation was our own signal: without this, asyncio.timeout would see it
            task.uncancel()
            if error.args == (_STALLED,):
                log.info("a stream was cut: %s", _STALLED)
        finally:
            self.close()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Release the slot and the subscription, and stop sending."""
        task, self._task = self._task, None
        if task is not None:
            self._slot.streams.end_to_write(task)
        if self._sender is not None:
            self._sender.cancel()
        self._tail.close()
        self._slot.leave()

    def _start_sender(self, body: bytes, *, is_late: bool = False) -> None:
        self._sender = asyncio.ensure_future(self._send_all(body, is_late=is_late))
        self._sender.add_done_callback(self._on_sent)

    def _on_sent(self, sender: "asyncio.Future[bool]") -> None:
        """End the stream if the sender reached its end or failed."""
        self._sender = None
        self._failure = None if sender.cancelled() else sender.exception()
        is_over = sender.cancelled() or self._failure is not None or sender.result()
        if is_over and self._task is not None:
            # `run` waits in `receive`; ASGI offers no other way to end that wait
            self._task.cancel(_OVER)

    def _wake(self, _: "asyncio.Future[None]") -> None:
        if self._task is not None:
            self._start_sender(b"", is_late=not self._tail.has_more)

    async def _send_all(self, body: bytes, *, is_late: bool) -> bool:
        """Send this and everything available. Returns True when the stream has ended.

        `is_late` means that a silence ended the wait: look in the log, and ping if it has nothing.
        """
        tail = self._tail
        if is_late and (items := await tail.look()) is not None:
            body = self._encoded(items) if items else PING
        while True:
            if is_over := self._is_over:
                break
            if body:
                await self._write(body)
                if tail.is_cut:
                    break
            if not tail.has_more:
                tail.more().add_done_callback(self._wake)
                return False
            items = await tail.take_ready()
            if items is None:
                break
            body = self._encoded(items)
        await self._write(body if is_over else b"", is_last=True)
        return True

    async def _write(self, body: bytes, *, is_last: bool = False) -> None:
        task, streams = self._task, self._slot.streams
        assert task is not None  # noqa: S101  nothing is sent once the stream is closed
        streams.begin_to_write(task)
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
        streams.end_to_write(task)

    def _encoded(self, items: Sequence[Live]) -> bytes:
        body = encode(self._frames.feed(items))
        self._tail.is_quiet = not self._frames.is_at_work
        return body

    @property
    def _is_over(self) -> bool:
        frames, tail = self._frames, self._tail
        return frames.is_over and not tail.is_stored


def encode(frames: Sequence[Frame]) -> bytes:
    """Return frames in the format of text/event-stream."""
    return "".join(
        [
            f"id: {position}\nevent: message\ndata: {compact(frame)}\n\n"
            if position is not None
            else f"event: message\ndata: {compact(frame)}\n\n"
            for position, frame in frames
        ]
    ).encode()
