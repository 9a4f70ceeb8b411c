"""A target's chat server: one uvicorn worker on loopback, started, weighed, and stopped."""

import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import Line

MIB = 2**20
STARTING_S = 60
PATIENCE = ((signal.SIGTERM, 3), (signal.SIGKILL, 10))
JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"
FORM = "message={TEXT}&stream=true&session_id={RUN}"
AG_UI = json.dumps(
    {
        "threadId": "{RUN}",
        "runId": "{RUN}",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
        "messages": [{"id": "1", "role": "user", "content": "{TEXT}"}],
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """How a run is asked for, and what the server keeps of it."""

    distribution: str
    path: str = "/"
    body: str = AG_UI
    content_type: str = JSON_TYPE
    persistence: str = "none"


CHATS = {
    "penstock": Chat(
        distribution="penstock",
        path="/api/agents/bench/chat",
        body='{"content": "{TEXT}", "stream": true}',
        persistence="SQLite, write-ahead log",
    ),
    "bare": Chat(distribution="uvicorn", body='{"text": "{TEXT}"}'),
    "agent-framework": Chat(distribution="agent-framework-core"),
    "pydantic-ai": Chat(distribution="pydantic-ai-slim"),
    "agno": Chat(distribution="agno", path="/agents/x/runs", body=FORM, content_type=FORM_TYPE),
    "agno-sqlite": Chat(
        distribution="agno",
        path="/agents/x/runs",
        body=FORM,
        content_type=FORM_TYPE,
        persistence="SQLite file (AsyncSqliteDb, library defaults)",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server, and what a load client must know to ask it."""

    process: "subprocess.Popen[bytes]"
    spec: Line
    folder: Path

    def cpu_s(self) -> float:
        """Return the CPU time that the server has used."""
        ticks = 0
        for pid in self._tree():
            fields = _stat(pid)
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, field: str = "VmRSS") -> float:
        """Return the resident memory of the server, or its peak as `VmHWM`."""
        total = 0
        for pid in self._tree():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith(field + ":"):
                    total += int(line.split()[1])
        return total / 1024

    def load(self, concurrency: int, runs: int, timeout: float) -> Line:
        """Put load on the server and return what its clients saw."""
        spec = self.spec | {"mode": "load", "concurrency": concurrency, "runs": runs}
        return harness.child("raw", "sse_load", json.dumps(spec), timeout=timeout)

    def written_mib(self) -> float:
        """Return what the server has put on the disk."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files if path.name != "server.log") / MIB

    def log(self) -> str:
        """Return the end of what the server said."""
        return (self.folder / "server.log").read_text(errors="replace")[-3000:]

    def _tree(self) -> list[int]:
        """List the process and its descendants: a launcher may hold the worker."""
        found = [self.process.pid]
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(_stat(int(path.name))[1]) in found:
                    found.append(int(path.name))
        return found


@contextmanager
def running(target: str, **variables: str) -> Iterator[Server]:
    """Start a target's server with a fresh folder for its database, and stop it."""
    if target not in CHATS:
        raise SystemExit(f"no chat server for {target!r}; there are {', '.join(CHATS)}")
    with tempfile.TemporaryDirectory(dir=harness.scratch()) as name:
        folder, port, chat = Path(name), _free_port(), CHATS[target]
        env = harness.environment(BENCH_SCRATCH=name, PYTHONDONTWRITEBYTECODE="1", **variables)
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                _command(target, port),
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        asked = {"port": port, "path": chat.path, "body": chat.body}
        spec = asked | {"content_type": chat.content_type}
        server = Server(process=process, spec=spec, folder=folder)
        try:
            _await_start(server, port)
            yield server
        except SystemExit as stop:
            raise SystemExit(f"{stop}\nserver: {server.log()}") from None
        finally:
            _stop(process)


def open_many_files() -> None:
    """Let the server, which inherits the limit, hold a thousand connections."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def version(target: str) -> str:
    """Return the version that is installed for a target."""
    ask = f"import importlib.metadata as m; print(m.version({CHATS[target].distribution!r}))"
    command = [harness.interpreter(target), "-c", ask]
    return subprocess.check_output(command, text=True).strip()


def _command(target: str, port: int) -> list[str]:
    app = harness.adapter("sse", target) + ":app"
    return [
        harness.interpreter(target),
        *shlex.split(f"-m uvicorn {app} --host 127.0.0.1 --port {port} --workers 1"),
        *shlex.split("--loop uvloop --http httptools --no-access-log --log-level warning"),
    ]


def _await_start(server: Server, port: int) -> None:
    end = time.monotonic() + STARTING_S
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        if server.process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"server did not start: {shlex.join(_words(server.process.args))}")
        time.sleep(0.1)


def _words(arguments: Any) -> list[str]:
    return [str(word) for word in arguments]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    for number, seconds in PATIENCE:
        if process.poll() is None:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)  # the group started above, nothing else
                process.wait(seconds)


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
