"""The server aimock, started for a test; `make recipes` fetches it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scripts.fetch_aimock import PROGRAM, node


@asynccontextmanager
async def aimock(folder: Path, *options: str, fixtures: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Serve the fixtures on a port of this machine; yield the address."""
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}))
    port = _free_port()
    server = await asyncio.create_subprocess_exec(
        *(node(), str(PROGRAM), "-p", str(port), "-f", str(path), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        assert server.stdout is not None
        said = b""
        while b"listening" not in said:
            line = await server.stdout.readline()
            assert line, said
            said += line
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        await server.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
