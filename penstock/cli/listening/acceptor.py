"""Accepts connections, and pauses when there are too many.

Guarantees: there are never more than `ConnectionLimit.most` connections, however many clients
connect at once. A further client waits in the system's queue, which costs no descriptor, until a
connection ends. So every refused client gets an HTTP answer. Neither event loop offers this:
asyncio and uvloop accept every connection, and when no descriptor is left, asyncio stops for a
second and uvloop closes the connection without an answer.

Relies on: each connection calls `on_lost` once; the server calls `retry` every tick, because the
system sends no event when a descriptor becomes free again.

Proof: tests/cli/listening/test_acceptor.py, and tests/chaos/test_burst.py with few descriptors.
"""

import asyncio
import socket
from collections.abc import Callable

from penstock.cli.listening.connection import BoundedConnection, ConnectionLimit

_AT_ONCE = 32
"""Connections accepted in one turn of the event loop, so that a burst does not delay other work."""


class Acceptor:
    """Accepts connections while there is room."""

    def __init__(
        self,
        listening: socket.socket,
        room: ConnectionLimit,
        create: Callable[[], BoundedConnection],
    ) -> None:
        listening.settimeout(0)
        self._listening = listening
        self._create = create
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._is_accepting = self._is_closed = False
        self._handing: set[asyncio.Task[None]] = set()

    def retry(self) -> None:
        """Accept again if there is room."""
        if not (self._is_accepting or self._is_closed) and self._open < self._room.most:
            self._is_accepting = True
            self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Stop accepting for good."""
        self._pause()
        self._is_closed = True

    def _pause(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self._listening)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor or no memory is left: the next tick calls `retry`
                self._pause()
                return
            accepted.settimeout(0)
            self._open += 1
            task = self._loop.create_task(self._hand_over(accepted))
            self._handing.add(task)
            task.add_done_callback(self._handing.discard)
            if self._open >= self._room.most or accepted.fileno() >= self._room.last:
                self._pause()
                return

    async def _hand_over(self, accepted: socket.socket) -> None:
        connection = self._create()
        connection.on_lost = self._lost
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:  # the client has disconnected
            accepted.close()
            self._lost(connection)

    def _lost(self, connection: BoundedConnection) -> None:
        connection.on_lost = None
        self._open -= 1
        # The transport closes its descriptor after this callback, so accept in the next turn.
        self._loop.call_soon(self.retry)
