"""Drives one conversation over a crash: one client, two processes, one file."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2

from penstock.core.clock import SystemClock

PROGRAM = Path(__file__).with_name("program.py")
CLOCK = SystemClock()
PATIENCE = 20
"""Seconds after which something is wrong."""
Frame = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a process ends: `commit`, `effect` or `ask`, the how-manieth of its life, and what."""

    kind: str
    number: int
    label: str

    def __str__(self) -> str:
        """Return the moment as the page on durability names it."""
        after = "on disk" if self.kind == "commit" else "done, not recorded"
        return f"{self.label} ({after})"


class Nursery:
    """The process that servers are forked from."""

    def __init__(self, *, speed: int = 1, **settings: Any) -> None:
        self._settings = settings
        self._speed = speed
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, directory: Path, moment: Moment | None, by: signal.Signals) -> "Server":
        """Start a server that gets the signal at the moment, or none."""
        spec = {
            "directory": str(directory),
            "kind": moment.kind if moment else "",
            "number": moment.number if moment else 0,
            "signal": by.value,
            "speed": self._speed,
            "settings": self._settings,
        }
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps(spec) + "\n")
            self._process.stdin.flush()
            pid, port = self._process.stdout.readline().split()
        return Server(int(pid), int(port))

    def close(self) -> None:
        """End it; the servers are ended by who started them."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout
        self._process.stdout.close()


class Server:
    """One server process, and a client of it."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        timeout = httpx2.Timeout(PATIENCE, read=0.4)
        self.client = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}/api", timeout=timeout, trust_env=False
        )

    def __enter__(self) -> Self:
        """Wait until it answers."""
        wait_until(lambda: self.is_gone or self.answers, "the server to answer")
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, if it lives."""
        self.client.close()
        if self._state != "gone":
            os.kill(self.pid, signal.SIGKILL)
            wait_until(lambda: self._state == "gone", "the server to die")

    @property
    def answers(self) -> bool:
        """Whether its loop turns."""
        try:
            return self.client.get("/health").is_success
        except httpx2.TransportError:
            return False

    @property
    def is_gone(self) -> bool:
        """Whether it was killed or frozen."""
        return self._state in {"gone", "T"}

    def leave_the_file(self, directory: Path) -> None:
        """Nudge a frozen process out of the transaction it may have been frozen in.

        SQLite has one write lock and grants it to no other process until then; no lease can help.
        """
        while self._state == "T" and is_locked(directory / ".penstock" / "penstock.db"):
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGSTOP)
            wait_until(lambda: self._state in {"T", "gone"}, "the server to freeze again")

    def thaw(self) -> None:
        """Continue a frozen process, and wait until it had time to do harm."""
        os.kill(self.pid, signal.SIGCONT)
        for _ in range(5):
            wait_until(lambda: self.answers, "the frozen server to answer")

    @property
    def _state(self) -> str:
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return "gone"
        state = stat.rpartition(")")[2].split()[0]
        return "gone" if state in "ZX" else state


@dataclass
class Talk:
    """What one client saw of one conversation."""

    content: str = "Go."
    frames: list[Frame] = field(default_factory=list)
    conversation: str = ""
    answered: set[str] = field(default_factory=set)

    @property
    def last_id(self) -> str | None:
        """The id to reconnect with."""
        return self.frames[-1][0] if self.frames else None

    @property
    def is_over(self) -> bool:
        """Whether the last frame of the task was seen."""
        return bool(self.frames) and self.frames[-1][1]["type"] in {"message_complete", "error"}

    def go_on(self, server: Server) -> None:
        """Read and answer until the end, or until the server has died."""
        ends = CLOCK.monotonic() + PATIENCE
        while not self.is_over and not server.is_gone:
            assert CLOCK.monotonic() < ends, f"the conversation stands still at {self.last_id}"
            try:
                self._read(server)
                self._answer(server)
            except httpx2.TransportError:
                continue

    def _read(self, server: Server) -> None:
        agent = "/agents/assistant/chat"
        if not self.conversation:
            body = {"content": self.content, "stream": True}
            headers = {"Idempotency-Key": "the only one"}
            opened = server.client.stream("POST", agent, json=body, headers=headers)
        else:
            headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
            query = {"conversationId": self.conversation}
            opened = server.client.stream("GET", f"{agent}/stream", params=query, headers=headers)
        with opened as response:
            assert response.status_code in {200, 204}, response.read()
            self.conversation = self.conversation or response.headers["x-conversation-id"]
            self.frames.extend(frames_of(response))

    def _answer(self, server: Server) -> None:
        closed = {data["id"] for _, data in self.frames if data["type"] == "question_answered"}
        for _, data in self.frames:
            if data["type"] != "question" or data["id"] in closed | self.answered:
                continue
            approval = data["kind"] == "approval"
            body = {"decision": "approve"} if approval else {"text": "blue"}
            answer = server.client.post(f"/questions/{data['id']}/answer", json=body)
            assert answer.status_code == 200, answer.text
            self.answered.add(data["id"])


def frames_of(response: httpx2.Response) -> Iterator[Frame]:
    """Yield the whole frames of a stream; a frame that a crash cut in the middle is not one."""
    seen: dict[str, str] = {}
    for line in response.iter_lines():
        name, colon, value = line.partition(": ")
        if colon:
            seen[name] = value
        elif not line and "data" in seen:
            yield seen["id"], json.loads(seen["data"])
            seen = {}


def settled(frames: list[Frame]) -> list[Frame]:
    """Return frames without what was taken back, neighbouring pieces of a reply as one."""
    kept: list[Frame] = []
    for event_id, data in frames:
        if data["type"] == "content_reset":
            while kept and "." in kept[-1][0]:
                kept.pop()
        before = kept[-1][1] if kept else {}
        if "delta" in data and data | {"delta": before.get("delta")} == before:
            kept[-1] = (event_id, data | {"delta": before["delta"] + data["delta"]})
        else:
            kept.append((event_id, data))
    return kept


def place(event_id: str) -> tuple[int, int]:
    """Return what orders ids: the event, then the units after it."""
    seq, _, units = event_id.partition(".")
    return int(seq), int(units or -1)


def is_locked(database: Path) -> bool:
    """Whether a process is writing."""
    connection = sqlite3.connect(database, timeout=0.05, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


def wait_until(holds: Any, what: str) -> None:
    """Poll until it holds."""
    ends = CLOCK.monotonic() + PATIENCE
    while not holds():
        assert CLOCK.monotonic() < ends, f"waited {PATIENCE} s for {what}"


def events(talk: Talk, server: Server) -> list[dict[str, Any]]:
    """Return every event of the task."""
    task_id = talk.frames[0][1]["taskId"]
    answer = server.client.get(f"/tasks/{task_id}/events", params={"limit": 200})
    listed: list[dict[str, Any]] = answer.json()["events"]
    return listed


def effects(directory: Path) -> list[str]:
    """Return what the tools did, in order."""
    return (directory / "effects").read_text().splitlines()
