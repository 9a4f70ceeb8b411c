"""Frames as text/event-stream: pings, slow readers, clients that go away."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from msgspec import Struct
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from penstock.chat.follow import LogTail
from penstock.core.canonical import compact
from penstock.core.errors import TooManyStreams
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.server.frame import Frame
from penstock.server.problem import request_id_of
from penstock.server.wire import FrameSource

log = logging.getLogger(__name__)

BEGIN = b"retry: 2000\n\n"
PING = b": ping\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_GONE = "http.disconnect"
_LOOKS = 2
_STALLED = "its reader took nothing for a while"
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
        """Send frames as they come, in as few pieces as possible."""
        self._receive = receive
        self._listen()
        try:
            if not await self._pass_on(send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError as error:
            if error.args != (_STALLED,):
                raise
            log.info("a stream was cut: %s", _STALLED)
        finally:
            self.close()
            self._said.cancel()

    def close(self) -> None:
        """Give back what the stream holds."""
        here = asyncio.current_task()
        if here is not None:
            self._slot.streams.end_to_write(here)
        self._tail.close()
        self._slot.leave()

    async def _pass_on(self, send: Send) -> bool:
        """Send what comes; returns whether the last piece said that it was the last."""
        body, self._first = BEGIN + encode(self._first), ()
        here, streams = asyncio.current_task(), self._slot.streams
        assert here is not None  # noqa: S101  a stream runs in a task
        while True:
            is_over = self._is_over
            streams.begin_to_write(here)
            await send({"type": "http.response.body", "body": body, "more_body": not is_over})
            streams.end_to_write(here)
            if is_over:
                return True
            body = b""
            while not body:
                items = await self._tail.take()
                if items is None:
                    return False
                body = encode(self._frames.feed(items)) if items else PING
                if not body and self._is_over:
                    return False
                self._tail.is_quiet = not self._frames.is_at_work

    @property
    def _is_over(self) -> bool:
        frames, tail = self._frames, self._tail
        return frames.is_over and not tail.is_stored

    def _listen(self) -> None:
        """Wait for what the client says next: that it has gone ends the stream."""
        self._said = asyncio.ensure_future(self._receive())
        self._said.add_done_callback(self._hear)

    def _hear(self, said: "asyncio.Future[Message]") -> None:
        if said.cancelled() or said.exception() or said.result()["type"] == _GONE:
            self._tail.stop()
        else:
            self._listen()


def encode(frames: Sequence[Frame]) -> bytes:
    """Return frames as they stand on the wire."""
    return "".join(
        [f"id: {at}\nevent: message\ndata: {compact(frame)}\n\n" for at, frame in frames]
    ).encode()
