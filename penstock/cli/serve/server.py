"""The HTTP server below the application: uvicorn, with limits on connections and slow clients.

Guarantees: there are never more than `ConnectionLimit.most` connections, however many clients
connect at once; slow or oversized requests are refused (see `connection.py`); at SIGINT or SIGTERM
open event streams end first, so that clients reconnect, and then running requests get
`limits.shutdown_seconds` to end.

How connections are limited: a connection takes one file descriptor, and so does each running
request to a model. If both together took all of them, the database could not be opened and accepted
work would fail. So `room_of` sets a reserve aside and divides the rest: half for connections, half
for tasks. Tasks may exceed their half for a moment (scripts, downloads) and wait then, see
`core/exhaustion.py`. `Acceptor` stops accepting at the limit: a further client waits in the
system's queue, which costs no descriptor, so every refused client gets an HTTP answer. Neither
event loop offers this: asyncio and uvloop accept every connection, and when no descriptor is left,
asyncio stops for a second and uvloop closes the connection without an answer.

Relies on: uvicorn calls `on_tick` every 0.1 s, and a tick checks all connections, so there is no
timer per connection; each connection calls `on_lost` once; the tick calls `Acceptor.retry`, because
the system sends no event when a descriptor becomes free again.

Proof: tests/cli/serve, and tests/chaos/test_burst.py with few descriptors.
"""

import asyncio
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from penstock.cli.serve.connection import (
    HEAD_BYTES,
    BoundedConnection,
    ConnectionLimit,
    bounded,
)
from penstock.core.errors import ConfigError
from penstock.core.limits import Limits

_BACKLOG = 2048
"""Length of the system's queue of connections that are not accepted yet."""
_TICK_SECONDS = 0.1
"""How often uvicorn calls `on_tick`."""
_LOOKS = 10
"""How many times within the shortest time limit all connections are checked."""


class Server(uvicorn.Server):
    """Uvicorn with limits on connections; it ends open streams before it stops."""

    def __init__(
        self,
        app: Any,
        limits: Limits,
        room: ConnectionLimit,
        *,
        protocol: type[asyncio.Protocol] = AutoHTTPProtocol,
        ready: Callable[[], None],
    ) -> None:
        config = uvicorn.Config(
            app,
            http=bounded(protocol, limits, room),
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            # penstock.server reads these headers itself, only from [server] trusted_proxies.
            proxy_headers=False,
            timeout_keep_alive=int(limits.keep_alive_seconds) or 1,
            timeout_graceful_shutdown=int(limits.shutdown_seconds) or 1,
            h11_max_incomplete_event_size=2 * HEAD_BYTES,  # `bounded` refuses before that
        )
        super().__init__(config)
        self._drain = app.state.lifecycle.drain
        self._ready = ready
        shortest = min(limits.head_seconds, limits.body_seconds, limits.stalled_seconds)
        self._ticks = max(1, round(shortest / _LOOKS / _TICK_SECONDS))
        self._looked_at = 0.0
        self._room = room
        self._acceptors: list[Acceptor] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM.

        uvicorn raises the signal again after it stopped, which would skip the closing of the
        runtime around it. This version does not.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept, and call `ready`."""
        await super().startup([])  # without sockets: `Acceptor` accepts instead of the event loop
        self._acceptors = [Acceptor(each, self._room, self._connection) for each in sockets or ()]
        for acceptor in self._acceptors:
            acceptor.retry()
        self._looked_at = asyncio.get_running_loop().time()
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Check every connection, several times within the shortest time limit."""
        for acceptor in self._acceptors:
            acceptor.retry()
        if counter % self._ticks == 0:
            now = asyncio.get_running_loop().time()
            passed, self._looked_at = now - self._looked_at, now
            connections: list[Any] = list(self.server_state.connections)
            for connection in connections:
                connection.check(now, passed)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, end the streams, then stop."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._drain()
        await super().shutdown(sockets)

    def _connection(self) -> BoundedConnection:
        protocol: Any = self.config.http_protocol_class
        connection: BoundedConnection = protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return connection


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ConfigError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(
            f"cannot listen on {host}:{port}: {why}. Choose another with --host, --port."
        ) from None
    # Accepted sockets inherit this option. Without it every answer waits 40 ms for an
    # acknowledgement (Nagle's algorithm with delayed acknowledgements).
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


_WANTED = (65_536, 10_240)
"""Soft limits to try, in order. macOS refuses more than OPEN_MAX (10,240), which getrlimit does not
report."""
_RESERVE = 64
"""For the database, its log, blobs, the listening socket, the event loop, standard streams."""
_SPARE_SHARE = 8
"""One of this many connections is reserved to answer further clients with 503."""
_EACH_AT_WORK = 2
"""Descriptors of a running log: a connection to its model, and a file."""


def room_of(limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Raise this process's soft limit and divide it.

    Returns the limit of connections, and `limits` with `activations` reduced to what fits.
    """
    return shared_out(_raised(), limits)


def shared_out(descriptors: int, limits: Limits) -> tuple[ConnectionLimit, Limits]:
    """Divide a number of descriptors; see `room_of`."""
    half = max(descriptors - _RESERVE, 4) // 2
    spare = max(half // _SPARE_SHARE, 1)
    served = min(limits.connections, max(half - spare, 1))
    activations = min(limits.activations, max(half // _EACH_AT_WORK, 1))
    highest = max(descriptors - _RESERVE // 2, 4)
    room = ConnectionLimit(served=served, spare=spare, highest=highest)
    return room, replace(limits, activations=activations)


def shortage(room: ConnectionLimit, limits: Limits, configured: Limits) -> str:
    """Return a warning if fewer tasks run at once than the settings allow; else an empty text."""
    if limits.activations == configured.activations:
        return ""
    enough = 2 * _EACH_AT_WORK * configured.activations + _RESERVE
    return (
        f"The limit of open files is low: this process serves {room.served} connections and runs "
        f"{limits.activations} tasks at once. For {configured.activations} tasks start it "
        f"with `ulimit -n {enough}` or more."
    )


def _raised() -> int:
    """Raise the soft limit towards the hard limit; return the resulting soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _WANTED[0]
    for most in _WANTED:
        target = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if soft >= target:
            break
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            return target
    return soft


_MAX_ACCEPTS = 32
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
        for _ in range(_MAX_ACCEPTS):
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
