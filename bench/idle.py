"""The memory of idle streams: open on a model that never answers."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench import harness, server
from bench.harness import Line, Options

STREAMS = 1000
PEERS = ("bare", "agent-framework", "agno", "agno-sqlite", "pydantic-ai")


def measure(options: Options) -> Line:
    """Open the streams on a fresh server, and weigh it before and while they are held."""
    server.open_many_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped too
    raw = harness.repeated(options, lambda left: _once(options.target, left), harness.smallest)
    raw |= {"persistence": server.CHATS[options.target].persistence}
    return harness.line("idle", options.target, raw | {"version": server.version(options.target)})


def _once(target: str, seconds: float) -> Line:
    with server.running(target, BENCH_SYNCHRONOUS="FULL") as running:
        running.load(4, 20, 60)
        before = running.memory_mib()
        spec = json.dumps(running.spec | {"mode": "idle", "streams": STREAMS})
        with _holding(spec, seconds) as opened:
            held = running.memory_mib()
        kib = (held - before) * 1024 / STREAMS
        return opened | {"rss_mib": held, "rss_before_mib": before, "kib_per_stream": kib}


@contextmanager
def _holding(spec: str, seconds: float) -> Iterator[Line]:
    command = [sys.executable, "-m", "bench.kit.sse_load", spec]
    client = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=harness.environment(),
    )
    late = threading.Timer(seconds, client.kill)
    late.start()
    with client:
        assert client.stdin
        assert client.stdout
        opened = harness.reported(client.stdout.readline())
        late.cancel()
        if opened is None:
            raise SystemExit(f"{STREAMS} streams did not open within {seconds:.0f} s")
        yield opened
        client.stdin.close()
