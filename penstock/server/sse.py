"""Frames as text/event-stream: pings, slow readers, clients that go away."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from penstock.chat.follow import Tail
from penstock.core.canonical import compact
from penstock.core.errors import TooManyStreams
from penstock.core.ids import ProfileId
from penstock.core.limits import Limits
from penstock.server.wire import Fold, Frame

log = logging.getLogger(__name__)

BEGIN = b"retry: 2000\n\n"
PING = b": ping\n\n"
HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
_STALLED_SECONDS = 30


class Streams:
    """Counts the open streams, and refuses one too many."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all = 0
        self._of: dict[ProfileId, int] = {}

    def enter(self, profile_id: ProfileId, *, is_local: bool) -> "Place":
        """Take a place, to be left again. Raises TooManyStreams."""
        own, most = self._of.get(profile_id, 0), self._limits.streams_per_profile
        if not is_local and own >= most:
            raise TooManyStreams(f"{own} streams are open for this key, at most {most}; close one")
        if self._all >= self._limits.streams:
            raise TooManyStreams(f"{self._all} streams are open here; try again in a moment")
        self._all += 1
        self._of[profile_id] = own + 1
        return Place(self, profile_id)

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


@dataclass(slots=True)
class Place:
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
        tail: Tail,
        frames: Fold,
        place: Place,
        *,
        headers: Mapping[str, str],
        first: Sequence[Frame] = (),
    ) -> None:
        self._tail = tail
        self._frames = frames
        self._place = place
        self._first = first
        self.follow = False
        """Go on when the last task has ended."""
        self._sending = self._is_stalled = False
        self._sent = 0
        super().__init__(headers=HEADERS | dict(headers))
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames as they come, in as few pieces as possible."""
        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(self._on_gone)
        self._watch(asyncio.current_task(), -1)
        try:
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start"} | start)
            await self._pass_on(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not self._is_stalled:
                raise
            log.info("a stream was cut: its reader took nothing for %s s", _STALLED_SECONDS)
        finally:
            self.close()
            gone.cancel()
            self._watchdog.cancel()

    def close(self) -> None:
        """Give back what the stream holds."""
        self._tail.close()
        self._place.leave()

    async def _pass_on(self, send: Send) -> None:
        body = BEGIN + encode(self._first)
        while True:
            self._sending = True
            await send({"type": "http.response.body", "body": body, "more_body": True})
            self._sending = False
            self._sent += 1
            if self._is_over:
                return
            body = b""
            while not body:
                items = await self._tail.take()
                if items is None:
                    return
                body = encode(self._frames.feed(items)) if items else PING
                if not body and self._is_over:
                    return
                self._tail.is_quiet = not self._frames.is_at_work

    @property
    def _is_over(self) -> bool:
        frames, tail = self._frames, self._tail
        return frames.is_over and not self.follow and not tail.is_stored

    def _watch(self, task: "asyncio.Task[None] | None", sent: int) -> None:
        """Look now and then whether one piece is on its way all the time."""
        if self._sending and sent == self._sent and task is not None:
            self._is_stalled = True
            task.cancel()
            return
        loop = asyncio.get_running_loop()
        self._watchdog = loop.call_later(_STALLED_SECONDS, self._watch, task, self._sent)

    def _on_gone(self, gone: "asyncio.Future[None]") -> None:
        self._tail.stop()


def encode(frames: Sequence[Frame]) -> bytes:
    """Return frames as they stand on the wire."""
    return "".join(
        [f"id: {at}\nevent: message\ndata: {compact(frame)}\n\n" for at, frame in frames]
    ).encode()


async def _gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    message: Message = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
