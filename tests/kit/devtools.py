"""A minimal DevTools client that speaks the debugger protocol over one socket."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

_SHORT = 126


class DevTools:
    """A connection to one script."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._events: list[dict[str, Any]] = []

    @classmethod
    async def attach(cls, address: str) -> "DevTools":
        """Attach at `HOST:PORT/ID`."""
        place, _, path = address.partition("/")
        host, _, port = place.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        key = base64.b64encode(bytes(16)).decode()
        writer.write(
            f"GET /{path} HTTP/1.1\r\nHost: {place}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b"101" in answer, answer
        return cls(reader, writer)

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of one command."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while (message := await self._message()).get("id") != self._number:
            self._events.append(message)
        result: dict[str, Any] = message["result"]
        return result

    async def event(self, method: str) -> dict[str, Any]:
        """Wait for an event, and return what it says."""
        while True:
            for at, message in enumerate(self._events):
                if message.get("method") == method:
                    del self._events[at]
                    params: dict[str, Any] = message["params"]
                    return params
            self._events.append(await self._message())

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        await self._writer.wait_closed()

    def _send(self, message: Mapping[str, Any]) -> None:
        content = json.dumps(message).encode()
        size = len(content)
        head = bytes([size | 0x80]) if size < _SHORT else bytes([_SHORT | 0x80, *size.to_bytes(2)])
        self._writer.write(b"\x81" + head + bytes(4) + content)

    async def _message(self) -> dict[str, Any]:
        content = b""
        while True:
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size >= _SHORT:
                size = int.from_bytes(await self._reader.readexactly(2 if size == _SHORT else 8))
            content += await self._reader.readexactly(size)
            if first & 0x80:
                message: dict[str, Any] = json.loads(content)
                return message
