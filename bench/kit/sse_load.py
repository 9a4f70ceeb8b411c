"""The load client of the chat benches: one process of its own, on the same machine.

One JSON argument tells it what to do. Mode `load`: `concurrency` workers make `runs` full runs, one
connection each, read to the end of the stream; a server that is through with them in under two
seconds gets up to five times as many. Mode `idle`: open `streams` connections, wait for the first
event of each, say so, and hold them until standard input closes. In body and path {RUN} is a fresh
run number and {TEXT} the user's text.
"""

import asyncio
import itertools
import json
import resource
import sys
import time
from typing import Any

LAST_DELTA = b"word19"
QUICK_S, MORE = 2, 5
MAX_OPENING = 25

_run = itertools.count(1)


class Stream(asyncio.Protocol):
    """One connection: when its first event came, when it ended, and all it said."""

    def __init__(self, request: bytes) -> None:
        self.request, self.data = request, bytearray()
        self.first: float | None = None
        self.took = 0.0
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.started = transport, time.perf_counter()
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Note the moment of the first event."""
        self.data += data
        if self.first is None and b"data:" in self.data:
            self.first = time.perf_counter() - self.started
            _settle(self.opened)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.took = time.perf_counter() - self.started
        _settle(self.opened)
        _settle(self.done)

    def check(self, *, whole: bool) -> float:
        """Refuse a stream that is not what was asked for; return when its first event came."""
        status = bytes(self.data[9:12])
        if status != b"200" or self.first is None or (whole and LAST_DELTA not in self.data):
            said = bytes(self.data[-1500:]).decode(errors="replace")
            raise SystemExit(f"bad run: status {status!r}, {len(self.data)} bytes\n{said}")
        return self.first


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _load(spec: dict[str, Any]) -> dict[str, Any]:
    started_runs, runs = 0, []
    started = time.perf_counter()

    def more() -> bool:
        quick = time.perf_counter() - started < QUICK_S
        return started_runs < spec["runs"] or (quick and started_runs < MORE * spec["runs"])

    async def worker() -> None:
        nonlocal started_runs
        while more():
            started_runs += 1
            stream = await _connect(spec, "go")
            await stream.done
            first = stream.check(whole=True)
            runs.append((stream.took, first, stream.data.count(b"data:")))

    await asyncio.gather(*[worker() for _ in range(spec["concurrency"])])
    took = time.perf_counter() - started
    durations, firsts, events = zip(*runs, strict=True)
    return {
        "runs": len(runs),
        "runs_per_s": len(runs) / took,
        "p50_ms": _at(0.5, durations) * 1e3,
        "p99_ms": _at(0.99, durations) * 1e3,
        "first_event_p50_ms": _at(0.5, firsts) * 1e3,
        "events_per_run": _at(0.5, events),
    }


async def _idle(spec: dict[str, Any]) -> None:
    streams: list[Stream] = []
    gate = asyncio.Semaphore(MAX_OPENING)

    async def hold() -> None:
        async with gate:
            stream = await _connect(spec, "hold")
            await stream.opened
            stream.check(whole=False)
            streams.append(stream)

    await asyncio.gather(*[hold() for _ in range(spec["streams"])])
    await asyncio.sleep(1)
    _say({"streams": sum(not stream.done.done() for stream in streams)})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for stream in streams:
        stream.transport.abort()


async def _connect(spec: dict[str, Any], text: str) -> Stream:
    loop = asyncio.get_running_loop()
    request = _request(spec, text)
    made = await loop.create_connection(lambda: Stream(request), "127.0.0.1", spec["port"])
    return made[1]


def _request(spec: dict[str, Any], text: str) -> bytes:
    body = _fill(spec["body"], text).encode()
    head = (
        f"POST {_fill(spec['path'], text)} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {spec['content_type']}\r\nAccept: text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _fill(template: str, text: str) -> str:
    run = f"r{time.time_ns()}-{next(_run)}"
    return template.replace("{RUN}", run).replace("{TEXT}", text)


def _at(share: float, values: tuple[Any, ...]) -> Any:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _say(figures: dict[str, Any]) -> None:
    print("RESULT " + json.dumps(figures), flush=True)


def main() -> None:
    """Do what the argument says."""
    spec = json.loads(sys.argv[1])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if spec["mode"] == "idle":
        asyncio.run(_idle(spec))
    else:
        _say(asyncio.run(_load(spec)))


if __name__ == "__main__":
    main()
