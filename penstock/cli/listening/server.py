"""The HTTP server below the application: uvicorn, with limits on connections and slow clients.

Guarantees: no more connections than `ConnectionLimit` allows; slow or oversized requests are
refused (see `connection.py`); at SIGINT or SIGTERM open event streams end first, so that clients
reconnect, and then running requests get `limits.shutdown_seconds` to end.

Relies on uvicorn calling `on_tick` every 0.1 s: a tick checks all connections, so there is no timer
per connection. Proof: tests/cli/listening.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from penstock.cli.listening.acceptor import Acceptor
from penstock.cli.listening.connection import BoundedConnection, ConnectionLimit, bounded
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
            h11_max_incomplete_event_size=2 * limits.head_bytes,  # `bounded` refuses before that
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
